"""Many fits from beginning to end: what is left to do is given out, and all of it is told.

An attempt at a fit is counted before, in the process that makes it, and written down afterwards.
One page links the report of each.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from importlib import import_module
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import quote

from riesz.cli import progress_bar
from riesz.errors import RieszError, error_sentence
from riesz.io import write_bytes
from riesz_many.ledger import (
    DONE,
    FAILED,
    RUNNING,
    SUSPECTED,
    WAITING,
    Row,
    assembling,
    coordinating,
    fitting,
    ledger_rows,
    read_row,
    waiting,
    write_ledger,
    write_row,
)
from riesz_many.options import Campaign
from riesz_many.scheduler import Task, TaskOutcome, run_tasks
from riesz_many.sites import MANIFEST, REPORT, Digests, Order, Site, sites_in

SECONDS_BETWEEN_TABLES = 30.0

Told = Callable[[str], None]

SITE_FIT = "riesz_many.site_fit"
"""Imported after an attempt is counted: what takes down a process may happen there too."""

PAGE = "index.html"
SHOWN_BY = (REPORT, "summary.txt")
"""What a name leads to: the first of these that is there."""


def fit_sites(
    campaign: Campaign,
    *,
    progress: bool = True,
    told: Told = lambda message: None,
) -> list[Row]:
    """Fit all that is not done; the rows of all, done before or now."""
    sites, left_out = sites_in(campaign.source, campaign.runs, campaign.seed)
    for message in left_out:
        told(f"note: {message}")
    return fit_all(campaign, sites, progress=progress, told=told)


def fit_all(
    campaign: Campaign,
    sites: Sequence[Site],
    *,
    progress: bool = True,
    told: Told = lambda message: None,
) -> list[Row]:
    """The same for sites that are known already."""
    if not sites:
        return []
    described = Digests(campaign.settings)
    every = sorted(map(described.site, sites), key=by_compilation)
    own = sites_of_part(every, campaign.part)
    result: dict[str, Row] = {}  # which a full disk keeps out of the ledger
    with coordinating(campaign.runs, campaign.part):
        pending = pending_sites(campaign, own)
        told(f"{len(own) - len(pending)} of {len(own)} fits are done; {len(pending)} to do")
        try:
            with show_progress(len(own), len(own) - len(pending), progress) as seen:
                for row in work_off(campaign, pending):
                    result[row.name] = row
                    seen.add(row)
                    if seen.is_time():
                        write_overview(campaign, every, result)
        finally:
            failed = write_overview(campaign, every, result)
    rows = [
        result.get(site.name) or row
        for site, row in zip(own, ledger_rows(campaign.runs, own), strict=True)
    ]
    if failed is not None and all(row.state == DONE for row in rows):
        raise failed
    return rows


def by_compilation(site: Site) -> tuple[bool, str, str]:
    return site.quickly, site.group, site.name


def sites_of_part(sites: list[Site], part: tuple[int, int] | None) -> list[Site]:
    """Neighbours, which share programs."""
    if part is None:
        return sites
    number, count = part
    ends = [math.floor(k * len(sites) / count) for k in (number - 1, number)]
    return sites[ends[0] : ends[1]]


def pending_sites(campaign: Campaign, sites: Sequence[Site]) -> list[Site]:
    """All but what is done; raises where what was done is no more what is asked for."""
    pending, changed = [], []
    for site in sites:
        row = read_row(campaign.runs, site.name)
        whole = (campaign.runs / site.name / MANIFEST).is_file()
        if row is not None and row.digest != site.digest and (whole or row.state == DONE):
            changed.append(site.name)
        if row is None or row.state != DONE or row.digest != site.digest or not whole:
            pending.append(site)
        if row is not None and row.state == DONE and not whole and row.digest == site.digest:
            write_row(campaign.runs, waiting(site))  # somebody removed the run
    if changed and not campaign.refit:
        names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if changed[5:] else "")
        raise RieszError(
            f"{campaign.runs} holds fits of {names} whose files, seed or settings were others: "
            "add --refit to replace them, or choose another --out."
        )
    return pending


def work_off(campaign: Campaign, pending: Sequence[Site]) -> Iterator[Row]:
    """The row of each site; in the end, one by one, of those whose process ended too often."""
    suspected: list[Order] = []
    for order, row in attempts_of(campaign, [order_for(campaign, site) for site in pending]):
        if row.state == SUSPECTED:
            suspected.append(order)
        else:
            yield row
    for order in suspected:
        last = replace(order, attempts=campaign.attempts + 1, is_last=True)
        for _, row in attempts_of(campaign, [last]):
            yield row


def order_for(campaign: Campaign, site: Site) -> Order:
    runs = str(campaign.runs.resolve())
    own = replace(site, problem=str(Path(site.problem).resolve()))
    # Only here does a process do other things as well.
    settles = campaign.settles or not campaign.is_alone
    shared = (campaign.settings, campaign.attempts, campaign.reports)
    return Order(own, runs, *shared, settles=settles)


def attempts_of(campaign: Campaign, orders: Sequence[Order]) -> Iterator[tuple[Order, Row]]:
    if campaign.is_alone:
        for order in orders:
            yield order, attempt(order)
        return
    # A process is made for one way of compiling, so that numbers are those of `riesz fit`.
    kinds = groupby(orders, key=lambda order: order.site.quickly and campaign.pool.cluster is None)
    for quickly, members in kinds:
        own = list(members)
        tasks = [Task((order,), order.site.group) for order in own]
        jobs = min(campaign.pool.num_here, len(own))
        pool = replace(campaign.pool, threads=1 if quickly else None)
        pool = pool if pool.cluster else replace(pool, jobs=jobs)
        outcomes = run_tasks(attempt, tasks, pool)
        begun: set[int] = set(range(len(own)))
        try:
            for outcome in outcomes:
                begun.discard(outcome.place)
                yield own[outcome.place], outcome_row(campaign, own[outcome.place], outcome)
        except (KeyboardInterrupt, GeneratorExit):
            outcomes.close()  # processes end here, and what they were at is not their fault
            for place in begun:
                uncount(campaign, own[place])
            raise


def outcome_row(campaign: Campaign, order: Order, outcome: TaskOutcome) -> Row:
    if outcome.error is None:
        return outcome.value
    before = read_row(campaign.runs, order.site.name) or waiting(order.site)
    message = f"{type(outcome.error).__name__}: {outcome.error}"
    return replace(before, state=FAILED, message=message)


def uncount(campaign: Campaign, order: Order) -> None:
    row = read_row(campaign.runs, order.site.name)
    if row is not None and row.state == RUNNING:
        write_row(campaign.runs, replace(row, state=WAITING, attempts=row.attempts - 1))


class FitProgress:
    """What the user sees while fits are done."""

    def __init__(self, bar: Any, number: Any):
        self.bar, self.number = bar, number
        self.failed = 0
        self.written = monotonic()

    def add(self, row: Row) -> None:
        self.failed += row.state == FAILED
        told = f"{self.failed} failed" if self.failed else ""
        self.bar.update(self.number, advance=1, terms=told)

    def is_time(self) -> bool:
        """Whether those who look into the folder have waited long enough."""
        if monotonic() - self.written < SECONDS_BETWEEN_TABLES:
            return False
        self.written = monotonic()
        return True


@contextmanager
def show_progress(total: int, done: int, progress: bool) -> Iterator[FitProgress]:
    with progress_bar(progress) as seen:
        yield FitProgress(seen, seen.add_task("fits", total=total, completed=done, terms=""))


def write_overview(
    campaign: Campaign, sites: Sequence[Site], found: Mapping[str, Row]
) -> RieszError | None:
    """Write the table and the page of all parts; returns why that could not be done."""
    runs = campaign.runs
    try:
        with assembling(runs):
            rows = [found.get(row.name, row) for row in ledger_rows(runs, sites)]
            rows.sort(key=lambda row: row.name)
            write_ledger(runs, rows)
            write_page(runs, rows)
    except RieszError as error:
        return error
    return None


def counts(rows: Sequence[Row]) -> dict[str, int]:
    """How many fits have each verdict, or are in another state."""
    return dict(Counter(str(row.verdict) if row.state == DONE else row.state for row in rows))


def attempt(order: Order) -> Row:
    """The row of a fit after one attempt, which is also in the ledger unless the disk is full."""
    try:
        with fitting(Path(order.runs), order.site.name):
            return take_up(order)
    except RieszError as error:
        return replace(waiting(order.site), state=FAILED, message=str(error))


def take_up(order: Order) -> Row:
    runs, site = Path(order.runs), order.site
    out = runs / site.name
    before = read_row(runs, site.name)
    if before is not None and before.digest != site.digest:
        # Only where the user asked for it: others are told of, and nothing is given out.
        import_module(SITE_FIT).remove_run(out)
        before = None
    whole = before is not None and (out / MANIFEST).is_file()
    if before is not None and whole and before.state == DONE:
        return before
    if before is not None and whole:
        return conclude(order, before, lambda how: how.adopt_run(order, before, out))
    died = 0 if before is None else before.died
    if before is not None and died >= order.attempts:
        return give_up(order, before)
    row = replace(waiting(site), state=RUNNING, attempts=died + 1)
    write_row(runs, row)
    start = perf_counter()

    def fit_rows(how: Any) -> Row:
        result = how.fit_site(order, row, out)
        return replace(result, seconds=round(perf_counter() - start, 2))

    return conclude(order, row, fit_rows)


def conclude(order: Order, row: Row, made: Callable[[Any], Row]) -> Row:
    """The row as it is in the end, whatever goes wrong."""
    runs = Path(order.runs)
    try:
        row = made(import_module(SITE_FIT))
    except KeyboardInterrupt:
        write_row(runs, replace(row, state=WAITING, attempts=row.attempts - 1))
        raise
    except Exception as error:
        row = replace(row, state=FAILED, message=failure_text(error, order))
    return record_row(runs, row)


def give_up(order: Order, before: Row) -> Row:
    if not order.is_last:
        return replace(before, state=SUSPECTED)
    message = (
        f"the process that fitted it ended {before.died} times without a word: it crashed, ran out "
        f"of memory, or was killed. See how by itself: {alone(order)}"
    )
    return record_row(Path(order.runs), replace(before, state=FAILED, message=message))


def record_row(runs: Path, row: Row) -> Row:
    """The row; where it could not be kept, as failed: the next run finds what there is."""
    try:
        write_row(runs, row)
    except RieszError as error:
        return replace(row, state=FAILED, message=row.message or str(error))
    return row


def failure_text(error: Exception, order: Order) -> str:
    if isinstance(error, RieszError):
        return str(error)
    return f"{type(error).__name__}: {error_sentence(error)} See it by itself: {alone(order)}"


def alone(order: Order) -> str:
    return f"riesz fit {order.site.problem} --seed {order.site.seed} --out NEW"


def write_page(runs: Path, rows: Sequence[Row]) -> None:
    heading = f"{len(rows)} fits in {runs.resolve().name}"
    template = files("riesz_many").joinpath("overview.html").read_text(encoding="utf-8")
    seconds = sum(row.seconds or 0.0 for row in rows)
    page = Template(template).substitute(
        title=escape(heading),
        heading=escape(heading),
        intro=f"{sum(row.state == DONE for row in rows)} are done, in {seconds:.0f} seconds of "
        'fitting. The same as a table: <a href="ledger.csv">ledger.csv</a>.',
        counts="\n".join(
            f"<li>{mark(word)} {count}</li>"
            for word, count in Counter(map(verdict_text, rows)).most_common()
        ),
        rows="\n".join(line(runs, row) for row in rows),
    )
    write_bytes(runs / PAGE, page.encode())


def verdict_text(row: Row) -> str:
    """The verdict on a fit that is done, or how far it is."""
    return row.verdict or DONE if row.state == DONE else row.state


def mark(word: str) -> str:
    return f'<span class="level {escape(word.replace(" ", "-"))}">{escape(word)}</span>'


def line(runs: Path, row: Row) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
    message = f'<div class="message">{escape(row.message)}</div>' if row.message else ""
    return (
        f'<tr><td>{link(runs, row)}{message}</td><td class="verdict">{mark(verdict_text(row))}</td>'
        f'<td class="extra">{escape(row.engine or "")}</td>'
        f'<td class="number extra">{row.attempts}</td><td class="number">{seconds}</td></tr>'
    )


def link(runs: Path, row: Row) -> str:
    name = escape(row.name)
    for file in SHOWN_BY:
        if row.state == DONE and (runs / row.name / file).is_file():
            return f'<a href="{escape(quote(f"{row.name}/{file}"))}">{name}</a>'
    return name

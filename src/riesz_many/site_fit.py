"""The fit itself of one site, and what it is worth; all that takes a compiler is here."""

import shutil
from dataclasses import replace
from pathlib import Path

from riesz import read_problem, read_run
from riesz.case import Run, remove_unfinished, trust_level
from riesz_many.compiling import forget_programs, settle_process
from riesz_many.ledger import DONE, Row
from riesz_many.sites import REPORT, Order


def fit_site(order: Order, row: Row, out: Path) -> Row:
    """The row of a fit whose run folder is complete; one that was stopped goes on."""
    site, settings = order.site, order.settings
    if order.settles:
        settle_process(quickly=site.quickly)
        forget_programs()
    run = read_problem(site.problem).fit(
        out,
        settings.engine,
        density=settings.density,
        seed=site.seed,
        check=settings.check,
        time_limit=settings.time_limit,
        resume=True,
        progress=False,
    )
    return judge_run(order, row, run)


def judge_run(order: Order, row: Row, run: Run) -> Row:
    """What is told of a run; with its report, where one is wanted."""
    failed, row = run.numbers.get("failed"), replace(row, state=DONE, engine=run.numbers["engine"])
    if failed:
        return replace(row, verdict=trust_level(run), message=str(failed))
    if order.reports and not (run.folder / REPORT).is_file():
        return replace(row, verdict=run.report()["trust"])
    return replace(row, verdict=trust_level(run))


def adopt_run(order: Order, row: Row, out: Path) -> Row:
    """The row of a run that was complete when its process ended, before it could say so."""
    run = read_run(out)
    row = judge_run(order, row, run)
    remove_unfinished(out)
    return replace(row, seconds=run.numbers.get("seconds"))


def remove_run(out: Path) -> None:
    """The run of a problem that has changed, and what was begun of it."""
    shutil.rmtree(out, ignore_errors=True)
    remove_unfinished(out)

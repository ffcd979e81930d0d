"""One attempt at a fit, in the process that makes it: counted before, written down afterwards."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from riesz.errors import RieszError
from riesz.many.ledger import (
    DONE,
    FAILED,
    RUNNING,
    SUSPECTED,
    WAITING,
    Row,
    fitting,
    read_row,
    waiting,
    write_row,
)
from riesz.many.orders import Order
from riesz.many.sites import MANIFEST

SITE_FIT = "riesz.many.site_fit"
"""Imported after an attempt is counted: what takes down a process may happen there too."""


def attempted(order: Order) -> Row:
    """The row of a fit after one attempt, which is also in the ledger unless the disk is full."""
    try:
        with fitting(Path(order.runs), order.site.name):
            return taken_up(order)
    except RieszError as error:
        return replace(waiting(order.site), state=FAILED, message=str(error))


def taken_up(order: Order) -> Row:
    runs, site = Path(order.runs), order.site
    out = runs / site.name
    before = read_row(runs, site.name)
    if before is not None and before.digest != site.digest:
        # Only where the user asked for it: others are told of, and nothing is given out.
        import_module(SITE_FIT).removed(out)
        before = None
    whole = before is not None and (out / MANIFEST).is_file()
    if before is not None and whole and before.state == DONE:
        return before
    if before is not None and whole:
        return concluded(order, before, lambda how: how.taken_over(order, before, out))
    died = 0 if before is None else before.died
    if before is not None and died >= order.attempts:
        return given_up(order, before)
    row = replace(waiting(site), state=RUNNING, attempts=died + 1)
    write_row(runs, row)
    start = perf_counter()

    def fitted(how: Any) -> Row:
        found = how.fitted(order, row, out)
        return replace(found, seconds=round(perf_counter() - start, 2))

    return concluded(order, row, fitted)


def concluded(order: Order, row: Row, made: Callable[[Any], Row]) -> Row:
    """The row as it is in the end, whatever goes wrong."""
    runs = Path(order.runs)
    try:
        row = made(import_module(SITE_FIT))
    except KeyboardInterrupt:
        write_row(runs, replace(row, state=WAITING, attempts=row.attempts - 1))
        raise
    except Exception as error:
        row = replace(row, state=FAILED, message=told(error, order))
    return written(runs, row)


def given_up(order: Order, before: Row) -> Row:
    if not order.is_last:
        return replace(before, state=SUSPECTED)
    message = (
        f"the process that fitted it ended {before.died} times without a word: it crashed, ran out "
        f"of memory, or was killed. See how by itself: {alone(order)}"
    )
    return written(Path(order.runs), replace(before, state=FAILED, message=message))


def written(runs: Path, row: Row) -> Row:
    """The row; where it could not be kept, as failed: the next run finds what there is."""
    try:
        write_row(runs, row)
    except RieszError as error:
        return replace(row, state=FAILED, message=row.message or str(error))
    return row


def told(error: Exception, order: Order) -> str:
    if isinstance(error, RieszError):
        return str(error)
    reason = import_module(SITE_FIT).reason(error)
    return f"{type(error).__name__}: {reason} See it by itself: {alone(order)}"


def alone(order: Order) -> str:
    return f"riesz fit {order.site.problem} --seed {order.site.seed} --out NEW"

"""What drives a model in time: tables of recharge and of wells, and the lines that name them."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from jaxtyping import Float

from riesz.case.options import InitOptions
from riesz.case.start.columns import bare, is_numeric, pair_of
from riesz.case.start.lines import Dates, dates_in, quote, relative
from riesz.errors import FileFormatError
from riesz.io.tables.layers import TextTable, read_table
from riesz.notes import Note

WARM_UP = datetime.timedelta(days=5 * 365)
"""Before the first reading: what came earlier no longer matters."""

MOST_RECHARGE = 0.5
"""A day, in metres: more is a number of millimetres."""

RATES = r"(.*_)?(rate|q|discharge|pumping|abstraction|rate_.*|entnahme|förderung|débit|debit)(_.*)?"
NAMES = r"(.*_)?(name|well|id|station|brunnen|puits)(_.*)?"


@dataclass(frozen=True)
class Stress:
    """A table with a column of dates, and its lines in a problem file."""

    path: Path
    dates: Dates
    gap: datetime.timedelta  # between two rows
    lines: tuple[str, ...]
    note: Note

    @property
    def end(self) -> datetime.date:
        """Until when its last row holds; of months, to the end of one."""
        end = self.dates.last + self.gap
        is_monthly = self.dates.last.day == 1 and 27 < self.gap.days < 32
        return (self.dates.last + datetime.timedelta(32)).replace(day=1) if is_monthly else end


@dataclass(frozen=True)
class Stresses:
    """All that drives a model, and from when to when it is known."""

    each: tuple[Stress, ...]
    source: str  # what stands for the source in the equation
    shares: Mapping[str, str]  # unknown factors, and what they are

    def lines(self) -> str:
        return "".join(f"{line}\n" for one in self.each for line in (*one.lines, ""))

    def start(self, first: datetime.date) -> datetime.date:
        """Where all tables have begun, but not long before the first reading."""
        return max(*(one.dates.first for one in self.each), first - WARM_UP)

    def end(self, last: datetime.date) -> datetime.date:
        return max(min(one.end for one in self.each), last + datetime.timedelta(1))


def read_stresses(asked: InitOptions, folder: Path) -> Stresses:
    each, shares = [], {}
    if asked.recharge is not None:
        each.append(recharge_of(Path(asked.recharge), folder))
        shares["share"] = "of the recharge that arrives"
    if asked.wells is not None:
        each.append(wells_stress(Path(asked.wells), folder))
        shares["pumped"] = "of the rates that is taken from here, and not from other layers"
    source = "0.0                 # no recharge was given: name a table by --recharge"
    if asked.recharge is not None:
        source = '"recharge"          # by area and day, from the table below'
    return Stresses(tuple(each), source, shares)


def read_dated_table(path: Path) -> tuple[TextTable, Dates, datetime.timedelta]:
    table = read_table(path, value="value")
    dates = dates_in(table, of_any_name=True)
    if dates is None or dates.first == dates.last:
        raise FileFormatError(
            f"{path}: no column of dates such as 1990-01-01 was found among "
            f"{', '.join(table.header)}: a row is what holds from its date on."
        )
    days = sorted({day.toordinal() for day in dates.days})
    return table, dates, datetime.timedelta(median(np.diff(days).tolist()))


def recharge_of(path: Path, folder: Path) -> Stress:
    table, dates, gap = read_dated_table(path)
    value, values = number_column(table, (dates.column,), "(?!)")
    if np.nanmax(np.abs(values)) > MOST_RECHARGE:
        raise FileFormatError(
            f"{path}: {value} goes up to {np.nanmax(np.abs(values)):g}: recharge is a length a day "
            "in the unit of the coordinates and heads, such as 0.002 m; divide millimetres by 1000."
        )
    lines = (
        "[series.recharge]            # may be negative where more evaporates",
        f"file = {quote(relative(path, folder))}",
        f"date = {quote(dates.column)}   # a row holds from its date on",
        f"value = {quote(value)}   # a length a day",
        'factor = "share"             # an unknown, below',
    )
    note = Note("recharge_table", **dates.values() | {"column": value})
    return Stress(path, dates, gap, lines, note)


def wells_stress(path: Path, folder: Path) -> Stress:
    table, dates, gap = read_dated_table(path)
    x, y, _ = pair_of(table, (), None, None)
    rate, values = number_column(table, (dates.column, x, y), RATES)
    if np.nanmax(values) > 0 >= -np.nanmin(values):
        raise FileFormatError(
            f"{path}: all rates, in {rate}, are positive, which puts water in: write what is taken "
            "out with a minus."
        )
    name = next((one for one in table.header if re.fullmatch(NAMES, bare(one))), None)
    lines = (
        "[[wells]]                    # rates in volumes a day, negative where water is taken out",
        f"file = {quote(relative(path, folder))}",
        f"x = {quote(x)}",
        f"y = {quote(y)}",
        f"rate = {quote(rate)}",
        f"date = {quote(dates.column)}   # a row holds from its date on",
        *([] if name is None else [f"name = {quote(name)}"]),
        'share = "pumped"             # an unknown, below',
    )
    note = Note("wells_table", **dates.values() | {"column": rate})
    return Stress(path, dates, gap, lines, note)


def number_column(
    table: TextTable, taken: Sequence[str], pattern: str
) -> tuple[str, Float[np.ndarray, " row"]]:
    """The column that is called as the pattern says, or else the first of numbers."""
    left = [name for name in table.header if name not in taken and is_numeric(table, name)]
    if not left:
        raise FileFormatError(
            f"{table.path}: no column of numbers is left beside {', '.join(taken)}, of "
            f"{', '.join(table.header)}."
        )
    name = next((one for one in left if re.fullmatch(pattern, bare(one))), left[0])
    return name, table.numbers(name)


def share_lines(shares: Mapping[str, str]) -> str:
    means = {"share": "1.0", "pumped": "0.5"}
    return "".join(
        f'[unknowns.{name}]   # {what}\nprior = "normal"\nmean = {means[name]}\nsd = 0.5\n\n'
        for name, what in shares.items()
    )

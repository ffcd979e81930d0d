"""Dates as tables write them: 1971-09-21, 21.09.1971, 9/21/1971 14:30, 1971-09-21T14:30+01:00.

A window of days is forgiving: cells that hold no day are in no window, and where a column leaves
open whether the day or the month comes first, it is the day. Times of a problem are not: they are
read in one way only, or not at all, since a reading at a wrong time is worse than none.
"""

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from riesz.errors import FileFormatError
from riesz.io.tables.numbers import is_none, number_in

DAY = re.compile(
    r"(?:(?P<year>\d{4})(?P<dash>[-/.])(?P<month>\d{1,2})(?P=dash)(?P<day>\d{1,2})"
    r"|(?P<packed>\d{8})"
    r"|(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d{2}))"
    r"(?:[T ,]\s*(?P<clock>.*))?"
)
CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[AP])\.?M\.?)?\s*(?P<zone>Z|UTC|GMT|[-+]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE,
)

CENTURY = 70
"""Years of two digits from here on are of the twentieth century."""

DAYS, YEARS = "days", "years"
"""What numbers in a column of times may count."""

ISO = "1971-09-21 or 1971-09-21T14:30"

DAY_FIRST, MONTH_FIRST = "day first", "month first"

PACKED = re.compile(r"[12]\d{7}")
"""A day without marks, 19710921; other numbers are numbers."""

SECONDS = 86_400.0
"""Of a day."""

Numbers = Float[np.ndarray, " row"]
Flags = Bool[np.ndarray, " row"]
Moments = Shaped[np.ndarray, " row"]
"""Of the type datetime64[s]."""


@dataclass(frozen=True)
class Days:
    """A day for each cell, None where there is none; and in which order days were read."""

    found: list[datetime.date | None]
    order: str  # in words; empty where there is no other


def days_in(cells: Sequence[str | None]) -> Days:
    """A column of days, the day before the month unless some cell makes that impossible."""
    parts = [DAY.fullmatch(cell or "") for cell in cells]
    year_last = [one for one in parts if one and one["first"]]
    order = ""
    if year_last:
        firsts, seconds = ([int(one[i]) for one in year_last] for i in ("first", "second"))
        order = MONTH_FIRST if max(seconds) > 12 >= max(firsts) else DAY_FIRST
    return Days([one and day_of(one, order) for one in parts], order)


def day_of(parts: re.Match[str], order: str) -> datetime.date | None:
    """None where there is no such day."""
    if parts["packed"]:
        whole = parts["packed"]
        return date_of(whole[:4], whole[4:6], whole[6:])
    if parts["year"]:
        return date_of(parts["year"], parts["month"], parts["day"])
    turned = ("first", "second") if order == MONTH_FIRST else ("second", "first")
    year = parts["last"]
    if len(year) == 2:
        year = f"{19 if int(year) >= CENTURY else 20}{year}"
    return date_of(year, *(parts[one] for one in turned))


def date_of(year: str, month: str, day: str) -> datetime.date | None:
    try:
        return datetime.date(int(year), int(month), int(day))
    except ValueError:
        return None


@dataclass(frozen=True, eq=False)
class Times:
    """When the rows of a table were: dates, or numbers of days that no date goes with.

    `order` and `zone` say in words how dates were read, where there is another way.
    """

    moments: Moments | None
    numbers: Numbers  # days since the origin
    origin: np.datetime64 | None = None
    order: str = ""
    zone: str = ""

    def rows(self, which: Flags | Int[np.ndarray, " row"]) -> "Times":
        """Some of the rows."""
        moments = None if self.moments is None else self.moments[which]
        return replace(self, moments=moments, numbers=self.numbers[which])

    def values(self) -> Moments | Numbers:
        """Dates where there are any, and else numbers."""
        return self.numbers if self.moments is None else self.moments

    def format(self) -> list[str] | list[float]:
        """As they are read again."""
        return self.numbers.tolist() if self.moments is None else format_dates(self.moments)


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of a column of times, its name, and where its rows are, for messages."""

    cells: Sequence[str]
    name: str
    at: Callable[[int], str]

    def wrong(self, which: Sequence[bool] | Flags, what: str, advice: str) -> FileFormatError:
        """The first of some rows, and how many there are."""
        row, count = int(np.argmax(which)), int(np.sum(which))
        parts = [repr(self.cells[row]) if self.cells[row] else "empty", *([what] if what else [])]
        others = f" ({count} of {len(self.cells)} rows are like that)" if count > 1 else ""
        where = f"{self.at(row)}: {self.name} is {', '.join(parts)}{others}"
        return FileFormatError(f"{where}: {advice}")


def times_in(
    cells: Sequence[str | None],
    name: str,
    at: Callable[[int], str],
    *,
    numbers: str = DAYS,
    order: str = "",
    origin: np.datetime64 | None = None,
) -> Times:
    """The times in a column, all written alike; raises, with the row, where that is not so.

    `numbers` is what numbers count: days, since the `origin` if there is one, or years, with
    fractions. `order`, day first or month first, is of use where nothing in the column tells. Days
    are counted from the `origin`, by default the midnight before the first. Times are kept as they
    are written, whatever their one time zone.
    """
    column = Column([cell or "" for cell in cells], name, at)
    empty = [is_none(cell) for cell in column.cells]
    if any(empty):
        raise column.wrong(empty, "", "every row needs its time; fill it, or filter such rows out.")
    if all(map(is_count, column.cells)):
        return times_from_numbers(column, numbers, origin)
    parts = match_dates(column)
    check_alike(column, parts)
    read = date_order(column, parts, order)
    days = [day_of(one, read) for one in parts]
    missing = [day is None for day in days]
    if any(missing):
        what = f"and there is no such day{read and f' with the {read}'}"
        raise column.wrong(missing, what, "correct it.")
    seconds, zone = seconds_in(column, parts)
    midnights = np.array(days, "datetime64[s]")
    return times_from(midnights + seconds.astype("timedelta64[s]"), origin, read, zone)


def times_from(
    moments: Moments, origin: np.datetime64 | None, order: str = "", zone: str = ""
) -> Times:
    begin = moments.min().astype("datetime64[D]") if origin is None else origin
    begin = begin.astype("datetime64[s]")
    return Times(moments, (moments - begin) / np.timedelta64(1, "D"), begin, order, zone)


def moments_at(days: Numbers, origin: np.datetime64) -> Moments:
    """Of days since an origin, to the second."""
    seconds = np.round(days * SECONDS).astype("timedelta64[s]")
    return origin.astype("datetime64[s]") + seconds


def format_dates(moments: Moments) -> list[str]:
    """As ISO writes them: days where all are midnights, minutes where no seconds are needed."""
    exact = np.asarray(moments, "datetime64[s]")
    coarser = [exact.astype(f"datetime64[{unit}]") for unit in ("D", "m", "s")]
    return np.datetime_as_string(next(one for one in coarser if (one == exact).all())).tolist()


def is_count(cell: str) -> bool:
    """Whether a cell holds a number that is no day written without marks."""
    return bool(np.isfinite(number_in(cell))) and not PACKED.fullmatch(cell)


def times_from_numbers(column: Column, what: str, origin: np.datetime64 | None) -> Times:
    """From numbers; years with fractions have dates: 1971.5 is the middle of that year."""
    numbers = np.array([number_in(cell) for cell in column.cells])
    if what == DAYS:
        return Times(None if origin is None else moments_at(numbers, origin), numbers, origin)
    odd = ~((numbers >= 1) & (numbers < 10_000))
    if odd.any():
        raise column.wrong(odd, "no year", "give years such as 1971.72, or dates.")
    whole = np.floor(numbers).astype(int)
    first, after = (
        (one - 1970).astype("datetime64[Y]").astype("datetime64[s]") for one in (whole, whole + 1)
    )
    part = np.round((numbers - whole) * (after - first).astype(float))
    return times_from(first + part.astype("timedelta64[s]"), origin)


def match_dates(column: Column) -> list[re.Match[str]]:
    """Raises where a cell is no date at all, or some are numbers and some are dates."""
    result = [DAY.fullmatch(cell) for cell in column.cells]
    counts = np.array([is_count(cell) for cell in column.cells])
    strange = np.array([one is None for one in result]) & ~counts
    if strange.any():
        raise column.wrong(strange, "no date", f"write {ISO}.")
    if counts.any():
        other = column.cells[int(np.argmin(counts))]
        what = f"a number, but other rows have dates such as {other!r}"
        raise column.wrong(counts, what, f"write all as {ISO}.")
    return [one for one in result if one is not None]


def check_alike(column: Column, parts: list[re.Match[str]]) -> None:
    """Raise where dates are written in several ways, or a century is left open."""
    short = [len(one["last"] or "") == 2 for one in parts]
    if any(short):
        what, advice = "which leaves the century open", "write years with four digits."
        raise column.wrong(short, what, advice)
    ways = [(one["dash"], one["mark"], bool(one["packed"])) for one in parts]
    other = [one != ways[0] for one in ways]
    if any(other):
        what = f"but {column.at(0)} has {column.cells[0]!r}"
        raise column.wrong(other, what, f"write all in one way, such as {ISO}.")


def date_order(column: Column, parts: list[re.Match[str]], given: str) -> str:
    """Whether days or months come first; empty where years do."""
    if not parts[0]["first"]:
        return ""
    first, second = (np.array([int(one[i]) for one in parts]) for i in ("first", "second"))
    if (first > 12).any() and (second > 12).any():
        row = int(np.argmax(first > 12))
        what = f"with the month first, but {column.at(row)} has {column.cells[row]!r}"
        raise column.wrong(second > 12, what, f"write all as {ISO}.")
    order = DAY_FIRST if (first > 12).any() else MONTH_FIRST if (second > 12).any() else ""
    if given and order and order != given:
        odd = (first if order == DAY_FIRST else second) > 12
        raise column.wrong(odd, f"not {given}", "correct the order that was given.")
    # Points stand between day, month and year in that order; else both orders are usual.
    if parts[0]["mark"] == "." or (first == second).all():
        order = order or DAY_FIRST
    if order or given:
        return given or order
    row = int(np.argmax(first != second))
    one, other = first[row], second[row]
    raise FileFormatError(
        f"{column.at(row)}: {column.name} is {column.cells[row]!r}, day {one} of month {other} or "
        f"day {other} of month {one}, and no other row tells which: write all as {ISO}."
    )


def seconds_in(column: Column, parts: list[re.Match[str]]) -> tuple[Numbers, str]:
    """Seconds of the day, zero without a time; and the one time zone, if any."""
    texts = [(one["clock"] or "").strip() for one in parts]
    clocks = [CLOCK.fullmatch(one) for one in texts]
    seconds = np.array([second_of_day(one) for one in clocks])
    timed = np.array([one != "" for one in texts])
    strange = timed & ~np.isfinite(seconds)
    if strange.any():
        raise column.wrong(strange, "which has no time of day", f"write {ISO}.")
    zones = [zone_of(one) for one in clocks]
    first = int(np.argmax(timed))
    other = timed & np.array([one != zones[first] for one in zones])
    if other.any():
        pair = zones[int(np.argmax(other))], zones[first]
        mine, known = (f"in the time zone {z}" if z else "without a time zone" for z in pair)
        what = f"{mine}, but {column.at(first)} has {column.cells[first]!r}, {known}"
        raise column.wrong(other, what, "write all times in one time zone.")
    return np.where(timed, seconds, 0.0), zones[first]


def second_of_day(clock: re.Match[str] | None) -> float:
    """NaN where there is no such time; 24:00 is the end of the day."""
    if clock is None:
        return np.nan
    hour, minute, second = (int(clock[one] or 0) for one in ("hour", "minute", "second"))
    if clock["half"]:
        if not 1 <= hour <= 12:
            return np.nan
        hour = hour % 12 + (12 if clock["half"] in "pP" else 0)
    result = 3600.0 * hour + 60 * minute + second
    return result if minute < 60 and second < 60 and result <= SECONDS else np.nan


def zone_of(clock: re.Match[str] | None) -> str:
    """As +01:00; empty where there is none."""
    zone = "" if clock is None else clock["zone"] or ""
    if zone[:1] not in ("+", "-"):
        return "+00:00" if zone else ""
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return f"{'+' if digits == '0000' else zone[0]}{digits[:2]}:{digits[2:]}"

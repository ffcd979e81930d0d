"""Days as tables write them: 1971-09-21, 21.09.1971, 21/09/71, with or without a time."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].*)?|(\d{4})(\d{2})(\d{2})")
YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?:[T ,].*)?")

CENTURY = 70
"""Years of two digits from here on are of the twentieth century."""


@dataclass(frozen=True)
class Days:
    """A day for each cell, None where there is none; and in which order days were read."""

    found: list[datetime.date | None]
    order: str  # in words; empty where there is no other


def days_in(cells: Sequence[str | None]) -> Days:
    """A column of days, the day before the month unless some cell makes that impossible."""
    numbers = [YEAR_LAST.fullmatch(cell or "") for cell in cells]
    if not any(numbers):
        return Days([written_plainly(cell or "") for cell in cells], "")
    firsts, seconds = ([int(one[i]) for one in numbers if one] for i in (1, 3))
    month_first = max(seconds) > 12 >= max(firsts)
    found = [
        written_plainly(cell or "") if one is None else day_of(one, month_first=month_first)
        for cell, one in zip(cells, numbers, strict=True)
    ]
    return Days(found, f"{'month' if month_first else 'day'} first")


def written_plainly(cell: str) -> datetime.date | None:
    parts = YEAR_FIRST.fullmatch(cell)
    return None if parts is None else date_of(*(int(one) for one in parts.groups() if one))


def day_of(parts: re.Match[str], *, month_first: bool) -> datetime.date | None:
    first, second, year = int(parts[1]), int(parts[3]), int(parts[4])
    if len(parts[4]) == 2:
        year += 1900 if year >= CENTURY else 2000
    return date_of(year, *((first, second) if month_first else (second, first)))


def date_of(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None

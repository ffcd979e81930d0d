"""What is odd about numbers in a table: stand-ins for no value, one far from all others."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.notes import Note

STAND_INS = (-99.0, -99.9, -999.0, -999.9, -999.25, -9999.0, -9999.9, -99999.0, -999999.0)
STAND_INS_ABOVE = (999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 1e20, 1e30)
"""What programs write for no value; numbers that a measurement may give as well."""

MOST_NAMED = 8
"""Rows that a note names."""

FEWEST = 5
"""Numbers from which one can be told to be far from the others."""

Numbers = Float[np.ndarray, " row"]


def stand_ins(numbers: Numbers) -> Bool[np.ndarray, " row"]:
    """Which numbers stand for no value: one of the customary ones, and clearly away from others.

    That is by more than all others differ, or as the only negative one.
    """
    finite = np.isfinite(numbers)
    candidates = np.isin(numbers, (*STAND_INS, *STAND_INS_ABOVE)) & finite
    others = numbers[finite & ~candidates]
    if not candidates.any() or not others.size:
        return np.zeros(len(numbers), dtype=bool)
    low, high = others.min(), others.max()
    away = (numbers < low - (high - low)) | (numbers > high + (high - low))
    return candidates & (away | ((numbers < 0) & (low >= 0)))


def far_outlier(numbers: Numbers) -> int | None:
    """The row of one number that is farther from the next than all others are from one another.

    Of positive numbers their logarithms must be so too: some are skewed, but not by slips.
    """
    if len(numbers) < FEWEST or not np.isfinite(numbers).all():
        return None
    row = outlier_row(numbers)
    if row is not None and (numbers > 0).all() and outlier_row(np.log(numbers)) != row:
        return None
    return row


def swap_notes(x: str, y: str) -> list[Note]:
    """What to say where columns are named as latitude and longitude, in that order."""
    named = (r"(lat|breite)", x), (r"(lon|lng|l(ä|ae)nge)", y)
    is_turned = all(re.match(form, name.casefold()) for form, name in named)
    return [Note("axes_by_name", x=x, y=y)] if is_turned else []


def outlier_notes(columns: Mapping[str, Numbers], at: Callable[[int], str]) -> list[Note]:
    """Numbers that stand for no value, or are far from all others; `at` tells a row."""
    notes = []
    for name, numbers in columns.items():
        odd = np.flatnonzero(stand_ins(numbers))
        row = int(odd[0]) if odd.size else far_outlier(numbers)
        if row is None:
            continue
        what = {"where": at(row), "column": name, "value": numbers[row]}
        if odd.size:
            notes.append(Note("no_value", **what, count=odd.size, total=len(numbers)))
        else:
            notes.append(Note("far_outlier", **what))
    return notes


def outlier_row(numbers: Numbers) -> int | None:
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    if ranked[-1] - ranked[-2] > ranked[-2] - ranked[0] > 0:
        return int(order[-1])
    return int(order[0]) if ranked[1] - ranked[0] > ranked[-1] - ranked[1] > 0 else None


def format_rows(
    rows: Iterable[int], lines: Int[np.ndarray, " row"], of: Sequence[str] | None = None
) -> str:
    """Some rows by their lines and what they are called, the first of many."""
    every = [f"line {lines[row]}{'' if of is None else f' ({of[row]})'}" for row in rows]
    more = len(every) - MOST_NAMED
    return ", ".join(every[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def place_numbers(points: Float[np.ndarray, "row 2"]) -> Int[np.ndarray, " row"]:
    """The number of each row's place, by which readings of one are known."""
    return np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)

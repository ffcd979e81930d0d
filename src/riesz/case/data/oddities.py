"""What is odd about numbers in a table: stand-ins for no value, one far from all others."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

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


def swap_hint(x: str, y: str) -> list[str]:
    """What to say where columns are named as latitude and longitude, in that order."""
    named = (r"(lat|breite)", x), (r"(lon|lng|l(ä|ae)nge)", y)
    if not all(re.match(form, name.casefold()) for form, name in named):
        return []
    return [
        f"x is the column {x} and y is {y}: longitude is x; swap them if they are what they say"
    ]


def outlier_notes(columns: Mapping[str, Numbers], at: Callable[[int], str]) -> list[str]:
    """Numbers that stand for no value, or are far from all others, in words; `at` tells a row."""
    notes = []
    for name, numbers in columns.items():
        odd = np.flatnonzero(stand_ins(numbers))
        if odd.size:
            notes.append(
                f"{at(int(odd[0]))}: {name} is {numbers[odd[0]]:g} ({odd.size} of {len(numbers)} "
                "rows are like that): if that stands for no value, filter such rows out by where"
            )
        row = far_outlier(numbers) if not odd.size else None
        if row is not None:
            notes.append(
                f"{at(row)}: {name} is {numbers[row]:.10g}, far from all others: is it a slip?"
            )
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

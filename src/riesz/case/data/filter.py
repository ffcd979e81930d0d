"""Rows of a table by what their cells hold, and by dates."""

import datetime
from collections.abc import Mapping

import numpy as np

from riesz.case.data.schema import Filter
from riesz.errors import FileFormatError
from riesz.io.tables.text import TextTable, number_in, number_or_limit


def filtered(
    table: TextTable, where: Mapping[str, Filter], key: str
) -> tuple[TextTable, list[str]]:
    """The rows that pass every filter; raises where one leaves nothing."""
    told = []
    for name, wanted in where.items():
        cells = table.cells(name)
        passed = np.array([passes(cell or "", wanted) for cell in cells])
        if not passed.any():
            held = sorted({cell or "" for cell in cells})
            some = ", ".join(map(repr, held[:6])) + (", ..." if len(held) > 6 else "")
            raise FileFormatError(
                f"{table.path}: {key} = {{ {name} = {spoken(wanted)} }} leaves none of "
                f"{len(cells)} rows: {name} holds {some}."
            )
        told.append(f"{name} {spoken(wanted)} keeps {passed.sum()} of {len(cells)} rows")
        table = table.kept(passed)
    return table, told


def passes(cell: str, wanted: Filter) -> bool:
    if isinstance(wanted, list):
        return any(passes(cell, one) for one in wanted)
    if isinstance(wanted, dict):
        number = number_or_limit(cell)  # NaN is within no range
        return wanted.get("min", -np.inf) <= number <= wanted.get("max", np.inf)
    if isinstance(wanted, bool):
        return cell.lower() == str(wanted).lower()
    if isinstance(wanted, str):
        return cell == wanted
    return number_in(cell) == wanted


def spoken(wanted: Filter) -> str:
    if isinstance(wanted, dict):
        return " and ".join(f"{key} {bound:g}" for key, bound in wanted.items())
    if isinstance(wanted, list):
        return " or ".join(map(spoken, wanted))
    return repr(wanted)


def in_window(
    table: TextTable,
    name: str,
    first: datetime.date | None,
    last: datetime.date | None,
) -> tuple[TextTable, list[str]]:
    """The rows with a date in the window, both ends included; empty dates are in none."""
    dates = dates_of(table, name)
    if first is None and last is None:
        return table, []
    low, high = first or datetime.date.min, last or datetime.date.max
    inside = np.array([date is not None and low <= date <= high for date in dates])
    window = f"{name} from {first or 'the first'} to {last or 'the last'}"
    if not inside.any():
        known = [date for date in dates if date is not None]
        found = f"they go from {min(known)} to {max(known)}" if known else "all are empty"
        raise FileFormatError(f"{table.path}: no row has a {window}: {found}.")
    empty = sum(date is None for date in dates)
    told = f"{window} keeps {inside.sum()} of {len(dates)} rows"
    return table.kept(inside), [f"{told} ({empty} without a date)" if empty else told]


def dates_of(table: TextTable, name: str) -> list[datetime.date | None]:
    """The day of each row; a time of the day may follow."""
    found: list[datetime.date | None] = []
    for row, cell in enumerate(table.cells(name)):
        try:
            found.append(datetime.date.fromisoformat(cell[:10]) if cell else None)
        except ValueError:
            raise FileFormatError(
                f"{table.at(row)}: {name} is {cell!r}: give a date such as 1960-01-31, or filter "
                "such rows out by where."
            ) from None
    return found

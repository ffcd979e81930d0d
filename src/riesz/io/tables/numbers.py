"""Numbers as people write them: decimal commas, grouped thousands, words for none at all.

Python's own spelling is what all else reads. A cell that has one reading only is read so, `12,5`
and `1.234,5` as well as `1,234.5`; one that has two, `1.234` and `1,234`, follows its column, then
its table, then what goes with the way in which the table separates its columns.
"""

import math
import re
from collections.abc import Iterable, Sequence

Mark = str
"""A decimal mark: a comma or a point."""

BELOW = "<"
"""What cells begin with whose value is below a detection limit."""

SPACES = " \u00a0\u2009\u202f'\u2019"
"""What stands between groups of three digits, beside the mark that is not the decimal one."""

NO_VALUE = frozenset(
    (
        *("n/a", "N/A", "na", "NA", "n.a.", "N.A.", "n. a.", "#N/A", "#NV", "#N/D", "nan", "NaN"),
        *("null", "NULL", "none", "None", "missing", "fehlt", "manquant", "?"),
        *("k.A.", "k. A.", "k.a.", "k. a.", "keine Angabe", "-", "--", "---", "\u2013", "\u2014"),
    )
)
"""Words for no value, in columns of numbers. Not n.n. and n.d.: those were looked for."""

MOSTLY = 0.5
"""The share of cells, of those that hold anything, that are numbers in a column of numbers."""

PARTS = re.compile(
    rf"(?P<below>{BELOW}?)\s*(?P<sign>[-+\u2212]?)(?P<digits>[\d.,{SPACES}]*\d[\d.,{SPACES}]*)"
    r"(?P<power>[eE][-+]?\d+)?"
)
READINGS: dict[Mark, re.Pattern[str]] = {
    mark: re.compile(
        rf"(?P<whole>\d*|[1-9]\d{{0,2}}(?:(?P<group>[{SPACES}{other}])\d{{3}})"
        rf"(?:(?P=group)\d{{3}})*)(?:{re.escape(mark)}(?P<rest>\d*))?"
    )
    for mark, other in ((",", r"\."), (".", ","))
}
MARKED = re.compile(rf"\d[,{SPACES}]\d|,\d|\d,|\d\.\d{{3}}\.\d{{3}}|\u2212\d")
"""What a column must hold somewhere for it to need another spelling, whatever others hold."""

THOUSAND = re.compile(r"\d\.\d{3}(?!\d)")
"""What needs another spelling where others have decimal commas."""


def number_in(cell: str | None) -> float:
    """The finite number in a cell, in Python's spelling; NaN where there is none."""
    if not cell or "_" in cell:  # Python reads 1_0 as ten; in a table it is a slip
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def is_none(cell: str | None) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    return not cell or cell in NO_VALUE


def number_or_limit(cell: str | None) -> float:
    """The same, and of a value that is only known to lie below a limit, that limit."""
    return number_in((cell or "").removeprefix(BELOW).strip())


def marks_of(cell: str) -> frozenset[Mark]:
    """The decimal marks with which a cell can be read as a number; none where it is no number."""
    parts = PARTS.fullmatch(cell)
    if parts is None:
        return frozenset()
    digits = parts["digits"]
    return frozenset(mark for mark, form in READINGS.items() if form.fullmatch(digits))


def plainly(cell: str, mark: Mark) -> str:
    """A number with this decimal mark in Python's spelling; other cells as they are."""
    parts = PARTS.fullmatch(cell)
    result = None if parts is None else READINGS[mark].fullmatch(parts["digits"])
    if parts is None or result is None:
        return cell
    whole = result["whole"].replace(result["group"], "") if result["group"] else result["whole"]
    rest = "" if result["rest"] is None else f".{result['rest']}"
    sign = parts["sign"].replace("\u2212", "-")
    return f"{parts['below']}{sign}{whole}{rest}{parts['power'] or ''}"


def only_mark(cells: Iterable[str]) -> Mark | None:
    """The decimal mark of those cells that can be read in one way; None where they disagree."""
    result = {next(iter(marks)) for cell in cells if len(marks := marks_of(cell)) == 1}
    return result.pop() if len(result) == 1 else None


def is_column_of_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if not is_none(cell)]
    return sum(bool(marks_of(cell)) for cell in filled) > MOSTLY * len(filled)


def columns_with(
    form: re.Pattern[str], columns: Sequence[Sequence[str]]
) -> dict[int, Sequence[str]]:
    """Columns of numbers that hold something of a form, by their place."""
    return {
        i: cells
        for i, cells in enumerate(columns)
        if form.search("\n".join(cells)) and is_column_of_numbers(cells)
    }


def plain_columns(
    columns: Sequence[Sequence[str]], *, by_commas: bool
) -> tuple[Sequence[Sequence[str]], Mark]:
    """Columns of numbers in Python's spelling; others, and cells that are no numbers, as they are.

    `by_commas`: the table separates its columns by commas, and was not written with decimal ones.
    Returns the decimal mark of the table as well.
    """
    candidates = columns_with(MARKED, columns)
    if not candidates:
        return columns, "."
    candidates |= columns_with(THOUSAND, columns)
    own = {i: only_mark(cells) for i, cells in candidates.items()}
    votes = [mark for mark in own.values() if mark is not None]
    commas = votes.count(",")
    table: Mark | None = None if 2 * commas == len(votes) else "," if commas else "."
    if table is None and any("," in cell for cells in candidates.values() for cell in cells):
        table = "." if by_commas else ","
    plain: list[Sequence[str]] = list(columns)
    for i, cells in candidates.items():
        mark = own[i] or table or "."
        plain[i] = [plain_cell(cell, mark) for cell in cells]
    return plain, table or "."


def plain_cell(cell: str, mark: Mark) -> str:
    """A cell by its own decimal mark where it has one reading, and else by that of others."""
    marks = marks_of(cell)
    return plainly(cell, next(iter(marks)) if len(marks) == 1 else mark)

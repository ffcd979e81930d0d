"""Tables of text cells, whatever file they come from; numbers in them are told by their line."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FileFormatError
from riesz.spelling import nearest

BELOW = "<"
"""What cells begin with whose value is below a detection limit."""


@dataclass(frozen=True, eq=False)
class TextTable:
    """Named columns of cells, and the line of the file that each row came from.

    `table.numbers("head")` is a column of numbers, and an error where a cell holds none;
    `table.cells("site")` are its cells as they are written.
    """

    path: Path
    header: tuple[str, ...]
    rows: list[list[str]]  # without the blanks around cells; the last cells may be missing
    lines: Int[np.ndarray, " row"]
    place: str = "line"  # what `lines` counts
    crs: str | None = None  # of map layers

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def cells(self, name: str) -> list[str | None]:
        """A column; None where a row ends before it."""
        index = column_of(self.path, name, self.header)
        return [row[index] if index < len(row) else None for row in self.rows]

    def kept(self, which: Bool[np.ndarray, " row"]) -> "TextTable":
        """Some of the rows."""
        rows = [row for row, keep in zip(self.rows, which.tolist(), strict=True) if keep]
        return TextTable(self.path, self.header, rows, self.lines[which], self.place, crs=self.crs)

    def at(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"{self.path}, {self.place} {self.lines[row]}"

    def words(self, name: str) -> list[str]:
        """A column that every row has."""
        found = self.cells(name)
        if None in found:
            raise FileFormatError(f"{self.at(found.index(None))}: the row ends before {name}.")
        return [cell for cell in found if cell is not None]

    def numbers(self, name: str, *, may_be_missing: bool = False) -> Float[np.ndarray, " row"]:
        """A column of finite numbers, NaN where they may be missing and a cell is empty."""
        cells = self.cells(name)
        numbers = np.array([number_in(cell) for cell in cells])
        empty = np.array([cell == "" for cell in cells]) & may_be_missing
        self.check_finite(name, cells, np.where(empty, 0.0, numbers))
        return numbers

    def check_finite(
        self, name: str, cells: list[str | None], numbers: Float[np.ndarray, " row"]
    ) -> None:
        (bad,) = np.nonzero(~np.isfinite(numbers))
        if bad.size:
            found = "nothing" if cells[bad[0]] is None else repr(cells[bad[0]])
            raise FileFormatError(
                f"{self.at(int(bad[0]))}: {name} is {found}, not a finite number ({bad.size} of "
                f"{len(cells)} rows are like that): fill or remove them."
            )


def column_of(path: Path, name: str, header: tuple[str, ...]) -> int:
    if header.count(name) == 1:
        return header.index(name)
    if name in header:
        raise FileFormatError(f"{path} has {header.count(name)} columns {name!r}: rename one.")
    check_separated(path, header)
    known = ", ".join(header) or "none"
    raise FileFormatError(f"{path} has no column {name!r}: {nearest(name, header)}It has {known}.")


def check_separated(path: Path, header: tuple[str, ...]) -> None:
    """Raise where all columns were read as one."""
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        mark = "semicolons" if ";" in header[0] else "tabs"
        raise FileFormatError(f"{path} separates its columns by {mark}: use commas.")


def number_in(cell: str | None) -> float:
    """The finite number in a cell; NaN where there is none."""
    if not cell or "_" in cell:  # Python reads 1_0 as ten; in a table it is a slip
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def number_or_limit(cell: str | None) -> float:
    """The same, and of a value that is only known to lie below a limit, that limit."""
    return number_in((cell or "").removeprefix(BELOW).strip())

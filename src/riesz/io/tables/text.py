"""Tables of text cells, from CSV files or others; numbers in them are told by their line."""

import gzip
import io
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FileFormatError, nearest
from riesz.io.store.files import read_bytes
from riesz.io.tables.dates import DAYS, Times, times_in
from riesz.io.tables.dialect import Sheet, sheet_in
from riesz.io.tables.numbers import number_in

MOST_BYTES = 2**30
"""Of a table, unpacked: a small file may unpack to more than any memory holds."""


@dataclass(frozen=True, eq=False)
class TextTable:
    """Named columns of cells, and the line of the file that each row came from.

    `table.numbers("head")` is a column of numbers, and an error where a cell holds none;
    `table.cells("site")` are its cells as they are written.
    """

    path: Path
    header: tuple[str, ...]
    rows: list[list[str]]  # no blanks around cells, numbers as Python's; the last may be missing
    lines: Int[np.ndarray, " row"]
    place: str = "line"  # what `lines` counts
    crs: str | None = None  # of map layers
    told: tuple[str, ...] = ()  # how the file is written, in words, where that is not plain CSV

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
        return replace(self, rows=rows, lines=self.lines[which])

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

    def times(
        self,
        name: str,
        *,
        numbers: str = DAYS,
        order: str = "",
        origin: np.datetime64 | None = None,
    ) -> Times:
        """A column of times, all written alike: dates, or numbers of `DAYS` or `YEARS`."""
        cells = self.cells(name)
        return times_in(cells, name, self.at, numbers=numbers, order=order, origin=origin)

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
    known = ", ".join(header) or "none"
    raise FileFormatError(f"{path} has no column {name!r}: {nearest(name, header)}It has {known}.")


def read_csv(path: Path) -> TextTable:
    """A CSV file whose header names the columns; blank lines and remarks are skipped.

    Separators, decimal marks and the encoding are found; `told` says how.
    """
    return csv_table(path, read_bytes(path))


def csv_table(path: Path, content: bytes) -> TextTable:
    """The same from the bytes of a file."""
    return table_of_sheet(path, sheet_in(path, unpacked(path, content)))


def table_of_sheet(path: Path, sheet: Sheet, place: str = "line") -> TextTable:
    rows = [row for _, row in sheet.rows]
    lines = np.array([line for line, _ in sheet.rows])
    return TextTable(path, sheet.header, rows, lines, place, told=sheet.told)


def unpacked(path: Path, content: bytes) -> bytes:
    """Without the compression that the suffix .gz tells of."""
    if path.suffix.lower() != ".gz":
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{path} is not a whole gzip file: {error}.") from None
    if len(found) > MOST_BYTES:
        raise FileFormatError(
            f"{path} unpacks to more than {MOST_BYTES:.1e} bytes: keep the rows that are needed."
        )
    return found

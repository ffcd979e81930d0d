"""Tables of text cells, from CSV files or others; numbers in them are told by their line."""

import csv
import gzip
import io
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FileFormatError
from riesz.io.store.files import read_bytes
from riesz.spelling import nearest

BELOW = "<"
"""What cells begin with whose value is below a detection limit."""

Row = tuple[int, list[str]]
"""A line's number and its cells."""

MOST_SHOWN = 40
"""Letters of a first line that an error tells."""

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


def read_csv(path: Path) -> TextTable:
    """A CSV file whose first line names the columns; blank lines are skipped."""
    return csv_table(path, read_bytes(path))


def csv_table(path: Path, content: bytes) -> TextTable:
    """The same from the bytes of a file."""
    found = csv_rows(path, unpacked(path, content))
    rows = [(line, row) for line, row in found if any(map(str.strip, row))]
    if not rows:
        raise FileFormatError(f"{path} is empty: its first line must name the columns.")
    header = tuple(name.strip() for name in rows[0][1])
    kept = rows[1:]
    if not kept:
        raise FileFormatError(f"{path} has no rows below its first line: give at least one.")
    check_widths(path, header, kept)
    cells = [[cell.strip() for cell in row] for _, row in kept]
    return TextTable(path, header, cells, np.array([line for line, _ in kept]))


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


def csv_rows(path: Path, content: bytes) -> list[Row]:
    """All rows, each with the line on which it ends."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is not a text in UTF-8 (byte {error.start}): save it as CSV in UTF-8."
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise FileFormatError(f"{path}, line {reader.line_num}: {error}.") from None


def check_widths(path: Path, header: tuple[str, ...], rows: list[Row]) -> None:
    """Raise where a row goes on beyond the named columns: its numbers may have been cut in two."""
    num_named = max((i for i, name in enumerate(header, start=1) if name), default=0)
    for line, row in rows:
        found = max((i for i, cell in enumerate(row, start=1) if cell.strip()), default=0)
        if found > num_named == 1:
            check_separated(path, header)
            raise FileFormatError(
                f"{path}, line {line}: {found} columns were found, but the first line names only "
                f"{header[0][:MOST_SHOWN]!r}: it must name all of them; remove lines above that."
            )
        if found > num_named:
            raise FileFormatError(
                f"{path}, line {line}: {num_named} columns were expected, {found} found: decimal "
                "commas? use points."
            )

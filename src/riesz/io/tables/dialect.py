"""Tables of text cells, and how their bytes become header and rows, as offices write them.

Encoding, separator, lines above the header and decimal marks are found, not asked for, and found
alike each time that a file is read; what was found is told in words.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from statistics import median

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FileFormatError, nearest
from riesz.io.tables.dates import DAYS, Times, times_in
from riesz.io.tables.numbers import Mark, marks_of, number_in, number_or_limit, plain_columns

Numbers = Float[np.ndarray, " row"]

Row = tuple[int, list[str]]
"""A line's number and its cells."""

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks, with which spreadsheets begin what they save as Unicode."""

BLANKS = " "
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}

LOOKED_AT = 200
"""Lines from which the separator and the header are found."""

REMARKS = ("#", "%", "//", "--")
"""What lines begin with that are no rows."""

MOST_SHOWN = 40
"""Letters of a first line that an error tells."""


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

    def column_index(self, name: str) -> int:
        """Where a column is; raises where there is none, or several."""
        if self.header.count(name) == 1:
            return self.header.index(name)
        if name in self.header:
            raise FileFormatError(
                f"{self.path} has {self.header.count(name)} columns {name!r}: rename one."
            )
        known = ", ".join(self.header) or "none"
        raise FileFormatError(
            f"{self.path} has no column {name!r}: {nearest(name, self.header)}It has {known}."
        )

    def cells(self, name: str) -> list[str | None]:
        """A column; None where a row ends before it."""
        index = self.column_index(name)
        return [row[index] if index < len(row) else None for row in self.rows]

    def select(self, which: Bool[np.ndarray, " row"]) -> "TextTable":
        """Some of the rows."""
        rows = [row for row, keep in zip(self.rows, which.tolist(), strict=True) if keep]
        return replace(self, rows=rows, lines=self.lines[which])

    def at(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"{self.path}, {self.place} {self.lines[row]}"

    def words(self, name: str) -> list[str]:
        """A column that every row has."""
        result = self.cells(name)
        if None in result:
            raise FileFormatError(f"{self.at(result.index(None))}: the row ends before {name}.")
        return [cell for cell in result if cell is not None]

    def floats(self, name: str, *, limits: bool = False) -> Numbers:
        """A column of numbers, NaN where a cell holds none; with `limits`, those as well that
        values are only known to lie below."""
        read = number_or_limit if limits else number_in
        return np.array([read(cell) for cell in self.cells(name)])

    def numbers(self, name: str, *, limits: bool = False, may_be_missing: bool = False) -> Numbers:
        """A column of finite numbers, NaN where they may be missing and a cell is empty."""
        cells, numbers = self.cells(name), self.floats(name, limits=limits)
        empty = np.array([cell == "" for cell in cells]) & may_be_missing
        (bad,) = np.nonzero(~np.isfinite(numbers) & ~empty)
        if bad.size:
            result = "nothing" if cells[bad[0]] is None else repr(cells[bad[0]])
            raise FileFormatError(
                f"{self.at(int(bad[0]))}: {name} is {result}, not a finite number ({bad.size} of "
                f"{len(cells)} rows are like that): fill or remove them."
            )
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


def table_in_text(path: Path, content: bytes) -> TextTable:
    """What a text file holds."""
    text, encoding = decode_text_file(path, content)
    separator = separator_of(text)
    remarks = [] if encoding is None else [f"text in {encoding}"]
    remarks += [] if separator == "," else [f"columns by {SEPARATORS[separator]}"]
    rows = list(split_rows(path, text, separator))
    return table_of_rows(path, rows, remarks, by_commas=separator == ",")


NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x19\x1b]")
"""Characters that stand in pictures, archives and the like; Ctrl-Z ends some old texts."""


def decode_text_file(path: Path, content: bytes) -> tuple[str, str | None]:
    """The text, and its encoding where that is not UTF-8."""
    named = next((name for mark, name in MARKS if content.startswith(mark)), None)
    try:
        text, encoding = content.decode(named or "utf-8"), named
    except UnicodeDecodeError as error:
        if named is not None:
            raise FileFormatError(
                f"{path} is not a text in {named}, as its first bytes say (byte {error.start}): "
                "save it as CSV in UTF-8."
            ) from None
        # Every byte is a letter of Latin-1; Windows has letters for some that are none there.
        encoding = "cp1252"
        text = content.decode("cp1252", errors="replace")
    if NO_TEXT.search(text):
        raise FileFormatError(f"{path} is no text: save the table as CSV in UTF-8.")
    return text, None if encoding == "utf-8-sig" else encoding


def separator_of(text: str) -> str:
    """The separator that makes most columns of which some line, the header, names all.

    Lines of numbers with decimal commas have as many commas as others, but their header has none.
    Where no line is without numbers, the first that makes as many columns of every line.
    """
    lines = list(islice((line for line in text.splitlines() if line.strip()), LOOKED_AT))
    best, most = ",", 0.0
    alike = []
    for separator in SEPARATORS:
        try:
            rows = list(csv.reader(collapse_blanks(lines, separator), delimiter=separator))
        except csv.Error:
            continue
        counts = [num_filled(row) for row in rows]
        width = median(counts) if counts else 0
        alike += [separator] if width >= 2 and {*counts} == {width} else []
        named = any(
            count >= width and not any(marks_of(cell.strip()) for cell in row)
            for row, count in zip(rows, counts, strict=True)
        )
        # Commas come first, and give way to any other but blanks, which stand in words as well.
        if named and separator != BLANKS and width >= max(most, 2):
            best, most = separator, width
    return best if most or not alike else alike[0]


def collapse_blanks(lines: Sequence[str], separator: str) -> list[str]:
    """Lines in which one separator is one: of blanks there are often several."""
    return [" ".join(line.split()) for line in lines] if separator == BLANKS else list(lines)


def split_rows(path: Path, text: str, separator: str) -> Iterator[Row]:
    """All rows, each with the line on which it ends."""
    lines = io.StringIO(text, newline="")
    source = collapse_blanks(list(lines), separator) if separator == BLANKS else lines
    reader = csv.reader(source, delimiter=separator)
    try:
        for row in reader:
            yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise FileFormatError(f"{path}, line {reader.line_num}: {error}.") from None


def table_of_rows(
    path: Path,
    every: Sequence[Row],
    remarks: list[str],
    *,
    by_commas: bool = False,
    place: str = "line",
) -> TextTable:
    """Header and rows among the lines of a table."""
    rows = [(line, row) for line, row in every if any(row)]
    if not rows:
        raise FileFormatError(f"{path} is empty: its first line must name the columns.")
    first = header_row(rows)
    header = tuple(rows[first][1])
    header = (header[0].lstrip("#").strip(), *header[1:])
    width = median(num_filled(row) for _, row in rows[first : first + LOOKED_AT])
    data_rows = [
        (line, row)
        for line, row in rows[first + 1 :]
        if not (is_remark(row) and num_filled(row) <= width / 2)
    ]
    if not data_rows:
        raise FileFormatError(f"{path} has no rows below its first line: give at least one.")
    check_widths(path, header, data_rows, by_commas=by_commas)
    if first:
        remarks = [*remarks, f"header on line {rows[first][0]}"]
    plain, mark = rows_with_plain_numbers([row for _, row in data_rows], by_commas=by_commas)
    remarks = [*remarks, "decimal commas"] if mark == "," else remarks
    lines = np.array([line for line, _ in data_rows])
    return TextTable(path, header, plain, lines, place, told=tuple(remarks))


def rows_with_plain_numbers(
    rows: list[list[str]], *, by_commas: bool
) -> tuple[list[list[str]], Mark]:
    """Rows with numbers in Python's spelling, and the decimal mark that was found."""
    columns = list(zip_longest(*rows, fillvalue=""))
    plain, mark = plain_columns(columns, by_commas=by_commas)
    if plain is columns:  # as in most tables, which may be large
        return rows, mark
    whole = zip(*plain, strict=True)
    return [list(row[: len(own)]) for row, own in zip(whole, rows, strict=True)], mark


def header_row(rows: Sequence[Row]) -> int:
    """The number of the row that names the columns: titles and remarks may stand above it.

    Rows from the first whole one with numbers on are data. Of those before it the header is the
    first that is wide enough, and not followed by a wider one.
    """
    rows = rows[:LOOKED_AT]
    counts = [num_filled(row) for _, row in rows]
    width = median(counts)
    wide = (i for i, (_, row) in enumerate(rows) if any(map(marks_of, row)) and counts[i] >= width)
    data = next(wide, len(rows))
    first = 0
    while first + 1 < data and (
        is_remark(rows[first][1])
        or counts[first] <= width / 2
        or (data < len(rows) and counts[first] < min(max(counts[first + 1 : data]), width))
    ):
        first += 1
    return first


def num_filled(row: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


def is_remark(row: Sequence[str]) -> bool:
    return row[0].startswith(REMARKS)


def check_widths(
    path: Path, header: Sequence[str], rows: Sequence[Row], *, by_commas: bool
) -> None:
    """Raise where a row goes on beyond the named columns: its numbers may have been cut in two."""
    num_named = max((i for i, name in enumerate(header, start=1) if name), default=0)
    for line, row in rows:
        result = max((i for i, cell in enumerate(row, start=1) if cell), default=0)
        if result > num_named == 1:
            raise FileFormatError(
                f"{path}, line {line}: {result} columns were found, but the first line names only "
                f"{header[0][:MOST_SHOWN]!r}: it must name all of them; remove lines above that."
            )
        if result > num_named:
            advice = "decimal commas? use points, or separate columns by semicolons"
            raise FileFormatError(
                f"{path}, line {line}: {num_named} columns were expected, {result} found: "
                f"{advice if by_commas else 'name all columns in the header'}."
            )

"""CSV files, gzipped or not, as tables of text cells."""

import csv
import gzip
import io
import zlib
from pathlib import Path

import numpy as np

from riesz.errors import FileFormatError
from riesz.io.store.files import read_bytes
from riesz.io.tables.text import TextTable, check_separated

Row = tuple[int, list[str]]
"""A line's number and its cells."""

MOST_SHOWN = 40
"""Letters of a first line that an error tells."""

MOST_BYTES = 2**30
"""Of a table, unpacked: a small file may unpack to more than any memory holds."""


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

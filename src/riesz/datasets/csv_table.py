"""Tables in CSV, every cell that is not as it should be told with its line."""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError


def text_of(path: Path) -> str:
    """The text of a file, unpacked where its name ends in .gz."""
    try:
        content = path.read_bytes()
        packed = path.suffix == ".gz"
        return (gzip.decompress(content) if packed else content).decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        told = "it is no whole gzip file"
    except OSError as error:
        told = error.strerror
    except UnicodeDecodeError:
        told = "it is not text in UTF-8"
    raise FileFormatError(f"{path} cannot be read: {told}.")


def table_in(text: str, name: str, needed: Sequence[str]) -> list[dict[str, str]]:
    """Rows by column name, all of the needed ones there."""
    reader = csv.DictReader(io.StringIO(text))
    found = reader.fieldnames or ()
    missing = [column for column in needed if column not in found]
    if missing:
        raise FileFormatError(
            f"{name} has no column {' and no '.join(missing)}: it has "
            f"{', '.join(found) or 'none at all'}."
        )
    rows = list(reader)
    if not rows:
        raise FileFormatError(f"{name} has no rows below its heading.")
    for number, row in enumerate(rows, 2):
        if any(row[column] is None for column in needed):
            raise FileFormatError(f"{name}, line {number}: it has fewer cells than the heading.")
    return rows


def numbers_in(
    rows: Sequence[Mapping[str, str]],
    columns: Sequence[str],
    name: str,
    *,
    may_be_missing: bool = False,
) -> Float[np.ndarray, "row column"]:
    """Cells as numbers; empty ones, where they may be, as NaN."""
    values = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            cell = row[column].strip()
            values[i, j] = math.nan if may_be_missing and not cell else number(cell)
            if not cell and may_be_missing:
                continue
            if not math.isfinite(values[i, j]):
                raise FileFormatError(
                    f"{name}, line {i + 2}: {column} is {cell!r}, which is not a number."
                )
    return values


def number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan

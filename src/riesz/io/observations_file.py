"""Measurements and places from CSV files, every bad number told with its line."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from riesz.errors import FileFormatError, MeshError
from riesz.geometry.crs import unit_clash
from riesz.io.whole_file import read_bytes
from riesz.mesh.locate import locate
from riesz.mesh.mesh import Mesh
from riesz.spelling import nearest

Row = tuple[int, list[str]]
"""A line's number and its cells."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of a CSV file as numbers, and the line that each row came from."""

    path: Path
    content: bytes  # the file as it was read
    names: tuple[str, ...]
    numbers: Float[np.ndarray, "row column"]
    lines: Int[np.ndarray, " row"]

    @property
    def points(self) -> Float[np.ndarray, "row 2"]:
        """The first two columns, x and y."""
        return self.numbers[:, :2]


def read_columns(path: Path, names: tuple[str, ...]) -> Columns:
    """The named columns of a CSV file whose first line names them; blank lines are skipped."""
    content = read_bytes(path)
    rows = csv_rows(path, content)
    if not rows:
        raise FileFormatError(f"{path} is empty: its first line must name the columns.")
    header = [name.strip() for name in rows[0][1]]
    places = [column_of(path, name, header) for name in names]
    kept = [(line, row) for line, row in rows[1:] if any(cell.strip() for cell in row)]
    if not kept:
        raise FileFormatError(f"{path} has no rows below its first line: give at least one.")
    check_widths(path, header, kept)
    numbers = [[number_in(row, place) for place in places] for _, row in kept]
    bad = [i for i, row in enumerate(numbers) if not all(map(math.isfinite, row))]
    if bad:
        line, row = kept[bad[0]]
        place = next(p for p in places if not math.isfinite(number_in(row, p)))
        found = repr(row[place].strip()) if place < len(row) else "nothing"
        raise FileFormatError(
            f"{path}, line {line}: {header[place]} is {found}, not a finite number ({len(bad)} of "
            f"{len(kept)} rows are like that): fill or remove them."
        )
    return Columns(path, content, names, np.array(numbers), np.array([line for line, _ in kept]))


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


def check_widths(path: Path, header: list[str], rows: list[Row]) -> None:
    """Raise where a row goes on beyond the named columns: its numbers may have been cut in two."""
    num_named = max((i for i, name in enumerate(header, start=1) if name), default=0)
    for line, row in rows:
        found = max((i for i, cell in enumerate(row, start=1) if cell.strip()), default=0)
        if found > num_named:
            raise FileFormatError(
                f"{path}, line {line}: {num_named} columns were expected, {found} found: decimal "
                "commas? use points."
            )


def column_of(path: Path, name: str, header: list[str]) -> int:
    if header.count(name) == 1:
        return header.index(name)
    if name in header:
        raise FileFormatError(f"{path} has {header.count(name)} columns {name!r}: rename one.")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        mark = "semicolons" if ";" in header[0] else "tabs"
        raise FileFormatError(f"{path} separates its columns by {mark}: use commas.")
    raise FileFormatError(
        f"{path} has no column {name!r}: {nearest(name, header)}It has {', '.join(header)}."
    )


def number_in(row: list[str], place: int) -> float:
    """The number in a cell; NaN where there is none."""
    cell = row[place] if place < len(row) else ""
    if "_" in cell:  # Python reads 1_0 as ten; in a table it is a slip
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return math.nan


def check_inside(columns: Columns, mesh: Mesh) -> None:
    """Raise where places lie outside the domain, with the line of the first."""
    (outside,) = np.nonzero(~locate(mesh, columns.points).inside)
    if outside.size:
        x, y = columns.points[outside[0]]
        low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
        clash = unit_clash(columns.points, mesh.nodes)
        advice = clash or "drop them, or see that both are in the same coordinates"
        raise MeshError(
            f"{columns.path}: {outside.size} of {len(columns.points)} points lie outside the "
            f"domain, first line {columns.lines[outside[0]]} at ({x:.10g}, {y:.10g}); the domain "
            f"spans ({low[0]:.6g}, {low[1]:.6g}) to ({high[0]:.6g}, {high[1]:.6g}): "
            f"{advice}."
        )

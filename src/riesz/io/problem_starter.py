"""A first problem file for a table of measurements, with every line explained."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError, RieszError
from riesz.geometry.hull import hull_outline
from riesz.geometry.outline import Outline, contains
from riesz.geometry.simplify import simplify_outline
from riesz.io.column_guess import Guess, guessed_columns
from riesz.io.crs_text import is_crs_text
from riesz.io.layer_table import read_table
from riesz.io.outline_file import OutlineFile, read_outline_file
from riesz.io.starter_text import STARTER
from riesz.io.text_table import TextTable, number_or_limit

NUM_NODES = 2000
NODES_PER_SQUARE = 2.8
"""Nodes of a mesh in a square of the longest edge, as our mesher makes them."""

NOISE_SHARE = 0.1
"""Of the spread of the values: measurements are rarely worse, and people then correct it."""

MARGIN_SHARE, LENGTH_SHARE = 0.08, 0.15
"""Of the extent: around the observations, and of the length over which sources change."""

SOURCE_FACTOR = 4.0
"""A source that changes over a length l bends the state by about its size times l squared, less
what the boundary holds back."""


@dataclass(frozen=True)
class Starter:
    """The text of a problem file, and what was guessed for it."""

    text: str
    guesses: tuple[str, ...]


def starter(
    table_path: Path,
    polygon: Path | None,
    folder: Path,
    *,
    x: str | None = None,
    y: str | None = None,
    value: str | None = None,
) -> Starter:
    """A problem file that will lie in `folder`."""
    table = read_table(table_path, value=value or "value")
    file = None if polygon is None else read_outline_file(polygon)
    box = None if file is None else box_of(file.outline)
    names = guessed_columns(table, x=x, y=y, value=value, box=box)
    places = np.column_stack([cells_of(table, names.x), cells_of(table, names.y)])
    values = cells_of(table, names.value)
    good = np.isfinite(places).all(axis=1) & np.isfinite(values)
    inside = good if file is None else contains(file.outline, np.nan_to_num(places)) & good
    if not len(np.unique(values[inside])) > 1:
        raise FileFormatError(
            f"{table_path}: {int(inside.sum())} rows have coordinates in {names.x} and {names.y}"
            f"{'' if file is None else ' inside the polygon'} and a number in {names.value}, and "
            "their values do not differ: name other columns by --x, --y and --value."
        )
    points, own = places[inside], values[inside]
    extent = float(np.ptp(np.concatenate(file.outline.rings) if file else points, axis=0).max())
    outline = file.outline if file else hull_outline(points, MARGIN_SHARE * extent)
    edge = rounded(math.sqrt(NODES_PER_SQUARE * outline.area / NUM_NODES))
    spread, middle = float(own.std()), float(own.mean())
    length = rounded(LENGTH_SHARE * extent)
    text = STARTER.format(
        table=quoted(relative(table_path, folder)),
        x=quoted(names.x),
        y=quoted(names.y),
        value=quoted(names.value),
        crs=crs_lines(file),
        domain=domain_lines(file, polygon, folder, edge, extent, points),
        edge=number(edge),
        rows=row_lines(names, good, inside, values),
        noise=number(rounded(NOISE_SHARE * spread)),
        mean=number(rounded(middle, 3)),
        spread=number(rounded(spread)),
        source=number(rounded(SOURCE_FACTOR * spread / length**2)),
        length=number(length),
    )
    guesses = (*names.why, *(row_notes(good, inside)), f"mesh: edges up to {number(edge)}")
    return Starter(text, guesses)


def cells_of(table: TextTable, name: str) -> Float[np.ndarray, " row"]:
    """Numbers, limits of detection as what they are limits of, and NaN elsewhere."""
    return np.array([number_or_limit(cell) for cell in table.cells(name)])


def box_of(outline: Outline) -> Float[np.ndarray, "corner 2"]:
    corners = np.concatenate(outline.rings)
    return np.stack([corners.min(axis=0), corners.max(axis=0)])


def rounded(value: float, digits: int = 2) -> float:
    return float(f"{value:.{digits - 1}e}")


def number(value: float) -> str:
    """As TOML reads it, whole numbers without a fraction."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else repr(value)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def crs_lines(file: OutlineFile | None) -> str:
    if file is not None and file.crs is not None and is_crs_text(file.crs):
        text = " ".join(file.crs.split()).replace("'", "")
        return f"crs = '{text}'  # as {file.path.name} says"
    return '# crs = "EPSG:32612"         # which coordinates these are: an EPSG code, PROJ or WKT'


def domain_lines(
    file: OutlineFile | None,
    polygon: Path | None,
    folder: Path,
    edge: float,
    extent: float,
    points: Float[np.ndarray, "row 2"],
) -> str:
    if file is None or polygon is None:
        margin = number(rounded(MARGIN_SHARE * extent))
        return (
            "around_observations = true   # the hull of the observations, or outline = "
            f'"area.geojson"\nmargin = {margin}   # so far around them'
        )
    named = f"outline = {quoted(relative(polygon, folder))}   # where the equation holds"
    simple = rounded(edge / 4)
    try:
        simplify_outline(file.outline, simple, points)
    except RieszError:
        return named
    return f"{named}\nsimplify = {number(simple)}   # bends that matter less are left out"


def row_lines(
    names: Guess,
    good: np.ndarray,
    inside: np.ndarray,
    values: Float[np.ndarray, " row"],
) -> str:
    lines = []
    if not good.all():
        lowest = float(np.nanmin(values))
        low = number(float(math.floor(lowest - abs(lowest) / 1000)))
        lines.append(f"where = {{ {quoted(names.value)} = {{ min = {low} }} }}  # no empty cells")
    if (good & ~inside).any():
        lines.append('outside = "drop"             # points outside the domain are left out')
    return "".join(f"{line}\n" for line in lines)


def row_notes(good: np.ndarray, inside: np.ndarray) -> list[str]:
    notes = [f"rows: {int(inside.sum())} of {len(good)}"]
    if not good.all():
        notes[0] += f", {int((~good).sum())} without numbers"
    if (good & ~inside).any():
        notes[0] += f", {int((good & ~inside).sum())} outside the polygon"
    return notes

"""The files of the folder `esrp`, each checked as it is read."""

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import FileFormatError, MeshError
from riesz.geometry.crs import LARGEST_DEGREES, LON_LAT, could_be_degrees, crs_of
from riesz.geometry.lines import Line, geojson_in, lines_of
from riesz.io.tables.layers import TextTable, read_csv

PLACES = ("x_m", "y_m")
ROLES = ("train", "test")
NUM_DIGITS = 15
"""Of a well: latitude, longitude and a running number."""

AS_TEXT = "read site_no as text (dtype=str), and write it so"


HOW_TO_NAME = (
    'add a member "crs", such as {"type": "name", "properties": {"name": '
    '"urn:ogc:def:crs:EPSG::32612"}}, or "crs_proj4" with a PROJ.4 text'
)


@dataclass(frozen=True, eq=False)
class WellTable:
    """The wells of `wells.csv` that are in use."""

    path: Path
    names: Mapping[str, str]  # by site number
    points: Float[np.ndarray, "well 2"]  # in the order of the names

    def places(self) -> dict[str, Float[np.ndarray, "2"]]:
        return dict(zip(self.names, self.points, strict=True))


@dataclass(frozen=True, eq=False)
class SplitTable:
    """The rows of a split: a well may be in it twice, once for each role."""

    path: Path
    site_numbers: tuple[str, ...]
    points: Float[np.ndarray, "row 2"]
    head: Float[np.ndarray, " row"]
    depth: Float[np.ndarray, " row"]
    is_training: Bool[np.ndarray, " row"]
    blocks: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Layer:
    """The lines of a GeoJSON file, and the crs that it is in."""

    name: str
    lines: tuple[Line, ...]
    crs: str


def read_wells(path: Path) -> WellTable:
    """Wells in use; the rows of others are checked as well."""
    table = read_csv(path)
    numbers, names, networks, uses = map(table.words, ("site_no", "site_nm", "network_cd", "use"))
    seen: dict[str, str] = {}
    for row, (number, network, use) in enumerate(zip(numbers, networks, uses, strict=True)):
        check_site_number(number, table.at(row), is_well=network != "S")
        check_word(use, ("True", "False"), "use", table.at(row))
        check_not_seen(number, seen, table, row)
    points = np.column_stack([table.numbers(name) for name in PLACES])
    used = np.array(uses) == "True"
    if not used.any():
        raise FileFormatError(f"{path} has no well in use: use is False in all of its rows.")
    kept = [pair for pair, use in zip(zip(numbers, names, strict=True), used, strict=True) if use]
    return WellTable(path, dict(kept), points[used])


def read_split(path: Path, wells: WellTable, *, blocks: bool = False) -> SplitTable:
    """Rows of wells that the table of wells has, at the same places."""
    table = read_csv(path)
    numbers, roles = table.words("site_no"), table.words("role")
    points = np.column_stack([table.numbers(name) for name in PLACES])
    places = wells.places()
    seen: dict[str, str] = {}
    for row, (number, role, point) in enumerate(zip(numbers, roles, points, strict=True)):
        check_site_number(number, table.at(row), is_well=True)
        check_word(role, ROLES, "role", table.at(row))
        check_not_seen(f"{number} for {role}", seen, table, row)
        if number not in places:
            raise FileFormatError(
                f"{table.at(row)}: {wells.path.name} has no well {number} in use: take both files "
                "from the same folder."
            )
        if np.abs(point - places[number]).max() > 0.01:
            raise FileFormatError(
                f"{table.at(row)}: well {number} is at {point.tolist()}, but {wells.path.name} "
                f"has it at {places[number].tolist()}."
            )
    return SplitTable(
        path,
        tuple(numbers),
        points,
        table.numbers("head_ft"),
        table.numbers("dtw_ft"),
        np.array([role == ROLES[0] for role in roles]),
        tuple(table.words("block")) if blocks else None,
    )


def check_site_number(number: str, where: str, *, is_well: bool) -> None:
    """Raise where a site number went through floating point, or lost digits."""
    told = f"{where}: site_no is {number!r}"
    if re.fullmatch(r"\d+\.\d*|\d+(\.\d*)?[eE][+-]?\d+", number):
        raise FileFormatError(f"{told}, which was written as a number: {AS_TEXT}.")
    if not number.isdecimal():
        raise FileFormatError(f"{told}: a site number is {NUM_DIGITS} digits; {AS_TEXT}.")
    if is_well and len(number) != NUM_DIGITS:
        raise FileFormatError(
            f"{told}, with {len(number)} digits: a well has {NUM_DIGITS}; {AS_TEXT}."
        )


def check_word(word: str, known: Sequence[str], column: str, where: str) -> None:
    if word not in known:
        raise FileFormatError(f"{where}: {column} is {word!r}; it is {' or '.join(known)}.")


def check_not_seen(key: str, seen: dict[str, str], table: TextTable, row: int) -> None:
    here = f"{table.place} {table.lines[row]}"
    if key in seen:
        raise FileFormatError(
            f"{table.at(row)}: well {key} is there already, on {seen[key]}: remove one."
        )
    seen[key] = here


def read_layer(path: Path) -> Layer:
    """The lines of a GeoJSON file; rings of polygons are lines too."""
    try:
        content = geojson_in(path.read_bytes(), str(path))
        lines = tuple(lines_of(content))
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from None
    except MeshError as error:
        raise FileFormatError(f"{path}: {error}") from None
    return Layer(str(path), lines, told_crs(content, np.concatenate(lines), str(path)))


def told_crs(geojson: Mapping[str, Any], points: Float[np.ndarray, "point 2"], name: str) -> str:
    """The crs of a layer; longitude and latitude where it names none, as RFC 7946 has it."""
    found = crs_of(geojson)
    if found is None and not could_be_degrees(points):
        x, y = points[~np.all(np.abs(points) <= LARGEST_DEGREES, axis=1)][0]
        raise FileFormatError(
            f"{name} names no crs, which means longitude and latitude (RFC 7946), but it has a "
            f"point at ({x:.10g}, {y:.10g}): {HOW_TO_NAME}."
        )
    return LON_LAT if found is None else found


def read_grid(path: Path, names: Sequence[str]) -> list[Float[np.ndarray, "..."]]:
    """Arrays of an .npz file, as 64-bit numbers."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        told = getattr(error, "strerror", None) or "it is no whole .npz file"
        raise FileFormatError(f"{path} cannot be read: {told}.") from None
    return [array_of(found, name, path) for name in names]


def array_of(found: Mapping[str, Any], name: str, path: Path) -> Float[np.ndarray, "..."]:
    if name not in found:
        raise FileFormatError(
            f"{path} has no array {name!r}: it has {', '.join(found) or 'none at all'}."
        )
    if found[name].dtype.kind not in "fiu":
        raise FileFormatError(f"{path}: {name} holds no numbers but {found[name].dtype}.")
    return found[name].astype(float)

"""The files of the folder `esrp`, each checked as it is read."""

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.datasets.csv_table import numbers_in, table_in, text_of
from riesz.errors import FileFormatError, MeshError
from riesz.geometry.crs import told_crs
from riesz.geometry.geojson import geojson_in
from riesz.geometry.lines import Line, lines_of

PLACES = ("x_m", "y_m")
SPLIT_COLUMNS = ("site_no", "head_ft", "dtw_ft", *PLACES, "role")
ROLES = ("train", "test")
NUM_DIGITS = 15
"""Of a well: latitude, longitude and a running number."""

AS_TEXT = "read site_no as text (dtype=str), and write it so"
Row = Mapping[str, str]


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
    columns = ("site_no", "site_nm", *PLACES, "network_cd", "use")
    rows = table_in(text_of(path), str(path), columns)
    seen: dict[str, int] = {}
    for line, row in enumerate(rows, 2):
        check_site_number(row["site_no"], path, line, is_well=row["network_cd"] != "S")
        check_word(row["use"], ("True", "False"), "use", path, line)
        check_not_seen(row["site_no"], seen, path, line)
    points = numbers_in(rows, PLACES, str(path))
    used = np.array([row["use"] == "True" for row in rows])
    if not used.any():
        raise FileFormatError(f"{path} has no well in use: use is False in all of its rows.")
    names = {row["site_no"]: row["site_nm"] for row in rows if row["use"] == "True"}
    return WellTable(path, names, points[used])


def read_split(path: Path, wells: WellTable, *, blocks: bool = False) -> SplitTable:
    """Rows of wells that the table of wells has, at the same places."""
    rows = table_in(text_of(path), str(path), (*SPLIT_COLUMNS, *(("block",) if blocks else ())))
    values = numbers_in(rows, (*PLACES, "head_ft", "dtw_ft"), str(path))
    places = wells.places()
    seen: dict[str, int] = {}
    for line, (row, point) in enumerate(zip(rows, values[:, :2], strict=True), 2):
        check_site_number(row["site_no"], path, line, is_well=True)
        check_word(row["role"], ROLES, "role", path, line)
        check_not_seen(f"{row['site_no']} for {row['role']}", seen, path, line)
        if row["site_no"] not in places:
            raise FileFormatError(
                f"{path}, line {line}: {wells.path.name} has no well {row['site_no']} in use: take "
                "both files from the same folder."
            )
        if np.abs(point - places[row["site_no"]]).max() > 0.01:
            raise FileFormatError(
                f"{path}, line {line}: well {row['site_no']} is at {point.tolist()}, but "
                f"{wells.path.name} has it at {places[row['site_no']].tolist()}."
            )
    return SplitTable(
        path,
        tuple(row["site_no"] for row in rows),
        values[:, :2],
        values[:, 2],
        values[:, 3],
        np.array([row["role"] == ROLES[0] for row in rows]),
        tuple(row["block"] for row in rows) if blocks else None,
    )


def check_site_number(number: str, path: Path, line: int, *, is_well: bool) -> None:
    """Raise where a site number went through floating point, or lost digits."""
    where = f"{path}, line {line}: site_no is {number!r}"
    if re.fullmatch(r"\d+\.\d*|\d+(\.\d*)?[eE][+-]?\d+", number):
        raise FileFormatError(f"{where}, which was written as a number: {AS_TEXT}.")
    if not number.isdecimal():
        raise FileFormatError(f"{where}: a site number is {NUM_DIGITS} digits; {AS_TEXT}.")
    if is_well and len(number) != NUM_DIGITS:
        raise FileFormatError(
            f"{where}, with {len(number)} digits: a well has {NUM_DIGITS}; {AS_TEXT}."
        )


def check_word(word: str, known: Sequence[str], column: str, path: Path, line: int) -> None:
    if word not in known:
        raise FileFormatError(
            f"{path}, line {line}: {column} is {word!r}; it is {' or '.join(known)}."
        )


def check_not_seen(key: str, seen: dict[str, int], path: Path, line: int) -> None:
    if key in seen:
        raise FileFormatError(
            f"{path}, line {line}: well {key} is there already, on line {seen[key]}: remove one."
        )
    seen[key] = line


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

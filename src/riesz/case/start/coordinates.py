"""In which coordinates a table and an outline are, and which a first problem file lives in."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError, RieszError, error_context
from riesz.geometry import crs
from riesz.io.maps.outlines import GEOJSON, OutlineFile, read_outline_file
from riesz.notes import Note

Points = Float[np.ndarray, "row 2"]
Corners = Float[np.ndarray, "corner 2"]

LAMBERT_93 = "EPSG:2154"
KNOWN = (
    ("Swiss LV95", "EPSG:2056", (2.48e6, 1.07e6), (2.84e6, 1.30e6)),
    *(
        (f"Gauss-Krüger zone {zone}", f"EPSG:{31464 + zone}", (low, 5.2e6), (low + 6e5, 6.2e6))
        for zone, low in ((2, 2.2e6), (3, 3.2e6), (4, 4.2e6), (5, 5.2e6))
    ),
    *(
        (f"UTM with its zone {zone}", f"EPSG:{code}", (low, 5.2e6), (low + 8e5, 6.2e6))
        for zone, code, low in ((32, 4647, 3.21e7), (33, 5650, 3.31e7))
    ),
)
"""Coordinates that are known by their range: a name, a code, and two corners."""


@dataclass(frozen=True)
class Systems:
    """The crs of a table, of an outline and of the problem, into which both are projected."""

    table: str | None
    outline: str | None
    problem: str | None
    notes: tuple[Note, ...] = ()

    def of_outline(self, file: OutlineFile) -> OutlineFile:
        if not self.moves(self.outline):
            return file
        moved = read_outline_file(file.path, file.layer, own=self.outline, into=self.problem)
        return replace(file, outline=moved.outline)

    def moves(self, own: str | None) -> bool:
        """Whether places in this crs are projected."""
        return None not in (own, self.problem) and not crs.same_crs(str(own), str(self.problem))

    @property
    def in_degrees(self) -> bool:
        return self.problem is not None and crs.is_geographic(self.problem)


def systems_of(
    path: Path,
    names: tuple[str, str],
    places: Points,
    given_crs: str | None,
    file: OutlineFile | None,
    *,
    named_degrees: bool,
) -> Systems:
    """What is told, named or plain to see; where nothing is, and it is needed, a question."""
    if named_degrees if given_crs is None else crs.is_geographic(given_crs):
        with error_context(path):
            crs.check_degrees(places)
    table = given_crs or (
        crs.LON_LAT if named_degrees and crs.could_be_degrees(places) else by_name(names)
    )
    if file is None:
        return common_crs(table, None, places, places)
    corners = np.concatenate(file.outline.rings)
    outline = file.crs
    if outline is None and crs.could_be_degrees(corners) and file.path.suffix.lower() in GEOJSON:
        # By its standard; small numbers of a made-up domain may be anything.
        outline = crs.LON_LAT if table is not None or np.abs(places).max() > crs.FAR else None
    if outline is not None and crs.is_geographic(outline) and table is None:
        if not crs.could_be_degrees(places):
            raise FileFormatError(
                f"{path}: {names[0]} and {names[1]} are no degrees, but {file.path.name} is in "
                "longitude and latitude: say which coordinates those are by --crs "
                f"{crs_by_range(places) or 'and a code, such as EPSG:25832'}."
            )
        table = crs.LON_LAT
    if table is not None and crs.is_geographic(table) and outline is None:
        raise FileFormatError(
            f"{file.path} does not say which coordinates it is in, while {path.name} is in "
            "longitude and latitude: name them by --polygon-crs, such as EPSG:25832."
        )
    return common_crs(table, outline, places, corners)


def common_crs(table: str | None, outline: str | None, places: Points, corners: Corners) -> Systems:
    """Lengths are better than degrees, and the outline's than the table's."""
    known = [one for one in (outline, table) if one is not None]
    problem = next((one for one in known if not crs.is_geographic(one)), None)
    if problem is not None:
        moved = [one for one in known if not crs.same_crs(one, problem)]
        into = crs.short_crs(problem)
        note = [Note("crs_moved", source=crs.short_crs(one), target=into) for one in moved]
        return Systems(table, outline, problem, tuple(note))
    if not known:
        likely = crs_by_range(places)
        notes = () if likely is None else (Note("crs_likely", likely=likely),)
        return Systems(None, None, None, notes)
    if find_spec("pyproj") is None:
        return Systems(table, outline, known[0], ())
    own = outline if outline is not None else str(table)
    problem = crs.metric_crs(crs.project(corners, own, crs.LON_LAT))
    notes = (
        Note("crs_from_degrees", crs=problem),
        Note("crs_on_earth", place=crs.place_on_earth(corners, own)),
    )
    return Systems(table, outline, problem, notes)


def by_name(names: tuple[str, str]) -> str | None:
    """Of columns that name a projection."""
    return LAMBERT_93 if re.search(r"(l|lambert)_?93", names[0].casefold()) else None


def crs_by_range(places: Points) -> str | None:
    """Which coordinates these may be."""
    low, high = places.min(axis=0), places.max(axis=0)
    for name, code, lower, upper in KNOWN:
        if (low >= lower).all() and (high <= upper).all():
            return f"{code}, if they are {name}, as their range lets think"
    return None


def boxes_of(
    file: OutlineFile | None, given_crs: str | None
) -> list[Float[np.ndarray, "corner 2"]]:
    """Where the polygon may be found in a table: as it is, and in the table's crs or in degrees."""
    if file is None:
        return []
    corners = np.concatenate(file.outline.rings)
    result = [corners]
    own = file.crs or (crs.LON_LAT if crs.could_be_degrees(corners) else None)
    into = given_crs or crs.LON_LAT
    if own is not None and not crs.same_crs(own, into) and find_spec("pyproj") is not None:
        # A told crs that does not reach so far is refused where places are projected.
        with suppress(RieszError):
            result.append(crs.project(corners, own, into))
    return [np.stack([one.min(axis=0), one.max(axis=0)]) for one in result]

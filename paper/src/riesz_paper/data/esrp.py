"""Groundwater levels of the eastern Snake River Plain aquifer around a laboratory in Idaho.

Source: U.S. Geological Survey, R package inldata 1.2.5 (Fisher, Trcka & Treinen 2024), from the
National Water Information System. Places are in metres (Albers), heads and surfaces in feet above
NAVD 88. `riesz data fetch esrp` makes the folder; `paper/docs/data.md` says how it was cleaned.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import FileFormatError, RieszError, any_of, nearest
from riesz.geometry.crs import unit_clash
from riesz.geometry.lines import Line
from riesz.geometry.outline import contains, distance_to_outline, outline_from
from riesz_paper.data.esrp_files import (
    Layer,
    SplitTable,
    WellTable,
    read_grid,
    read_layer,
    read_split,
    read_wells,
)
from riesz_paper.data.esrp_rules import distance_from_hull
from riesz_paper.data.library import data_folder

SPLITS = ("A", "B1", "B2", "D")
BLOCKED = "D"
OUTSIDE = ("refuse", "keep", "drop")
LAYERS = ("boundary_simplified.geojson", "inl_boundary.geojson", "streams.geojson")


@dataclass(frozen=True, eq=False)
class Wells:
    """Wells with one head each, the median of a period."""

    site_numbers: tuple[str, ...]  # 15 digits, as text
    names: tuple[str, ...]
    points: Float[np.ndarray, "well 2"]  # metres
    head: Float[np.ndarray, " well"]  # feet: altitude of the water level
    surface: Float[np.ndarray, " well"]  # feet: altitude of the land

    def __len__(self) -> int:
        return len(self.site_numbers)

    @property
    def depth(self) -> Float[np.ndarray, " well"]:
        """Depth to water below the land surface, in feet."""
        return self.surface - self.head

    def subset(self, kept: Bool[np.ndarray, " well"]) -> "Wells":
        """Some of the wells."""
        (rows,) = np.nonzero(kept)
        return Wells(
            tuple(self.site_numbers[i] for i in rows),
            tuple(self.names[i] for i in rows),
            self.points[rows],
            self.head[rows],
            self.surface[rows],
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Wells to learn from, and wells to predict."""

    name: str
    training: Wells
    test: Wells
    hull_distance_km: Float[np.ndarray, " test"]  # of test wells, from the training wells' hull


@dataclass(frozen=True, eq=False)
class Elevation:
    """The land surface around the wells, in feet, at the centres of cells of 1 km."""

    x: Float[np.ndarray, " column"]  # metres
    y: Float[np.ndarray, " row"]  # metres, from north to south
    feet: Float[np.ndarray, "row column"]


@dataclass(frozen=True, eq=False)
class Aquifer:
    """The aquifer's outline, what lies in it, and its wells in all splits; lengths in metres."""

    folder: Path
    outline: Float[np.ndarray, "vertex 2"]
    fence: Float[np.ndarray, "corner 2"]  # of the laboratory
    streams: tuple[Line, ...]
    elevation: Elevation
    splits: Mapping[str, tuple[Split, ...]]

    def digest(self) -> str:
        """What tells this data set from others."""
        found = blake2b(digest_size=8)
        for values in self.arrays():
            found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    def arrays(self) -> Iterator[np.ndarray]:
        yield from (self.outline, self.fence, *self.streams)
        yield from (self.elevation.x, self.elevation.y, self.elevation.feet)
        for split in (one for name in SPLITS for one in self.splits[name]):
            for wells in (split.training, split.test):
                yield np.array(wells.site_numbers)
                yield from (wells.points, wells.head, wells.surface)


def esrp(folder: Path | None = None, *, outside: str = "refuse") -> Aquifer:
    """The data set in a folder, `$RIESZ_DATA/esrp` unless told otherwise.

    Wells outside the outline are refused; `outside` may be "keep" or "drop", with a warning.
    """
    if outside not in OUTSIDE:
        raise RieszError(f"outside is {outside!r}: it is {any_of(OUTSIDE)}.")
    folder = data_folder("esrp") if folder is None else folder
    if not folder.is_dir():
        raise RieszError(f"there is no folder {folder}: get the data by: riesz data fetch esrp.")
    layers = [read_layer(folder / name) for name in LAYERS]
    check_same_crs(layers)
    outline, fence = (the_one_ring(layer) for layer in layers[:2])
    wells = read_wells(folder / "wells.csv")
    dropped = outsiders(wells, outline, outside)
    return Aquifer(
        folder=folder,
        outline=outline,
        fence=fence,
        streams=layers[2].lines,
        elevation=read_elevation(folder / "dem_1km.npz"),
        splits={name: split_tables(folder, name, wells, dropped) for name in SPLITS},
    )


def splits_of(aquifer: Aquifer, name: str) -> tuple[Split, ...]:
    """Splits A, B1 and B2, one each, or the eight of D, whose names are D-0 to D-7.

    A: heads of 1960-79 predict heads of 1980-99, mostly in the same wells. B1: wells inside the
    fence predict wells outside. B2: a core of 15 km predicts wells 2 km and more from its hull. D:
    A by blocks, each predicted from the training wells of the other blocks.
    """
    if name not in aquifer.splits:
        raise RieszError(
            f"there is no split {name!r}: {nearest(name, SPLITS)}There is {any_of(SPLITS)}."
        )
    return aquifer.splits[name]


def check_same_crs(layers: list[Layer]) -> None:
    first = layers[0]
    for layer in layers[1:]:
        if layer.crs != first.crs:
            raise FileFormatError(
                f"{layer.name} is in {layer.crs}, but {first.name} is in {first.crs}: project one "
                "into the coordinates of the other, and let both name the same crs."
            )


def the_one_ring(layer: Layer) -> Line:
    """The ring of a layer that is one polygon without holes, not closed."""
    if len(layer.lines) != 1:
        raise FileFormatError(
            f"{layer.name} has {len(layer.lines)} rings: it must be one polygon without holes."
        )
    try:
        return outline_from(layer.lines[0]).rings[0]
    except RieszError as error:
        raise FileFormatError(f"{layer.name}: {error}") from None


def outsiders(wells: WellTable, ring: Line, outside: str) -> frozenset[str]:
    """Site numbers to leave out; raises or warns where wells lie outside."""
    clash = unit_clash(wells.points, ring)
    if clash is not None:
        raise FileFormatError(f"{wells.path}: {clash}.")
    outline = outline_from(ring)
    (out,) = np.nonzero(~contains(outline, wells.points))
    if not out.size:
        return frozenset()
    numbers = list(wells.names)
    if outside == "refuse":
        distance = distance_to_outline(outline, wells.points[out])
        worst = int(distance.argmax())
        number = numbers[out[worst]]
        raise FileFormatError(
            f"{wells.path}: {out.size} of {len(numbers)} wells lie outside the boundary, the "
            f"furthest {wells.names[number]} ({number}), {distance[worst] / 1e3:.3g} km from it: "
            "mend their coordinates, or pass outside='drop' or outside='keep'."
        )
    done = "kept" if outside == "keep" else "dropped"
    warnings.warn(
        f"{out.size} of {len(numbers)} wells lie outside the boundary and are {done}.", stacklevel=3
    )
    return frozenset() if outside == "keep" else frozenset(numbers[i] for i in out)


def split_tables(
    folder: Path, name: str, wells: WellTable, dropped: frozenset[str]
) -> tuple[Split, ...]:
    """The splits of one file."""
    table = read_split(folder / f"split_{name}.csv", wells, blocks=name == BLOCKED)
    every = Wells(
        table.site_numbers,
        tuple(wells.names[number] for number in table.site_numbers),
        table.points,
        table.head,
        table.head + table.depth,
    )
    stays = np.array([number not in dropped for number in table.site_numbers])
    is_training, is_test = stays & table.is_training, stays & ~table.is_training
    if table.blocks is None:
        return (split_from(name, table, every, is_training, is_test),)
    blocks = np.array(table.blocks)
    splits = []
    for block in sorted(set(blocks[is_test].tolist())):
        here = blocks == block
        splits.append(
            split_from(f"{name}-{block}", table, every, is_training & ~here, is_test & here)
        )
    return tuple(splits)


def split_from(
    name: str,
    table: SplitTable,
    every: Wells,
    is_training: Bool[np.ndarray, " row"],
    is_test: Bool[np.ndarray, " row"],
) -> Split:
    training, test = every.subset(is_training), every.subset(is_test)
    for role, wells in (("training", training), ("test", test)):
        if not len(wells):
            raise FileFormatError(f"{table.path}: there is no {role} well in split {name}.")
    try:
        distance = distance_from_hull(test.points, training.points) / 1e3
    except RieszError as error:
        raise FileFormatError(f"{table.path}, training wells of split {name}: {error}") from None
    return Split(name, training, test, distance)


def read_elevation(path: Path) -> Elevation:
    x, y, feet = read_grid(path, ("x_m", "y_m", "elevation_ft"))
    if x.ndim != 1 or y.ndim != 1 or feet.shape != (len(y), len(x)):
        raise FileFormatError(
            f"{path}: elevation_ft has shape {feet.shape}, x_m {x.shape} and y_m {y.shape}; give "
            "one row for each y_m and one column for each x_m."
        )
    return Elevation(x, y, feet)

"""Parts of the domain by lines and polygons of maps: the tables [boundary.NAME], [regions.NAME] and
[[rivers]].

A stretch of the boundary says what holds there; a region is all cells in some polygons. On the mesh
a river is as wide as the cells that it crosses: the length in a cell over its area.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float
from pydantic import Field, PositiveFloat

from riesz.case.data import rows
from riesz.case.data.read import filter_rows
from riesz.case.data.schema import Where
from riesz.case.file.stresses import CoefficientsTable
from riesz.case.table import Coefficient, FileTable, NumberOrName, Size, parse_table
from riesz.errors import FileFormatError, MeshError, RieszError, error_context
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.series import Series
from riesz.fem.terms.weakform import WeakForm, leakage, neumann, robin
from riesz.geometry.crs import unit_clash
from riesz.geometry.lines import Line, lines_of
from riesz.io.maps.outlines import read_features, read_lines
from riesz.mesh.integrals import stretches_in_cells
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.refinement import Hierarchy
from riesz.mesh.tags import facets_of_tag, tag_boundary_near, tag_region
from riesz.notes import Note

KINDS = ("value", "inflow", "conductance")

NAME = "region"
"""The property of a run's own map that tells which region a polygon is of."""


class BoundaryTable(CoefficientsTable):
    """A stretch of the boundary: u is prescribed, or what enters; elsewhere nothing passes.

    By length, `inflow` enters, or `conductance` times (`stage` - u).
    """

    NEEDS = (
        ("stage", "conductance", "u itself is 'value'"),
        ("conductance", "stage", "the level of u beyond the boundary"),
        ("along", "tolerance", "how far from its lines the boundary may be, a length"),
        ("tolerance", "along", "a map layer"),
        ("layer", "along", "a map layer"),
    )

    value: Coefficient = None
    inflow: NumberOrName = None
    conductance: Size = None
    stage: NumberOrName = None
    along: str | None = None
    layer: str | None = None
    tolerance: PositiveFloat | None = None

    def faults(self) -> Iterator[str]:
        given = [key for key in KINDS if self.has(key)]
        if not given:
            yield (
                "lacks the key 'value': a number, or the name of an unknown; or give 'inflow', or "
                "'conductance' and 'stage'"
            )
        if len(given) > 1:
            yield f"has {' and '.join(given)}: keep one of them"

    def entries(self) -> dict[str, Any]:
        """What holds, each a number or the name of an unknown."""
        return {key: getattr(self, key) for key in (*KINDS, "stage") if self.has(key)}


Boundary = Mapping[str, BoundaryTable]


def prescribed_at(boundary: Boundary) -> dict[str, Any]:
    """Where u is known, or is itself an unknown."""
    return {tag: one.value for tag, one in boundary.items() if one.value is not None}


def boundary_exchange(boundary: Boundary) -> WeakForm:
    """What leaves through the boundary where u is not prescribed."""
    form = WeakForm()
    for tag, one in boundary.items():
        if one.inflow is not None:
            form = form - neumann(one.inflow, on=tag)
        if one.conductance is not None:
            form = form + robin(one.conductance, one.stage, on=tag)
    return form


def idle_notes(mesh: Mesh, boundary: Boundary) -> list[Note]:
    """That nothing can enter where u is prescribed at every node of a stretch."""
    nodes = {tag: np.unique(facets_of_tag(mesh, tag).nodes) for tag in boundary}
    fixed = [nodes[tag] for tag in prescribed_at(boundary)]
    held = np.unique(np.concatenate(fixed)) if fixed else np.zeros(0, int)
    return [
        Note("idle_boundary", tag=tag)
        for tag, one in boundary.items()
        if one.value is None and np.isin(nodes[tag], held).all()
    ]


def with_stretches(path: Path, mesh: Mesh, boundary: Boundary, crs: str | None) -> Mesh:
    """The mesh with names for the stretches of its boundary that lie along lines of map layers."""
    for name, table in boundary.items():
        if table.along is None or table.tolerance is None:
            continue
        lines = read_lines(path.parent / table.along, table.layer, crs=crs)
        with error_context(f"{path}: boundary.{name}.along"):
            mesh = tag_boundary_near(mesh, name, lines, table.tolerance)
    return mesh


class RegionTable(FileTable):
    """All cells whose middle lies in a polygon of a map, or in those that pass the filters."""

    file: str = Field(description="a map layer of polygons, relative to the problem file")
    layer: str | None = None
    where: Where = Field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Region:
    """The polygons of one region, as GeoJSON geometries."""

    name: str
    path: Path
    polygons: list[Mapping[str, Any]]
    crs: str | None = None


def read_regions(
    folder: Path,
    tables: Mapping[str, RegionTable],
    crs: str | None = None,
    kept: Path | None = None,
) -> tuple[Region, ...]:
    """The polygons of all regions; or those that a run `kept`, in its folder."""
    regions = []
    for name, table in tables.items():
        if kept is None:
            where = table.where
            own = read_features(folder / table.file, table.layer, "polygon", into=crs)
        else:
            where = {NAME: name}
            own = read_features(kept / rows.REGIONS, None, "polygon")
        chosen, _ = filter_rows(own.table, where, f"regions.{name}.where")
        polygons = [own.shapes[row - 1] for row in chosen.lines.tolist()]
        regions.append(Region(name, own.table.path, polygons, own.table.crs))
    return tuple(regions)


def with_regions(path: Path, mesh: Mesh, regions: Iterable[Region]) -> Mesh:
    """The mesh with its cells tagged; not before it is as fine as it will be."""
    for one in regions:
        with error_context(f"{path}: regions.{one.name}"):
            mesh = tag_region(mesh, one.name, collection([one]))
    return mesh


def collection(regions: Iterable[Region]) -> dict[str, Any]:
    features = [
        {"type": "Feature", "properties": {NAME: one.name}, "geometry": polygon}
        for one in regions
        for polygon in one.polygons
    ]
    return {"type": "FeatureCollection", "features": features}


def regions_content(regions: Iterable[Region], mesh: Mesh) -> bytes:
    """The polygons that may hold cells, as a run folder keeps them."""
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)

    def is_near(polygon: Mapping[str, Any]) -> bool:
        points = np.concatenate(lines_of(polygon))
        return bool((points.max(axis=0) >= low).all() and (points.min(axis=0) <= high).all())

    near = [
        Region(one.name, one.path, [polygon for polygon in one.polygons if is_near(polygon)])
        for one in regions
    ]
    return json.dumps(collection(near)).encode() if near else b""


NOTHING: Mapping[str, Series] = MappingProxyType({})

STARTS, ENDS, STAGE = ("from_x", "from_y"), ("to_x", "to_y"), "stage"
"""Columns of a run's own table, one straight segment a row."""


class RiverTable(FileTable):
    """Lines along which conductance * (stage - u) enters the domain, by length.

    A text is a column of the map for `stage`, an unknown for `conductance`, a series for `rise`.
    """

    file: str = Field(description="the map layer of its lines, relative to the problem file")
    layer: str | None = None
    stage: NumberOrName = Field(description="a number, or a column of the map")
    conductance: Size = Field(description="a positive number, or the name of an unknown")
    rise: str | None = None  # the series that is added to the stage


@dataclass(frozen=True, eq=False)
class River:
    """A river on a mesh."""

    lines: rows.DataRows  # those segments that the domain holds something of
    conductance: float | str  # a number, or the name of an unknown
    density: Float[np.ndarray, " cell"]  # length by area
    level: Float[np.ndarray, " cell"]  # the stage, where there is some of the river
    length: float  # inside the domain
    mean_stage: float  # by length
    rise: str | None = None  # the series that is added to the stage


def read_rivers(
    folder: Path,
    tables: Sequence[RiverTable],
    crs: str | None = None,
    kept: Path | None = None,
) -> tuple[rows.DataRows, ...]:
    """The segments of all rivers, wherever they lie: each from its place to that beside it, with
    the stage as its value; or those that a run `kept`, in its folder."""
    if kept is None:
        return tuple(lines_of_river(folder / table.file, table, crs) for table in tables)
    each = [rows.entry_table(kept / rows.RIVERS, number) for number in range(len(tables))]
    return tuple(rows.rows_at_places(own, STARTS, STAGE, beside=ENDS) for own in each)


def lines_of_river(path: Path, table: RiverTable, crs: str | None = None) -> rows.DataRows:
    layer = read_features(path, table.layer, "line", into=crs)
    if isinstance(table.stage, float):
        stages = np.full(len(layer.shapes), table.stage)
    elif not layer.table.header:
        raise FileFormatError(
            f"{path} has lines without properties, so no column {table.stage!r}: give the stage as "
            "a number, or add it to the map."
        )
    else:
        stages = layer.table.numbers(table.stage)
    each = [segments_of(lines_of(shape)) for shape in layer.shapes]
    starts, ends = (np.concatenate([one[i] for one in each]) for i in range(2))
    counts = [len(one[0]) for one in each]
    stages = np.repeat(stages, counts)
    return rows.plain_rows(path, starts, stages, beside=ends, crs=layer.table.crs)


def river(
    domain: Mesh | Hierarchy,
    lines: Any,
    *,
    stage: float | str,
    conductance: float | str,
    layer: str | None = None,
) -> WeakForm:
    """What leaves to a river by its length, conductance * (u - stage); add it.

    `lines` is a map file or a geometry, such as arrays of points. The stage is a number or, of a
    file, a column; the conductance a number or the name of an unknown.
    """
    is_file = isinstance(lines, str | Path)
    path = Path(lines) if is_file else Path("the river")
    content = {"file": path.name, "stage": stage, "conductance": conductance}
    table = parse_table(RiverTable, content | ({} if layer is None else {"layer": layer}), path)
    if is_file:
        result = lines_of_river(path, table)
    elif isinstance(table.stage, str) or layer is not None:
        raise RieszError(f"{path} has no columns or layers: give its stage as a number.")
    else:
        starts, ends = segments_of(lines_of(lines))
        result = rows.plain_rows(path, starts, np.full(len(starts), table.stage), beside=ends)
    mesh = domain.meshes[-1] if isinstance(domain, Hierarchy) else domain
    return river_exchange([river_on(mesh, result, table.conductance)])


def segments_of(
    lines: Sequence[Line],
) -> tuple[Float[np.ndarray, "segment 2"], Float[np.ndarray, "segment 2"]]:
    return np.concatenate([one[:-1] for one in lines]), np.concatenate([one[1:] for one in lines])


def river_on(
    mesh: Mesh, lines: rows.DataRows, conductance: float | str, rise: str | None = None
) -> River:
    """What each cell holds of a river; raises where none of it lies in the domain."""
    starts, ends = np.hsplit(lines.numbers, 2)
    result = stretches_in_cells(mesh, starts, ends)
    total = float(result.length.sum())
    if not total > 0:
        raise MeshError(outside_text(mesh, lines.path, np.concatenate([starts, ends])))
    held = np.bincount(result.cell, result.length, minlength=mesh.num_cells)
    staged = result.length * lines.values[result.segment]
    mean = float(staged.sum() / total)
    sums = np.bincount(result.cell, staged, minlength=mesh.num_cells)
    # Where there is no river its stage does not count; the mean keeps the numbers of one size.
    level = np.divide(sums, held, out=np.full(mesh.num_cells, mean), where=held > 0)
    density = held / cell_volumes(mesh.nodes, mesh.cells)
    inside = lines.rows(np.unique(result.segment))
    return River(inside, conductance, density, level, total, mean, rise)


def outside_text(mesh: Mesh, path: Path, points: Float[np.ndarray, "end 2"]) -> str:
    spans = [
        f"({low[0]:.6g}, {low[1]:.6g}) to ({high[0]:.6g}, {high[1]:.6g})"
        for low, high in ((p.min(axis=0), p.max(axis=0)) for p in (points, mesh.nodes))
    ]
    clash = unit_clash(points, mesh.nodes)
    return (
        f"{path}: no part of the river, which spans {spans[0]}, lies in the domain, which "
        f"spans {spans[1]}: "
        f"{clash or 'drop it, or see that both are in the same coordinates'}."
    )


def river_exchange(rivers: Sequence[River], changing: Mapping[str, Series] = NOTHING) -> WeakForm:
    """What leaves to all rivers, some of which rise as a series does."""
    form = WeakForm()
    for one in rivers:
        rise = 0.0 if one.rise is None else changing[one.rise]
        form = form + leakage(one.conductance, per_cell(one.density), per_cell(one.level), rise)
    return form


def rivers_content(rivers: Sequence[River]) -> bytes:
    """The segments that count, as a run folder keeps them."""
    lines = dict(enumerate(one.lines for one in rivers))
    return rows.entries_content(("entry", *STARTS, *ENDS, STAGE), lines)

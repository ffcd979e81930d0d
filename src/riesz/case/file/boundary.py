"""Parts of the domain by lines and polygons of maps: the tables [boundary.NAME] and [regions.NAME].

A stretch of the boundary says what holds there; a region is all cells in some polygons.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from riesz.case.data.read import filter_rows
from riesz.case.data.rows import REGIONS
from riesz.case.data.schema import Where
from riesz.case.file.stresses import CoefficientsTable
from riesz.case.table import Coefficient, FileTable, NumberOrName
from riesz.errors import error_context
from riesz.fem.terms.weakform import WeakForm, neumann, robin
from riesz.geometry.lines import lines_of
from riesz.io.maps.outlines import read_features, read_lines
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import facets_of_tag, tag_boundary_near, tag_region
from riesz.notes import Note

KINDS = ("value", "inflow", "conductance")

NAME = "region"
"""The property of a run's own map that tells which region a polygon is of."""


class BoundaryTable(CoefficientsTable):
    """A stretch of the boundary: u is prescribed, or what enters; elsewhere nothing passes.

    By length, `inflow` enters, or `conductance` times (`stage` - u).
    """

    value: Coefficient = None
    inflow: NumberOrName = None
    conductance: NumberOrName = None
    stage: NumberOrName = None
    along: str | None = None
    layer: str | None = None
    tolerance: PositiveFloat | None = None

    @model_validator(mode="after")
    def check(self):
        given = [key for key in KINDS if getattr(self, key) is not None]
        if self.conductance is None and self.stage is not None:
            raise ValueError("has the key 'stage', which needs 'conductance': u itself is 'value'")
        if not given:
            raise ValueError(
                "lacks the key 'value': a number, or the name of an unknown; or give 'inflow', or "
                "'conductance' and 'stage'"
            )
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}: keep one of them")
        if self.conductance is not None:
            if self.stage is None:
                raise ValueError(
                    "has the key 'conductance', which needs 'stage': the level of u beyond the "
                    "boundary"
                )
            if isinstance(self.conductance, float) and not self.conductance > 0:
                raise ValueError(
                    f"has conductance = {self.conductance:g}: give a positive number, or the name "
                    "of an unknown"
                )
        self.check_map()
        return self

    def check_map(self) -> None:
        if self.along is not None and self.tolerance is None:
            raise ValueError(
                "has the key 'along', which needs 'tolerance': how far from its lines the boundary "
                "may be, a length"
            )
        if self.along is None and (self.tolerance is not None or self.layer is not None):
            raise ValueError("has the key 'tolerance' or 'layer', which needs 'along': a map layer")

    def entries(self) -> dict[str, Any]:
        """What holds, each a number or the name of an unknown."""
        result = {key: getattr(self, key) for key in (*KINDS, "stage")}
        return {key: value for key, value in result.items() if value is not None}


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
            own = read_features(kept / REGIONS, None, "polygon")
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
    return json.dumps(collection(near)).encode()

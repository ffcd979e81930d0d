"""The tables [regions.NAME] of a problem file: parts of the domain by polygons of map layers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from riesz.case.data.read import filtered
from riesz.case.data.schema import Where
from riesz.case.table import Table
from riesz.errors import told_of
from riesz.geometry.lines import lines_of
from riesz.io.maps.outlines import read_features
from riesz.mesh.mesh import Mesh
from riesz.mesh.tags import tag_region

NAME = "region"
"""The property of a run's own map that tells which region a polygon is of."""


class RegionTable(Table):
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


def read_regions(folder: Path, tables: Mapping[str, RegionTable]) -> tuple[Region, ...]:
    return tuple(polygons_of_region(folder, name, table) for name, table in tables.items())


def polygons_of_region(folder: Path, name: str, table: RegionTable) -> Region:
    found = read_features(folder / table.file, table.layer, "polygon")
    kept, _ = filtered(found.table, table.where, f"regions.{name}.where")
    polygons = [found.shapes[row - 1] for row in kept.lines.tolist()]
    return Region(name, found.table.path, polygons, found.table.crs)


def with_regions(path: Path, mesh: Mesh, regions: Iterable[Region]) -> Mesh:
    """The mesh with its cells tagged; not before it is as fine as it will be."""
    for one in regions:
        with told_of(f"{path}: regions.{one.name}"):
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


def kept_regions(path: Path, tables: Mapping[str, RegionTable]) -> tuple[Region, ...]:
    """The same again from a run folder."""
    if not tables:
        return ()
    found = read_features(path, None, "polygon")
    names = found.table.cells(NAME)
    return tuple(
        Region(name, path, [s for s, own in zip(found.shapes, names, strict=True) if own == name])
        for name in tables
    )

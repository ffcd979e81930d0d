"""Outlines, lines and polygons from map files, with what these say of their coordinates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from riesz.errors import FileFormatError, MeshError, told_of
from riesz.geometry.crs import crs_of, same_crs, short_crs
from riesz.geometry.lines import features_in, geojson_in, geometries_in, lines_of
from riesz.geometry.outline import Outline, outline_from
from riesz.io.meshes.files import read_mesh
from riesz.io.store.files import read_bytes
from riesz.io.tables.layers import crs_text, read_layer, text_of
from riesz.io.tables.text import TextTable
from riesz.mesh.mesh import Mesh
from riesz.mesher.polygon import mesh_from_polygon
from riesz.spelling import listed

GEOJSON = (".geojson", ".json")
OUTLINES = (*GEOJSON, ".gpkg", ".shp")
EDGES_ACROSS = 50
"""How many edges of the longest length fit along a domain, unless told otherwise."""

KINDS = {
    "line": ("a river is a line: give its centre line", "LineString", "MultiLineString"),
    "polygon": ("a region is an area: give its outline", "Polygon", "MultiPolygon"),
}
"""What to say of other shapes, and those that are allowed."""


@dataclass(frozen=True, eq=False)
class OutlineFile:
    """An outline and the crs that its file names, if any."""

    path: Path
    outline: Outline
    crs: str | None


def read_outline_file(path: Path, layer: str | None = None) -> OutlineFile:
    """The polygon in a GeoJSON file, a GeoPackage or a shapefile."""
    content, crs = read_shapes(path, layer)
    with told_of(path):
        return OutlineFile(path, outline_from(content), crs)


def read_outline(path: Path | str, *, layer: str | None = None) -> Outline:
    """The outline of a domain in a GeoJSON file, a GeoPackage or a shapefile.

    It is what `mesh_from_polygon` takes; `layer` chooses among several of a file.
    """
    return read_outline_file(Path(path), layer).outline


def read_domain(
    path: Path | str, *, max_edge: float | None = None, layer: str | None = None
) -> Mesh:
    """A plane mesh, from a file that holds one or from one with an outline, which is meshed."""
    path = Path(path)
    if path.suffix.lower() not in OUTLINES:
        if max_edge is not None or layer is not None:
            raise MeshError(f"{path} holds a mesh, not an outline: leave max_edge and layer out.")
        mesh = read_mesh(path)
        if mesh.dim != 2:
            raise MeshError(f"{path} holds a mesh in {mesh.dim} dimensions, not in the plane.")
        return mesh
    outline = read_outline(path, layer=layer)
    with told_of(path):
        return mesh_from_polygon(outline, max_edge=max_edge or outline.extent / EDGES_ACROSS)


def read_shapes(path: Path, layer: str | None) -> tuple[Any, str | None]:
    """What a map file holds, as GeoJSON, and the crs that it names."""
    if path.suffix.lower() not in OUTLINES:
        raise FileFormatError(f"{path}: maps are read from files that end in {listed(OUTLINES)}.")
    if path.suffix.lower() not in GEOJSON:
        frame = read_layer(path, layer)
        if "geometry" not in frame:
            raise FileFormatError(f"{path} has no geometry: name a layer that is a map.")
        return frame.__geo_interface__, crs_text(frame.crs)
    if layer is not None:
        raise FileFormatError(f"{path} has no layers: leave the key layer out.")
    content = geojson_in(read_bytes(path), str(path))
    return content, crs_of(content)


def read_lines(path: Path, layer: str | None = None, *, crs: str | None = None) -> Any:
    """Lines, or outlines of polygons, in a map file, as GeoJSON; `crs` is the problem's own."""
    content, own = read_shapes(path, layer)
    if own is not None and crs is not None:
        check_same_crs(path, own, crs)
    with told_of(path):
        lines_of(content)
    return content


def check_same_crs(path: Path, own: str, crs: str) -> None:
    """Raise where a file names another crs than the problem file."""
    if not same_crs(own, crs):
        raise FileFormatError(
            f"{path} is in {short_crs(own)}, by its own crs, but the problem file says "
            f"{short_crs(crs)}: bring both into the same coordinates."
        )


@dataclass(frozen=True, eq=False)
class FeatureLayer:
    """A row of the table for each feature, and the GeoJSON geometry of that feature."""

    table: TextTable
    shapes: list[Mapping[str, Any]]


def read_features(path: Path, layer: str | None, kind: Literal["line", "polygon"]) -> FeatureLayer:
    """From a GeoJSON file, a GeoPackage or a shapefile; shapes of another kind are refused."""
    content, crs = read_shapes(path, layer)
    with told_of(path):
        features = features_in(content)
    if not features:
        raise FileFormatError(f"{path} has no features: give at least one {kind}.")
    for number, (shape, _) in enumerate(features, 1):
        with told_of(f"{path}, row {number}"):
            check_shape(shape, kind)
    names = tuple(dict.fromkeys(name for _, properties in features for name in properties))
    rows = [[text_of(properties.get(name)) for name in names] for _, properties in features]
    table = TextTable(path, names, rows, np.arange(1, len(rows) + 1), "row", crs=crs)
    return FeatureLayer(table, [shape for shape, _ in features])


def check_shape(shape: Any, kind: str) -> None:
    advice, *allowed = KINDS[kind]
    for one in geometries_in(shape):
        if (found := str(one.get("type"))) not in allowed:
            raise MeshError(
                f"the geometry is of type {found!r}, but {advice}, a {' or '.join(allowed)}."
            )
    lines_of(shape)

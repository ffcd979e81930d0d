"""Outlines, lines and polygons from map files, with what these say of their coordinates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from riesz.errors import FileFormatError, MeshError, RieszError, any_of, error_context
from riesz.geometry.crs import LON_LAT, crs_of, project, same_crs, where_used
from riesz.geometry.lines import features_in, geojson_in, geometries_in, lines_of
from riesz.geometry.outline import Outline, outline_from
from riesz.io.meshes.files import read_mesh
from riesz.io.store.files import read_bytes
from riesz.io.tables.layers import TextTable, crs_text, read_layer, text_of
from riesz.mesh.mesh import Mesh
from riesz.mesher.polygon import mesh_from_polygon

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
    layer: str | None = None


def read_outline_file(
    path: Path, layer: str | None = None, *, own: str | None = None, into: str | None = None
) -> OutlineFile:
    """The polygon in a GeoJSON file, a GeoPackage or a shapefile."""
    content, crs = read_shapes(path, layer, own=own, into=into)
    with error_context(path):
        return OutlineFile(path, outline_from(content), crs, layer)


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
            raise MeshError(
                f"{path} holds a mesh in {mesh.dim} dimensions, not in the plane: for others write "
                "a program, with rz.io.read_mesh and rz.inverse_problem."
            )
        return mesh
    outline = read_outline(path, layer=layer)
    with error_context(path):
        return mesh_from_polygon(outline, max_edge=max_edge or outline.extent / EDGES_ACROSS)


def read_shapes(
    path: Path, layer: str | None, *, own: str | None = None, into: str | None = None
) -> tuple[Any, str | None]:
    """What a map file holds, as GeoJSON, and its crs: `own` where that was told, or what it names.

    With `into` it is projected where its crs is another one.
    """
    content, named = shapes_in(path, layer)
    crs = own or named
    if into is None:
        return content, crs
    try:
        corners = np.concatenate(lines_of(content))
    except RieszError:
        return content, crs  # what is no line or area is told by those who ask for one
    if crs is None and path.suffix.lower() in GEOJSON and where_used(corners, into).all():
        crs = LON_LAT  # by its standard (RFC 7946), which many files in metres do not heed
    if crs is None or same_crs(crs, into):
        return content, crs
    with error_context(path):
        return reproject(content, crs, into), into


def reproject(content: Any, source: str, target: str) -> Any:
    """GeoJSON with its coordinates in another crs, and nothing said of the old one."""
    if isinstance(content, Mapping):
        result = {
            key: one for key, one in content.items() if key not in ("crs", "crs_proj4", "bbox")
        }
        for key in {"features", "geometry", "geometries"} & result.keys():
            result[key] = reproject(result[key], source, target)
        if "coordinates" in result:
            result["coordinates"] = coordinates_in(result["coordinates"], source, target)
        return result
    if isinstance(content, list | tuple):
        return [reproject(one, source, target) for one in content]
    return content


def coordinates_in(nested: Any, source: str, target: str) -> Any:
    """Positions in lists of lists, all of one list at once."""
    if nested and isinstance(nested[0][0], list | tuple):
        return [coordinates_in(one, source, target) for one in nested]
    points = np.array([position[:2] for position in nested], dtype=float).reshape(-1, 2)
    return project(points, source, target).tolist()


def shapes_in(path: Path, layer: str | None) -> tuple[Any, str | None]:
    if path.suffix.lower() not in OUTLINES:
        raise FileFormatError(f"{path}: maps are read from files that end in {any_of(OUTLINES)}.")
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
    content, _ = read_shapes(path, layer, into=crs)
    with error_context(path):
        lines_of(content)
    return content


@dataclass(frozen=True, eq=False)
class FeatureLayer:
    """A row of the table for each feature, and the GeoJSON geometry of that feature."""

    table: TextTable
    shapes: list[Mapping[str, Any]]


def read_features(
    path: Path, layer: str | None, kind: Literal["line", "polygon"], *, into: str | None = None
) -> FeatureLayer:
    """From a GeoJSON file, a GeoPackage or a shapefile; shapes of another kind are refused."""
    content, crs = read_shapes(path, layer, into=into)
    with error_context(path):
        features = features_in(content)
    if not features:
        raise FileFormatError(f"{path} has no features: give at least one {kind}.")
    for number, (shape, _) in enumerate(features, 1):
        with error_context(f"{path}, row {number}"):
            check_geometry(shape, kind)
    names = tuple(dict.fromkeys(name for _, properties in features for name in properties))
    rows = [[text_of(properties.get(name)) for name in names] for _, properties in features]
    table = TextTable(path, names, rows, np.arange(1, len(rows) + 1), "row", crs=crs)
    return FeatureLayer(table, [shape for shape, _ in features])


def check_geometry(shape: Any, kind: str) -> None:
    advice, *allowed = KINDS[kind]
    for one in geometries_in(shape):
        if (result := str(one.get("type"))) not in allowed:
            raise MeshError(
                f"the geometry is of type {result!r}, but {advice}, a {' or '.join(allowed)}."
            )
    lines_of(shape)

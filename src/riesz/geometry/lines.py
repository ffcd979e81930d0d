"""Lines and rings of a map layer: reading them, distances from them, inside or not.

A geometry is an array [point, 2], a sequence of such arrays, a GeoJSON dictionary, or any object
with `__geo_interface__` (Shapely, GeoPandas, Fiona). GeoJSON may be in any state: all that is
missing or odd is told.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import KDTree

from riesz.errors import FileFormatError, MeshError
from riesz.geometry.crossings import inside, offset_from_edge

Points = Float[np.ndarray, "point 2"]

MEMBERS = {"FeatureCollection": "features", "GeometryCollection": "geometries"}

Number = float | int | np.floating | np.integer

LARGEST = 1e100
"""Beyond any length there is, and far enough from overflow to multiply three of them."""

Line = Float[np.ndarray, "_ 2"]  # lines of one layer are of any lengths


def geojson_in(content: bytes, name: str) -> dict[str, Any]:
    """The GeoJSON object that a file holds, named in errors."""
    try:
        result = json.loads(content)
    except ValueError as error:
        raise FileFormatError(f"{name} is not GeoJSON: {error}.") from None
    except RecursionError:
        raise FileFormatError(f"{name} is not GeoJSON: its lists are nested too deep.") from None
    if not isinstance(result, dict):
        raise FileFormatError(f"{name} is not GeoJSON: it holds a {type(result).__name__}.")
    return result


def polygons_in(geojson: Mapping[str, Any]) -> list[list[Any]]:
    """The rings of each polygon of the one geometry in a GeoJSON object."""
    geometries = geometries_in(geojson)
    if len(geometries) != 1:
        raise MeshError(
            f"the GeoJSON {geojson.get('type')} has {len(geometries)} geometries: an outline is "
            "one; choose a feature, or join them into a MultiPolygon."
        )
    match kind := geometries[0].get("type"):
        case "Polygon":
            polygons = [entries_of(geometries[0], "coordinates")]
        case "MultiPolygon":
            polygons = [
                entries(polygon, f"polygon {index} of the GeoJSON MultiPolygon")
                for index, polygon in enumerate(entries_of(geometries[0], "coordinates"))
            ]
        case _:
            raise MeshError(
                f"the geometry is of type {kind!r}: an outline is a Polygon or a MultiPolygon, "
                "alone or as the one Feature of a FeatureCollection."
            )
    if not all(polygons) or not polygons:
        raise MeshError("the polygon is empty: give it at least one ring of coordinates.")
    return polygons


def lines_in(geojson: Mapping[str, Any]) -> list[Any]:
    """The positions of each line and ring in a GeoJSON object, however deep they are nested."""
    return [line for geometry in geometries_in(geojson) for line in lines_of_one(geometry)]


def lines_of_one(geometry: Mapping[str, Any]) -> list[Any]:
    match kind := geometry.get("type"):
        case "LineString":
            return [entries_of(geometry, "coordinates")]
        case "Polygon" | "MultiLineString":
            return entries_of(geometry, "coordinates")
        case "MultiPolygon":
            polygons = entries_of(geometry, "coordinates")
            return [ring for one in polygons for ring in entries(one, f"polygon of the {kind}")]
    raise MeshError(
        f"a GeoJSON geometry of type {kind!r} has no lines: give (Multi)LineString or "
        "(Multi)Polygon, or a Feature or collection of them."
    )


def geometries_in(geojson: Any) -> list[Mapping[str, Any]]:
    """All that is neither feature nor collection, in order."""
    # Not by recursion: a damaged file may be nested deeper than calls can be.
    pending, result = [geojson], []
    while pending:
        one = pending.pop()
        if not isinstance(one, Mapping):
            raise MeshError(
                f"the GeoJSON has a {type(one).__name__} in place of a feature or geometry: drop "
                "it, or mend the file."
            )
        kind = one.get("type")
        if kind == "Feature":
            pending.append(geometry_of(one))
        elif isinstance(kind, str) and kind in MEMBERS:
            pending += reversed(entries_of(one, MEMBERS[kind]))
        else:
            result.append(one)
    return result


def features_in(geojson: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Each feature's geometry with its properties; a bare geometry is a feature without any."""
    is_collection = geojson.get("type") == "FeatureCollection"
    features = entries_of(geojson, "features") if is_collection else [geojson]
    result = []
    for one in features:
        if not isinstance(one, Mapping) or one.get("type") != "Feature":
            result.append((one, {}))
            continue
        properties = one.get("properties")
        result.append(
            (geometry_of(one), dict(properties) if isinstance(properties, Mapping) else {})
        )
    return result


def geometry_of(feature: Mapping[str, Any]) -> Any:
    if feature.get("geometry") is None:
        raise MeshError("a GeoJSON Feature has no geometry: drop it, or mend the file.")
    return feature["geometry"]


def entries_of(geojson: Mapping[str, Any], key: str) -> list[Any]:
    if key not in geojson:
        raise MeshError(f"the GeoJSON {geojson['type']} has no {key!r}: the file is damaged.")
    return entries(geojson[key], f"{key!r} of the GeoJSON {geojson['type']}")


def entries(value: Any, what: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise MeshError(f"the {what} is a {type(value).__name__}, not a list: the file is damaged.")
    return list(value)


def as_points(positions, name: str) -> Points:
    """Finite planar coordinates from anything array-like, or an error that names it."""
    try:
        points = np.asarray(positions, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise MeshError(f"the {name} is not an array of coordinates ({error}).") from None
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise MeshError(f"the {name} has shape {points.shape}: give one row x, y for each point.")
    (bad,) = np.nonzero(~np.isfinite(points[:, :2]).all(axis=1))
    if bad.size:
        raise MeshError(
            f"the {name} has NaN or infinite coordinates in {bad.size} of {len(points)} points, "
            f"first point {bad[0]}: remove them or repair the file they came from."
        )
    (absurd,) = np.nonzero((np.abs(points[:, :2]) >= LARGEST).any(axis=1))
    if absurd.size:
        raise MeshError(
            f"the {name} has absurd coordinates in {absurd.size} of {len(points)} points, first "
            f"point {absurd[0]} at {points[absurd[0], :2].tolist()}: repair the file they came "
            "from."
        )
    return points[:, :2].copy()


def lines_of(geometry: Any) -> list[Line]:
    """All lines of a geometry; the rings of polygons are lines too."""
    geometry = getattr(geometry, "__geo_interface__", geometry)
    lines = lines_in(geometry) if isinstance(geometry, Mapping) else lines_of_arrays(geometry)
    if not lines:
        raise MeshError("the geometry holds no line: give at least two points.")
    return [check_line(line) for line in lines]


def polygons_of(geometry: Any) -> list[list[Line]]:
    """The rings of each polygon; arrays are the rings of one."""
    geometry = getattr(geometry, "__geo_interface__", geometry)
    each = geometries_in(geometry) if isinstance(geometry, Mapping) else [geometry]
    return [lines_of(one) for one in each]


def lines_of_arrays(geometry: Any) -> list[Any]:
    if not isinstance(geometry, Sequence) and np.ndim(geometry):
        return [geometry]
    if not isinstance(geometry, Sequence) or isinstance(geometry, str) or not geometry:
        raise MeshError(
            f"a geometry of type {type(geometry).__name__} is not known: give an array [point, 2], "
            "a GeoJSON dictionary or an object with __geo_interface__."
        )
    return [geometry] if is_point(geometry[0]) else list(geometry)


def is_point(entry: Any) -> bool:
    """Whether the first entry of a list is a point: if not, the list holds lines."""
    if isinstance(entry, np.ndarray):
        return entry.ndim == 1
    return not isinstance(entry, Sequence) or not any(
        isinstance(one, Sequence | np.ndarray) for one in entry
    )


def check_line(line: Any) -> Line:
    vertices = as_points(line, "line")
    if len(vertices) < 2:
        raise MeshError(f"a line has {len(vertices)} points: give at least two.")
    return vertices


def inside_polygon(points: Points, rings: list[Line]) -> Bool[np.ndarray, " point"]:
    """Even-odd rule over all rings, so holes are outside; on a ring, either answer."""
    ends = [np.roll(ring, -1, axis=0) for ring in rings]
    return inside(points, np.concatenate(rings), np.concatenate(ends))


def inside_any(points: Points, polygons: list[list[Line]]) -> Bool[np.ndarray, " point"]:
    """Whether points lie inside one polygon at least: those of a map may overlap."""
    result = np.zeros(len(points), dtype=bool)
    for rings in polygons:
        low, high = (end(np.concatenate(rings), axis=0) for end in (np.min, np.max))
        (near,) = np.nonzero(~result & ((points >= low) & (points <= high)).all(axis=1))
        result[near] = inside_polygon(points[near], rings)
    return result


def distance_to_lines(
    points: Points, lines: list[Line], cutoff: float | int
) -> Float[np.ndarray, " point"]:
    """Distance to the nearest line, exact up to the cutoff and infinite beyond."""
    distance = np.full(len(points), np.inf)
    tree = KDTree(points)
    for line in lines:
        for start, stop in pairwise(line):
            reach = np.linalg.norm(stop - start) / 2 + cutoff
            near = np.array(tree.query_ball_point((start + stop) / 2, reach), dtype=int)
            result = offset_from_edge(points[near] - start, stop - start)
            distance[near] = np.minimum(distance[near], result)
    return np.where(distance <= cutoff, distance, np.inf)


def points_along(line: Line, spacing: float) -> Float[np.ndarray, "sample 2"]:
    """Both ends and evenly spaced points between, at most `spacing` apart along the line.

    At least two lie between, so that a closed line is not taken for a point.
    """
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    travelled = np.concatenate([[0.0], np.cumsum(lengths)])
    num_steps = max(3, int(np.ceil(travelled[-1] / spacing)))
    stations = np.linspace(0.0, travelled[-1], num_steps + 1)
    return np.stack([np.interp(stations, travelled, line[:, d]) for d in range(2)], axis=1)

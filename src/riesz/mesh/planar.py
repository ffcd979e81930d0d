"""Plane geometry that tags need: lines and rings of a map layer, distances, inside or not.

A geometry is an array [point, 2], a sequence of such arrays, a GeoJSON dictionary, or any object
with `__geo_interface__` (Shapely, GeoPandas, Fiona).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import KDTree

from riesz.errors import MeshError

Line = Float[np.ndarray, "vertex 2"]


def lines_of(geometry: Any) -> list[Line]:
    """All lines of a geometry; the rings of polygons are lines too."""
    geometry = getattr(geometry, "__geo_interface__", geometry)
    lines = (
        lines_of_geojson(geometry) if isinstance(geometry, Mapping) else lines_of_arrays(geometry)
    )
    if not lines:
        raise MeshError("the geometry holds no line: give at least two points.")
    return [checked_line(line) for line in lines]


def lines_of_arrays(geometry: Any) -> list[Any]:
    if isinstance(geometry, np.ndarray):
        return [geometry]
    if not isinstance(geometry, Sequence) or isinstance(geometry, str) or not geometry:
        raise MeshError(
            f"a geometry of type {type(geometry).__name__} is not known: give an array [point, 2], "
            "a GeoJSON dictionary or an object with __geo_interface__."
        )
    # One list of points, or several.
    return [geometry] if np.ndim(geometry[0]) == 1 else list(geometry)


def lines_of_geojson(geometry: Mapping[str, Any]) -> list[Any]:
    """Coordinate lists of all lines and rings, however deep they are nested."""
    kind = geometry.get("type")
    try:
        match kind:
            case "LineString":
                return [geometry["coordinates"]]
            case "Polygon" | "MultiLineString":
                return list(geometry["coordinates"])
            case "MultiPolygon":
                return [ring for polygon in geometry["coordinates"] for ring in polygon]
            case "GeometryCollection":
                return lines_of_all(geometry["geometries"])
            case "Feature":
                return lines_of_geojson(geometry["geometry"])
            case "FeatureCollection":
                return lines_of_all(geometry["features"])
    except KeyError as missing:
        raise MeshError(f"the GeoJSON {kind} has no {missing}: the file is damaged.") from None
    raise MeshError(
        f"a GeoJSON geometry of type {kind!r} has no lines: give (Multi)LineString or "
        "(Multi)Polygon, or a Feature or collection of them."
    )


def lines_of_all(members: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [line for member in members for line in lines_of_geojson(member)]


def checked_line(line: Any) -> Line:
    try:
        vertices = np.asarray(line, dtype=float)
    except (TypeError, ValueError):
        vertices = np.empty(0)
    if vertices.ndim != 2 or vertices.shape[1] < 2 or len(vertices) < 2:
        raise MeshError(
            f"a line of the geometry has shape {vertices.shape}: give at least two points with "
            "two coordinates each."
        )
    vertices = vertices[:, :2]  # a height, where the layer has one, is not used
    (bad,) = np.nonzero(~np.isfinite(vertices).all(axis=1))
    if bad.size:
        raise MeshError(
            f"point {bad[0]} of a line is at {vertices[bad[0]].tolist()}: remove NaN and "
            "infinite coordinates."
        )
    return vertices


def inside_polygon(
    points: Float[np.ndarray, "point 2"], rings: list[Line]
) -> Bool[np.ndarray, " point"]:
    """Even-odd rule over all rings, so holes are outside; on a ring, either answer."""
    order = np.argsort(points[:, 1], kind="stable")
    x, y = points[order].T
    inside = np.zeros(len(points), dtype=bool)
    for ring in rings:
        for start, stop in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            # Half open in y: a ray through a vertex then meets one of its two edges.
            low, high = np.searchsorted(y, sorted([start[1], stop[1]]))
            if low < high:
                slope = (stop[0] - start[0]) / (stop[1] - start[1])
                inside[low:high] ^= x[low:high] < start[0] + (y[low:high] - start[1]) * slope
    answer = np.empty_like(inside)
    answer[order] = inside
    return answer


def distance_to_lines(
    points: Float[np.ndarray, "point 2"], lines: list[Line], cutoff: float | int
) -> Float[np.ndarray, " point"]:
    """Distance to the nearest line, exact up to the cutoff and infinite beyond."""
    distance = np.full(len(points), np.inf)
    tree = KDTree(points)
    for line in lines:
        for start, stop in pairwise(line):
            reach = np.linalg.norm(stop - start) / 2 + cutoff
            near = np.array(tree.query_ball_point((start + stop) / 2, reach), dtype=int)
            distance[near] = np.minimum(distance[near], segment_distance(points[near], start, stop))
    return np.where(distance <= cutoff, distance, np.inf)


def segment_distance(
    points: Float[np.ndarray, "point 2"],
    start: Float[np.ndarray, " 2"],
    stop: Float[np.ndarray, " 2"],
) -> Float[np.ndarray, " point"]:
    span, offsets = stop - start, points - start
    squared = span @ span
    # A repeated vertex makes a segment of no length: its start stands for it.
    along = np.clip(offsets @ span / squared, 0.0, 1.0) if squared else np.zeros(len(points))
    return np.linalg.norm(offsets - along[:, None] * span, axis=1)


def points_along(line: Line, spacing: float) -> Float[np.ndarray, "sample 2"]:
    """Both ends and evenly spaced points between, at most `spacing` apart along the line.

    At least two lie between, so that a closed line is not taken for a point.
    """
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    travelled = np.concatenate([[0.0], np.cumsum(lengths)])
    num_steps = max(3, int(np.ceil(travelled[-1] / spacing)))
    stations = np.linspace(0.0, travelled[-1], num_steps + 1)
    return np.stack([np.interp(stations, travelled, line[:, d]) for d in range(2)], axis=1)

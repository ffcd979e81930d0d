"""Coordinates out of GeoJSON, whatever state it is in: all that is missing or odd is told."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riesz.errors import FileFormatError, MeshError

MEMBERS = {"FeatureCollection": "features", "GeometryCollection": "geometries"}


def geojson_in(content: bytes, name: str) -> dict[str, Any]:
    """The GeoJSON object that a file holds, named in errors."""
    try:
        found = json.loads(content)
    except ValueError as error:
        raise FileFormatError(f"{name} is not GeoJSON: {error}.") from None
    except RecursionError:
        raise FileFormatError(f"{name} is not GeoJSON: its lists are nested too deep.") from None
    if not isinstance(found, dict):
        raise FileFormatError(f"{name} is not GeoJSON: it holds a {type(found).__name__}.")
    return found


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
    pending, found = [geojson], []
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
            found.append(one)
    return found


def features_in(geojson: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Each feature's geometry with its properties; a bare geometry is a feature without any."""
    is_collection = geojson.get("type") == "FeatureCollection"
    features = entries_of(geojson, "features") if is_collection else [geojson]
    found = []
    for one in features:
        if not isinstance(one, Mapping) or one.get("type") != "Feature":
            found.append((one, {}))
            continue
        properties = one.get("properties")
        found.append(
            (geometry_of(one), dict(properties) if isinstance(properties, Mapping) else {})
        )
    return found


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

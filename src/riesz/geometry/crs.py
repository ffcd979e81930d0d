"""Which coordinates a map layer is in: what its GeoJSON says, and what its numbers say.

RFC 7946 knows longitude and latitude only. The older standard (GJ2008) has a member "crs", which
GIS programs still write and read; `crs_proj4` is home-made, and no program but this one reads it.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError

LON_LAT = "EPSG:4326"
LARGEST_DEGREES = np.array([180.0, 90.0])
FAR = 1000.0
"""Beyond any degrees and any slip in them: a domain that reaches so far is in a length."""

HOW_TO_NAME = (
    'add a member "crs", such as {"type": "name", "properties": {"name": '
    '"urn:ogc:def:crs:EPSG::32612"}}, or "crs_proj4" with a PROJ.4 text'
)


def epsg_code(name: str) -> str | None:
    """The code in the name of a crs, such as urn:ogc:def:crs:EPSG::32612."""
    if name.endswith("CRS84"):  # WGS 84 with the longitude first, as GeoJSON always has it
        return LON_LAT
    code = re.search(r"EPSG:(?:[\d.]*:)?(\d+)$", name)
    return None if code is None else f"EPSG:{code[1]}"


def crs_of(geojson: Mapping[str, Any]) -> str | None:
    """What a GeoJSON object says of its coordinates: a code, a name or a PROJ.4 text."""
    own = geojson.get("crs")
    properties = own.get("properties") if isinstance(own, Mapping) else None
    name = properties.get("name") if isinstance(properties, Mapping) else None
    if isinstance(name, str):
        return epsg_code(name) or name
    text = geojson.get("crs_proj4")
    return " ".join(sorted(text.split())) if isinstance(text, str) else None


def could_be_degrees(points: Float[np.ndarray, "point 2"]) -> bool:
    """Whether all points are within the range of longitude and latitude."""
    return bool(np.all(np.abs(points) <= LARGEST_DEGREES))


def told_crs(geojson: Mapping[str, Any], points: Float[np.ndarray, "point 2"], name: str) -> str:
    """The crs of a layer; longitude and latitude where it names none, as RFC 7946 has it."""
    found = crs_of(geojson)
    if found is None and not could_be_degrees(points):
        x, y = points[~np.all(np.abs(points) <= LARGEST_DEGREES, axis=1)][0]
        raise FileFormatError(
            f"{name} names no crs, which means longitude and latitude (RFC 7946), but it has a "
            f"point at ({x:.10g}, {y:.10g}): {HOW_TO_NAME}."
        )
    return LON_LAT if found is None else found


def unit_clash(
    points: Float[np.ndarray, "point 2"], domain: Float[np.ndarray, "vertex 2"]
) -> str | None:
    """What to say where one of two layers is in degrees, by its range, and the other is not."""
    degrees = "longitude and latitude in degrees"
    for ours, theirs, told in (
        (points, domain, f"the points look like {degrees}, the domain like metres"),
        (domain, points, f"the domain looks like {degrees}, the points like metres"),
    ):
        if could_be_degrees(ours) and np.abs(theirs).max() > FAR:
            return f"{told}: project one into the coordinates of the other"
    return None

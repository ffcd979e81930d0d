"""Which coordinates a map layer is in: what it says of them, and what its numbers say.

RFC 7946 knows longitude and latitude only. The older standard (GJ2008) has a member "crs", which
GIS programs still write and read; `crs_proj4` is home-made, and no program but this one reads it.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float

LON_LAT = "EPSG:4326"
LARGEST_DEGREES = np.array([180.0, 90.0])
FAR = 1000.0
"""Beyond any degrees and any slip in them: a domain that reaches so far is in a length."""

WKT = re.compile(r"[A-Z][A-Z_0-9]*\s*\[", re.DOTALL)


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


def is_crs_text(text: str) -> bool:
    """Whether a text has the form of an EPSG code, a PROJ text or WKT."""
    is_code = re.fullmatch(r"EPSG:\d{4,6}", text) is not None
    return is_code or "+proj=" in text or WKT.match(text.strip()) is not None


def parsed_crs(text: str) -> Any | None:
    """What pyproj makes of it; None where it knows nothing, or is not there to ask."""
    if find_spec("pyproj") is None:
        return None
    pyproj = import_module("pyproj")
    try:
        return pyproj.CRS.from_user_input(text)
    except pyproj.exceptions.CRSError:
        return None


def same_crs(one: str, other: str) -> bool:
    """Whether two texts mean the same; where nobody can tell, they may."""
    if one.strip() == other.strip():
        return True
    first, second = parsed_crs(one), parsed_crs(other)
    if first is not None and second is not None:
        return bool(first.equals(second, ignore_axis_order=True))
    codes = epsg_code(one), epsg_code(other)
    return None in codes or codes[0] == codes[1]


def short_crs(text: str) -> str:
    """For messages: a code as it is, and of longer texts the beginning."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def length_unit(crs: str | None) -> str | None:
    """What the coordinates count in: "m", "km", "ft", "degrees"; None where it is not known."""
    found = None if crs is None else parsed_crs(crs)
    if found is None or not found.axis_info:
        return None
    if found.is_geographic:
        return "degrees"
    factor = found.axis_info[0].unit_conversion_factor
    names = {1.0: "m", 1000.0: "km", 0.3048: "ft"}
    return next((name for size, name in names.items() if abs(factor / size - 1) < 1e-4), None)

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
from jaxtyping import Bool, Float

from riesz.errors import RieszError

LON_LAT = "EPSG:4326"
LARGEST_DEGREES = np.array([180.0, 90.0])
FAR = 1000.0
"""Beyond any degrees and any slip in them: a domain that reaches so far is in a length."""

NEARBY, WIDEST_COUNTRY = 0.05, 12_000.0
"""Degrees about a place, and square degrees of the largest area that tells of a country."""

LENGTH_FACTORS = (
    (1000.0, "kilometres", "metres"),
    (0.001, "metres", "kilometres"),
)
HALF, LEAST_SHARE = 0.5, 0.05
"""The share of points that must fit a domain in another unit, and of its extent that they have."""

WIDEST_ZONE, LARGEST_UTM = 9.0, 84.0
"""Degrees of longitude that one UTM zone is taken for, and of latitude to which there are zones."""

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
    """What to say where one of two layers is in degrees, by its range, and the other is not, or
    where one is in another unit of length."""
    degrees = "longitude and latitude in degrees"
    for ours, theirs, message in (
        (points, domain, f"the points look like {degrees}, the domain like metres"),
        (domain, points, f"the domain looks like {degrees}, the points like metres"),
    ):
        if could_be_degrees(ours) and np.abs(theirs).max() > FAR:
            return (
                f"{message}: say which coordinates each is in, by crs at the top and crs in "
                "[observations], [domain] or [[wells]], and they are projected"
            )
    low, high = domain.min(axis=0), domain.max(axis=0)
    for factor, ours, theirs in LENGTH_FACTORS:
        scaled = factor * points
        spread = np.ptp(scaled, axis=0).max() > LEAST_SHARE * np.ptp(domain, axis=0).max()
        if spread and ((scaled >= low) & (scaled <= high)).all(axis=1).mean() > HALF:
            return (
                f"times {factor:.6g}, the points would lie where the domain is: they look like "
                f"{ours}, the domain like {theirs}: bring both into one unit"
            )
    return None


def is_crs_text(text: str) -> bool:
    """Whether a text has the form of an EPSG code, a PROJ text or WKT."""
    is_code = re.fullmatch(r"EPSG:\d{4,6}", text) is not None
    return is_code or "+proj=" in text or WKT.match(text.strip()) is not None


def parse_crs(text: str) -> Any | None:
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
    first, second = parse_crs(one), parse_crs(other)
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
    result = None if crs is None else parse_crs(crs)
    if result is None or not result.axis_info:
        return None
    if result.is_geographic:
        return "degrees"
    factor = result.axis_info[0].unit_conversion_factor
    names = {1.0: "m", 1000.0: "km", 0.3048: "ft"}
    return next((name for size, name in names.items() if abs(factor / size - 1) < 1e-4), None)


def is_geographic(crs: str) -> bool:
    """Whether coordinates are longitude and latitude."""
    result = parse_crs(crs)
    return epsg_code(crs) == LON_LAT if result is None else bool(result.is_geographic)


def project(
    points: Float[np.ndarray, "point 2"], source: str, target: str
) -> Float[np.ndarray, "point 2"]:
    """Points of one crs in another, x or longitude first in both."""
    if same_crs(source, target):
        return points
    if find_spec("pyproj") is None:
        raise RieszError(
            f"coordinates in {short_crs(source)} become those in {short_crs(target)} by pyproj, "
            "which is not installed: pip install '.[gis]' in a clone of the repository, or bring "
            "both into the same coordinates."
        )
    for text in (source, target):
        if parse_crs(text) is None:
            raise RieszError(f"the crs {short_crs(text)!r} is not known to pyproj.")
    if is_geographic(source):
        check_degrees(points, target)
    pyproj = import_module("pyproj")
    transformer = pyproj.Transformer.from_crs(source, target, always_xy=True)
    result = np.column_stack(transformer.transform(points[:, 0], points[:, 1]))
    (bad,) = np.nonzero(~np.isfinite(result).all(axis=1))
    if bad.size:
        raise RieszError(
            f"{bad.size} of {len(points)} points have no place in {short_crs(target)}, first "
            f"{points[bad[0]].tolist()} in {short_crs(source)}: see that this is their crs."
        )
    return result


def check_degrees(degrees: Float[np.ndarray, "point 2"], target: str | None = None) -> None:
    """Raise where longitude and latitude are swapped for sure.

    That is so where a latitude is beyond 90 degrees, or where only swapped places lie in the area
    that the projection `target` is for.
    """
    turned, why = degrees[:, ::-1], ""
    if could_be_degrees(turned) and not could_be_degrees(degrees):
        why = "no latitude is beyond 90 degrees"
    elif target and where_used(turned, target).all() and not where_used(degrees, target).any():
        why = f"that is not where {short_crs(target)} is used, but with both swapped it would be"
    if why:
        (x, y) = degrees[np.argmax(np.abs(degrees[:, 1]))].tolist()
        raise RieszError(
            f"longitude and latitude are swapped: one of the places has longitude {x:.6g} and "
            f"latitude {y:.6g}, and {why}. Longitude is x and comes first, in tables and maps."
        )


def place_on_earth(points: Float[np.ndarray, "point 2"], crs: str) -> str | None:
    """Where the middle of some points is, with the country, by which swapped ones are noticed."""
    if parse_crs(crs) is None:
        return None
    middle = (points.min(axis=0) + points.max(axis=0))[None] / 2
    try:
        (longitude, latitude) = project(middle, crs, LON_LAT)[0].tolist()
    except RieszError:  # no place on Earth has such coordinates
        return None
    text = f"{abs(longitude):.4g}° {'W' if longitude < 0 else 'E'}, "
    text += f"{abs(latitude):.4g}° {'S' if latitude < 0 else 'N'}"
    here = country_at(longitude, latitude)
    if here is not None:
        return f"{text}, {here} or near it"
    turned = country_at(latitude, longitude) if abs(longitude) <= LARGEST_DEGREES[1] else None
    swapped = "" if turned is None else f"; with longitude and latitude swapped, {turned}"
    return f"{text}, in no country{swapped}"


def country_at(longitude: float, latitude: float) -> str | None:
    """By the smallest area that the register of coordinate systems has a datum for."""
    database, aoi = import_module("pyproj.database"), import_module("pyproj.aoi")
    ends = (longitude - NEARBY, latitude - NEARBY, longitude + NEARBY, latitude + NEARBY)
    every = database.query_crs_info(
        "EPSG", "GEOGRAPHIC_2D_CRS", aoi.AreaOfInterest(*ends), contains=True
    )
    areas = [one.area_of_use for one in every]
    sizes = {(a.east - a.west) % 360 * (a.north - a.south): a.name for a in areas}
    own = {size: name for size, name in sizes.items() if 0 < size < WIDEST_COUNTRY}
    return own[min(own)].split(" - ")[0].rstrip(".") if own else None


def metric_crs(degrees: Float[np.ndarray, "point 2"]) -> str:
    """A projection in metres for places on Earth: their UTM zone, or their own if they are many."""
    (west, south), (east, north) = degrees.min(axis=0), degrees.max(axis=0)
    longitude, latitude = (west + east) / 2, (south + north) / 2
    if east - west > WIDEST_ZONE or max(-south, north) > LARGEST_UTM:
        return f"+proj=laea +lat_0={latitude:.2f} +lon_0={longitude:.2f} +datum=WGS84 +units=m"
    zone = min(int((longitude + 180) // 6) + 1, 60)
    return f"EPSG:{(32600 if latitude >= 0 else 32700) + zone}"


def where_used(degrees: Float[np.ndarray, "point 2"], crs: str) -> Bool[np.ndarray, " point"]:
    """Which places in degrees lie in the area of a projection; none where that is not known."""
    result = parse_crs(crs)
    if result is None or result.is_geographic or result.area_of_use is None:
        return np.zeros(len(degrees), bool)
    area = result.area_of_use
    low, high = (area.west, area.south), (area.east, area.north)
    return np.asarray(((degrees >= low) & (degrees <= high)).all(axis=1))

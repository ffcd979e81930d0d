"""Coordinate reference systems as a problem file or a map layer writes them."""

import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from riesz.geometry.crs import epsg_code

WKT = re.compile(r"[A-Z][A-Z_0-9]*\s*\[", re.DOTALL)


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

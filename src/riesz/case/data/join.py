"""Readings and the table of their sites, joined by identifiers that are compared as text."""

import re

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import FileFormatError
from riesz.io.tables.text import TextTable

AS_FLOAT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+|\d{5,}\.0*")
"""A long number that went through a spreadsheet: digits may be gone."""


def identifiers(table: TextTable, name: str) -> list[str]:
    """The site of each row, as text; raises where one is empty or was once a floating number."""
    cells = table.cells(name)
    for row, cell in enumerate(cells):
        if not cell:
            raise FileFormatError(
                f"{table.at(row)}: {name} is empty: every reading needs its site; filter such "
                "rows out by where."
            )
        if AS_FLOAT.fullmatch(cell):
            raise FileFormatError(
                f"{table.at(row)}: {name} is {cell!r}, an identifier that was saved as a floating "
                "number and may have lost digits: export it as text."
            )
    return [str(cell) for cell in cells]


def coordinates_of_sites(
    sites: TextTable, name: str, axes: tuple[str, str]
) -> dict[str, tuple[float, float]]:
    """Where each site is; raises where one has two places."""
    found: dict[str, tuple[float, float]] = {}
    x, y = (sites.numbers(axis).tolist() for axis in axes)
    for row, (own, *place) in enumerate(zip(identifiers(sites, name), x, y, strict=True)):
        if found.setdefault(own, (place[0], place[1])) != (place[0], place[1]):
            raise FileFormatError(
                f"{sites.at(row)}: the site {own!r} is there twice, at {found[own]} and at "
                f"{tuple(place)}: keep one."
            )
    return found


def joined(
    readings: TextTable, sites: TextTable, name: str, axes: tuple[str, str]
) -> tuple[TextTable, Float[np.ndarray, "row 2"], list[str]]:
    """The readings whose site is known, their places, and what was left out, in words."""
    places = coordinates_of_sites(sites, name, axes)
    own = identifiers(readings, name)
    known: Bool[np.ndarray, " row"] = np.array([one in places for one in own])
    if not known.any():
        raise FileFormatError(
            f"{readings.path}: none of its sites, such as {own[0]!r}, is in {sites.path}, which "
            f"has such as {next(iter(places))!r}: see that both write {name} alike."
        )
    points = np.array([places[one] for one in own if one in places])
    lost = {one for one in own if one not in places}
    told = []
    if lost:
        told = [
            f"{len(own) - known.sum()} readings of {len(lost)} sites that {sites.path.name} does "
            f"not hold are left out, such as {min(lost)!r}"
        ]
    return readings.kept(known), points, told

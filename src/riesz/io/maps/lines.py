"""Map layers of lines: the lines of each feature, and its properties as a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import FileFormatError, MeshError, RieszError
from riesz.geometry.geojson import features_in, geometries_in
from riesz.geometry.lines import Line, lines_of
from riesz.io.maps.outlines import read_shapes
from riesz.io.tables.layers import text_of
from riesz.io.tables.text import TextTable

KINDS = ("LineString", "MultiLineString")


@dataclass(frozen=True, eq=False)
class LineLayer:
    """A row of the table for each feature, and the lines of that feature."""

    table: TextTable
    lines: list[list[Line]]


def read_line_layer(path: Path, layer: str | None = None) -> LineLayer:
    """Lines from a GeoJSON file, a GeoPackage or a shapefile; anything but lines is refused."""
    content, crs = read_shapes(path, layer)
    try:
        features = features_in(content)
    except RieszError as error:
        raise type(error)(f"{path}: {error}") from None
    if not features:
        raise FileFormatError(f"{path} has no features: give at least one line.")
    lines = []
    for number, (geometry, _) in enumerate(features, 1):
        try:
            lines.append(feature_lines(geometry))
        except RieszError as error:
            raise type(error)(f"{path}, row {number}: {error}") from None
    names = tuple(dict.fromkeys(name for _, properties in features for name in properties))
    rows = [[text_of(properties.get(name)) for name in names] for _, properties in features]
    numbers = np.arange(1, len(rows) + 1)
    return LineLayer(TextTable(path, names, rows, numbers, "row", crs=crs), lines)


def feature_lines(geometry: Any) -> list[Line]:
    kinds = [str(one.get("type")) for one in geometries_in(geometry)]
    strange = [kind for kind in kinds if kind not in KINDS]
    if strange:
        raise MeshError(
            f"the geometry is of type {strange[0]!r}, but a river is a line: give its centre line, "
            "a LineString or MultiLineString."
        )
    return lines_of(geometry)

"""Map layers of lines or polygons: the shape of each feature, and its properties as a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from riesz.errors import FileFormatError, MeshError, RieszError
from riesz.geometry.geojson import features_in, geometries_in
from riesz.geometry.lines import lines_of
from riesz.io.maps.outlines import read_shapes
from riesz.io.tables.layers import text_of
from riesz.io.tables.text import TextTable

KINDS = {
    "line": ("a river is a line: give its centre line", "LineString", "MultiLineString"),
    "polygon": ("a region is an area: give its outline", "Polygon", "MultiPolygon"),
}
"""What to say of other shapes, and those that are allowed."""


@dataclass(frozen=True, eq=False)
class FeatureLayer:
    """A row of the table for each feature, and the GeoJSON geometry of that feature."""

    table: TextTable
    shapes: list[Mapping[str, Any]]


def read_features(path: Path, layer: str | None, kind: Literal["line", "polygon"]) -> FeatureLayer:
    """From a GeoJSON file, a GeoPackage or a shapefile; shapes of another kind are refused."""
    content, crs = read_shapes(path, layer)
    try:
        features = features_in(content)
    except RieszError as error:
        raise type(error)(f"{path}: {error}") from None
    if not features:
        raise FileFormatError(f"{path} has no features: give at least one {kind}.")
    for number, (shape, _) in enumerate(features, 1):
        try:
            check_shape(shape, kind)
        except RieszError as error:
            raise type(error)(f"{path}, row {number}: {error}") from None
    names = tuple(dict.fromkeys(name for _, properties in features for name in properties))
    rows = [[text_of(properties.get(name)) for name in names] for _, properties in features]
    table = TextTable(path, names, rows, np.arange(1, len(rows) + 1), "row", crs=crs)
    return FeatureLayer(table, [shape for shape, _ in features])


def check_shape(shape: Any, kind: str) -> None:
    advice, *allowed = KINDS[kind]
    for one in geometries_in(shape):
        if (found := str(one.get("type"))) not in allowed:
            raise MeshError(
                f"the geometry is of type {found!r}, but {advice}, a {' or '.join(allowed)}."
            )
    lines_of(shape)

"""Vector maps as GeoPackage: contours, flow arrows and wells. Needs geopandas, the extra `gis`."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from contourpy import contour_generator
from jaxtyping import Float

from riesz.errors import FileFormatError
from riesz.io.maps.raster import Band, finite_range
from riesz.io.tables.layers import gis_module
from riesz.mesh.grids import Grid

NUM_LEVELS = 12
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
PROBABILITIES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
Table = dict[str, list[Any]]


def geopackage_modules() -> tuple[Any, Any]:
    return gis_module("geopandas", ".gpkg files"), gis_module("shapely", ".gpkg files")


def write_geopackage(
    path: Path, layers: Mapping[str, tuple[Table, list[Any]]], *, crs: str | None = None
) -> None:
    """Write layers, each a table and its geometries; the file is whole or not there."""
    geopandas, _ = geopackage_modules()
    frames = {
        name: geopandas.GeoDataFrame(table, geometry=shapes, crs=crs)
        for name, (table, shapes) in layers.items()
        if shapes
    }
    try:
        # A folder rather than a file: GDAL wants the right ending, and keeps journals beside.
        with TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.") as folder:
            whole = Path(folder) / "whole.gpkg"
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "'crs' was not provided", UserWarning)
                for name, frame in frames.items():
                    frame.to_file(whole, layer=name, driver="GPKG", engine="pyogrio")
            whole.replace(path)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be written: {error.strerror or error}.") from None


def contours(grid: Grid, bands: Sequence[Band]) -> tuple[Table, list[Any]]:
    """Lines of equal value of each band, at round levels."""
    _, shapely = geopackage_modules()
    table: Table = {"statistic": [], "level": [], "unit": []}
    dated = any(band.when for band in bands)
    table |= {"date": []} if dated else {}
    lines: list[Any] = []
    for band in bands:
        for level, line in contour_lines(grid, band):
            table["statistic"].append(band.name)
            table["level"].append(level)
            table["unit"].append(band.unit or "")
            if dated:
                table["date"].append(band.when)
            lines.append(shapely.LineString(line))
    return table, lines


def contour_lines(grid: Grid, band: Band) -> Iterator[tuple[float, Float[np.ndarray, "corner 2"]]]:
    if min(len(axis) for axis in grid.axes) < 2:  # no line fits between fewer centres
        return
    x, y = grid.axes
    result = contour_generator(x, y, np.ma.masked_invalid(band.values))
    for level in contour_levels(band):
        for line in result.lines(level):
            if len(line) > 1:
                yield level, np.asarray(line)


def contour_levels(band: Band) -> list[float]:
    """Round numbers between the smallest and the largest value."""
    low, high = finite_range(band)
    marks = PROBABILITIES
    if "_exceed_" not in band.name:
        marks = round_numbers(low, high) if low < high else ()
    return [float(mark) for mark in marks if low < mark < high]


def round_numbers(low: float, high: float) -> Float[np.ndarray, " level"]:
    """About a dozen multiples of 1, 2, 2.5 or 5 times a power of ten, around two ends."""
    power = 10.0 ** math.floor(math.log10((high - low) / NUM_LEVELS))
    step = next(size * power for size in STEPS if NUM_LEVELS * size * power >= high - low)
    return np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step


def arrows(
    points: Float[np.ndarray, "point 2"], flux: Float[np.ndarray, "point 2"]
) -> tuple[Table, list[Any]]:
    """The flux at points; the direction is what maps turn symbols by, clockwise from north."""
    _, shapely = geopackage_modules()
    table = {
        "direction": (np.degrees(np.arctan2(flux[:, 0], flux[:, 1])) % 360).tolist(),
        "magnitude": np.hypot(*flux.T).tolist(),
        "flux_x": flux[:, 0].tolist(),
        "flux_y": flux[:, 1].tolist(),
    }
    return table, list(shapely.points(points))

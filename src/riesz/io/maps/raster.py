"""Maps as GeoTIFF: north up, NoData outside the domain. Needs rasterio, the extra `gis`."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import RieszError
from riesz.io.maps.band import Band
from riesz.io.store.files import replacing
from riesz.io.tables.layers import gis_module
from riesz.prediction.grid import Grid


def rasterio_modules() -> tuple[Any, Any]:
    """Rasterio and its CRS class, or what to install."""
    what = "GeoTIFF files"
    return gis_module("rasterio", what), gis_module("rasterio.crs", what).CRS


def known_crs(crs: str) -> Any:
    """Rasterio's object for an EPSG code."""
    _, crs_class = rasterio_modules()
    try:
        return crs_class.from_user_input(crs)
    except ValueError as error:
        raise RieszError(f"the CRS {crs!r} is not known: {error}.") from None


def check_crs(crs: str) -> None:
    """Raise where a code means nothing; without rasterio there is nobody to ask yet."""
    if find_spec("rasterio") is not None:
        known_crs(crs)


def crs_note(crs: str) -> str | None:
    """What to know of a code that counts in degrees."""
    if find_spec("rasterio") is None or not known_crs(crs).is_geographic:
        return None
    return (
        f"the crs {crs} counts in degrees, which are no lengths: distances, areas and gradients "
        "will be wrong; bring the coordinates into a projected crs in metres, such as UTM."
    )


def write_raster(
    path: Path,
    grid: Grid,
    bands: Sequence[Band],
    *,
    crs: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Write arrays on a grid, each a named band with its unit; NaN is NoData.

    A grid runs along ascending y, a raster from north to south: rows change their order.
    """
    rasterio, _ = rasterio_modules()
    width, height = (len(axis) for axis in grid.axes)
    west = grid.axes[0][0] - grid.cell[0] / 2
    north = grid.axes[1][-1] + grid.cell[1] / 2
    transform = rasterio.Affine(grid.cell[0], 0.0, west, 0.0, -grid.cell[1], north)
    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff",
            width=width,
            height=height,
            count=len(bands),
            dtype="float64",
            crs=None if crs is None else known_crs(crs),
            transform=transform,
            nodata=np.nan,
            compress="deflate",
        ) as raster:
            raster.update_tags(**(tags or {}))
            for number, band in enumerate(bands, start=1):
                raster.write(band.values[::-1], number)
                raster.set_band_description(number, band.name)
                raster.update_tags(number, long_name=band.about)
                if band.unit is not None:
                    raster.set_band_unit(number, band.unit)
        with replacing(path) as file:
            file.write(memory.read())

"""Maps as NetCDF (version 3) after the CF conventions. Needs xarray and pyproj, the extra `gis`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import RieszError
from riesz.io.maps.band import Band
from riesz.io.store.files import write_bytes
from riesz.io.tables.layers import gis_module
from riesz.prediction.grid import Grid

CRS = "crs"
"""The variable that holds the coordinate system; others name it as their grid mapping."""


def netcdf_modules() -> tuple[Any, Any]:
    return gis_module("xarray", ".nc files"), gis_module("pyproj", ".nc files")


def write_netcdf(
    path: Path,
    grid: Grid,
    bands: Sequence[Band],
    *,
    crs: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> None:
    """Write arrays on a grid, each a variable over y and x; NaN is the fill value."""
    xarray, _ = netcdf_modules()
    known = None if crs is None else known_system(crs)
    axes = {
        name: (name, values, axis_attributes(name, known))
        for name, values in zip("xy", grid.axes, strict=True)
    }
    variables: dict[str, Any] = {band.name: band_variable(band, known) for band in bands}
    if known is not None:
        variables[CRS] = ((), np.int32(0), plain_attributes(known.to_cf()))
    dataset = xarray.Dataset(
        variables, axes, {"Conventions": "CF-1.8", "source": "riesz", **(attributes or {})}
    )
    filled = {band.name: {"_FillValue": np.nan} for band in bands}
    bare = {name: {"_FillValue": None} for name in axes}
    content = dataset.to_netcdf(engine="scipy", encoding=filled | bare)
    write_bytes(path, bytes(content))


def band_variable(band: Band, crs: Any) -> tuple[tuple[str, str], np.ndarray, dict[str, str]]:
    attributes = {"long_name": band.about or band.name}
    attributes |= {} if band.unit is None else {"units": band.unit}
    attributes |= {} if crs is None else {"grid_mapping": CRS}
    return ("y", "x"), band.values, attributes


def known_system(crs: str) -> Any:
    _, pyproj = netcdf_modules()
    try:
        return pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise RieszError(f"the CRS {crs!r} is not known: {error}.") from None


def axis_attributes(name: str, crs: Any) -> dict[str, str]:
    """What CF asks of an axis; without a coordinate system only its direction is known."""
    found = {"axis": name.upper(), "long_name": f"{name} of the cell centre"}
    if crs is None:
        return found
    if crs.is_geographic:
        standard, units = {"x": ("longitude", "degrees_east"), "y": ("latitude", "degrees_north")}[
            name
        ]
        return found | {"standard_name": standard, "units": units}
    units = crs.axis_info[0].unit_name if crs.axis_info else "metre"
    return found | {"standard_name": f"projection_{name}_coordinate", "units": units}


def plain_attributes(found: Mapping[str, Any]) -> dict[str, Any]:
    """NetCDF has texts and numbers, but no truth values and nothing empty."""
    kept = {key: value for key, value in found.items() if isinstance(value, str | int | float)}
    # GDAL, and with it QGIS, reads the system from here.
    return kept | {"spatial_ref": str(found["crs_wkt"])}

"""Tables by the kind of their file; map layers and NetCDF need packages of the extra `gis`."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import FileFormatError, RieszError, listed, nearest
from riesz.geometry.crs import crs_of
from riesz.geometry.lines import geojson_in
from riesz.io.store.files import read_bytes
from riesz.io.tables.sheets import OTHER_SHEETS, SHEETS, sheet_table
from riesz.io.tables.text import TextTable, read_csv

LAYERS = (".gpkg", ".shp", ".geojson", ".json")
NETCDF = (".nc", ".nc4", ".cdf")
CSV = (".csv", ".txt", ".tsv", ".tab", ".csv.gz", ".txt.gz")
HDF5 = b"\x89HDF"
"""What NetCDF-4 files begin with; those of version 3 begin with CDF."""

PLAINER = "save the data in a plainer format"


def read_table(path: Path | str, *, layer: str | None = None, value: str = "value") -> TextTable:
    """A table from a CSV file, a spreadsheet, a layer of points or, along `value`, NetCDF.

    Files end in .csv, .txt or .csv.gz, .xlsx, .gpkg, .shp or .geojson, or .nc. `layer` names one of
    several layers or sheets; places of layers become the columns x and y.
    """
    path = Path(path)
    # With the suffix before the last, where that says what is packed.
    suffix = next((one for one in CSV if path.name.lower().endswith(one)), path.suffix.lower())
    if layer is not None and suffix not in (*LAYERS, *SHEETS):
        raise FileFormatError(f"{path} has no layers: leave the key layer out.")
    if suffix in LAYERS:
        return layer_table(path, layer)
    if suffix in NETCDF:
        return netcdf_table(path, value)
    if suffix in SHEETS:
        return sheet_table(path, layer)
    if suffix in CSV:
        return read_csv(path)
    if suffix in OTHER_SHEETS:
        raise FileFormatError(f"{path}: of spreadsheets .xlsx is read: save it as that, or as CSV.")
    known = listed((".csv", ".csv.gz", ".xlsx", ".gpkg", ".geojson", ".shp", ".nc"))
    raise FileFormatError(f"{path}: tables are read from files that end in {known}.")


def read_layer(path: Path, layer: str | None) -> Any:
    """A layer as geopandas has it; the one that there is, unless it is named."""
    read_bytes(path)  # a file that is not there is told as everywhere
    geopandas = gis_module("geopandas", "GeoPackages and shapefiles", PLAINER)
    try:
        names = [str(name) for name in geopandas.list_layers(path)["name"]]
    except Exception as error:  # GDAL's and its readers' own, of many kinds
        raise FileFormatError(f"{path} is no map layer: {first_line(error)}.") from None
    if layer is None and len(names) > 1:
        raise FileFormatError(
            f"{path} has {len(names)} layers: choose one by layer = {names[0]!r}, or "
            f"{listed([repr(name) for name in names[1:]])}."
        )
    if layer is not None and layer not in names:
        raise FileFormatError(
            f"{path} has no layer {layer!r}: {nearest(layer, names)}It has {', '.join(names)}."
        )
    try:
        return geopandas.read_file(path, layer=layer or names[0])
    except Exception as error:
        raise FileFormatError(f"{path} cannot be read: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def crs_text(crs: Any) -> str | None:
    """What pyproj knows, as an EPSG code where there is one, and as WKT otherwise."""
    if crs is None:
        return None
    code = crs.to_epsg()
    return str(crs.to_wkt()) if code is None else f"EPSG:{code}"


def layer_crs(path: Path, frame: Any) -> str | None:
    """What a layer says of its coordinates; GDAL takes GeoJSON that says nothing for degrees."""
    if path.suffix.lower() in (".geojson", ".json"):
        return crs_of(geojson_in(read_bytes(path), str(path)))
    return crs_text(frame.crs)


def layer_table(path: Path, layer: str | None) -> TextTable:
    """A layer of points: its attributes, and the places as columns x and y."""
    frame = read_layer(path, layer)
    if "geometry" not in frame:
        raise FileFormatError(f"{path} has no geometry: observations are at points.")
    if not len(frame):
        raise FileFormatError(f"{path} has no rows: give at least one.")
    kinds = sorted(set(frame.geometry.geom_type.dropna()))
    if kinds != ["Point"]:
        raise FileFormatError(f"{path} holds {', '.join(kinds) or 'nothing'}: give points.")
    columns = {str(name): texts(frame[name].to_numpy()) for name in frame.columns.drop("geometry")}
    for axis in ("x", "y"):
        columns.setdefault(axis, texts(getattr(frame.geometry, axis).to_numpy()))
    return table_of(path, columns, layer_crs(path, frame))


def netcdf_table(path: Path, value: str) -> TextTable:
    """All variables along the one dimension that the values have."""
    content = read_bytes(path)
    xarray = gis_module("xarray", "NetCDF files", PLAINER)
    if content.startswith(HDF5):
        gis_module("h5netcdf", "NetCDF-4 files", PLAINER)
    try:
        dataset = xarray.load_dataset(path)
    except Exception as error:
        raise FileFormatError(f"{path} is no NetCDF file: {first_line(error)}.") from None
    names = [str(name) for name in dataset.variables]
    if value not in names:
        raise FileFormatError(
            f"{path} has no variable {value!r}: {nearest(value, names)}It has {', '.join(names)}."
        )
    dims = dataset[value].dims
    if len(dims) != 1:
        raise FileFormatError(
            f"{path}: {value} has the dimensions {', '.join(map(str, dims)) or 'none'}: "
            "observations are read along one dimension."
        )
    columns = {
        name: texts(np.asarray(dataset[name].values))
        for name in names
        if dataset[name].dims == dims
    }
    return table_of(path, columns, None)


def table_of(path: Path, columns: dict[str, list[str]], crs: str | None) -> TextTable:
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if not rows:
        raise FileFormatError(f"{path} has no rows: give at least one.")
    return TextTable(path, tuple(columns), rows, np.arange(1, len(rows) + 1), "row", crs=crs)


def texts(values: np.ndarray) -> list[str]:
    """Cells as a CSV file would write them; nothing where there is no value."""
    if np.issubdtype(values.dtype, np.datetime64):
        shown = np.datetime_as_string(values.astype("datetime64[s]"))
        return ["" if one == "NaT" else str(one) for one in shown]
    return [text_of(one) for one in values.tolist()]


def text_of(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN, of whatever kind
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace").strip()
    return repr(value) if isinstance(value, float) else str(value).strip()


def gis_module(name: str, what: str, instead: str = "write a .csv file") -> Any:
    """A package that files of some kind need."""
    try:
        return import_module(name)
    except ImportError:
        raise RieszError(
            f"{what} need {name}, which is not installed: pip install '.[gis]' in a clone of the "
            f"repository, or {instead}."
        ) from None

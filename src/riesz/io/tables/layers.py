"""Tables of text cells, by the kind of their file; numbers in them are told by their line.

Spreadsheets need the extra `excel`, map layers and NetCDF packages of the extra `gis`.
"""

import datetime
import gzip
import io
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from riesz.errors import FileFormatError, RieszError, any_of, nearest
from riesz.geometry.crs import crs_of
from riesz.geometry.lines import geojson_in
from riesz.io.store.files import read_bytes
from riesz.io.tables.dialect import Row, TextTable, table_in_text, table_of_rows

MOST_BYTES = 2**30
"""Of a table, unpacked: a small file may unpack to more than any memory holds."""

SHEETS = (".xlsx", ".xlsm")
OTHER_SHEETS = (".xls", ".ods", ".numbers")

LAYERS = (".gpkg", ".shp", ".geojson", ".json")
NETCDF = (".nc", ".nc4", ".cdf")
CSV = (".csv", ".txt", ".tsv", ".tab", ".csv.gz", ".txt.gz")
HDF5 = b"\x89HDF"
"""What NetCDF-4 files begin with; those of version 3 begin with CDF."""

PLAINER = "save the data in a plainer format"


def read_csv(path: Path | str) -> TextTable:
    """A CSV file whose header names the columns; blank lines and remarks are skipped.

    Separators, decimal marks and the encoding are found; `told` says how.
    """
    return csv_table(Path(path), read_bytes(path))


def csv_table(path: Path, content: bytes) -> TextTable:
    """The same from the bytes of a file."""
    return table_in_text(path, unpack(path, content))


def unpack(path: Path, content: bytes) -> bytes:
    """Without the compression that the suffix .gz tells of."""
    if path.suffix.lower() != ".gz":
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            result = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{path} is not a whole gzip file: {error}.") from None
    if len(result) > MOST_BYTES:
        raise FileFormatError(
            f"{path} unpacks to more than {MOST_BYTES:.1e} bytes: keep the rows that are needed."
        )
    return result


def sheet_table(path: Path, name: str | None) -> TextTable:
    """A sheet of a spreadsheet, the first one unless it is named."""
    read_bytes(path)  # a file that is not there is told as everywhere
    openpyxl = spreadsheet_module(path)
    try:
        # Not read-only: that mode trusts the size that a file claims, which may be of one cell.
        book = openpyxl.load_workbook(path, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, TypeError) as error:
        raise FileFormatError(f"{path} is no spreadsheet (.xlsx): {error}.") from None
    names = [sheet.title for sheet in book.worksheets]
    if name is not None and name not in names:
        raise FileFormatError(
            f"{path} has no sheet {name!r}: {nearest(name, names)}It has {', '.join(names)}."
        )
    chosen = names[0] if name is None else name
    rows: list[Row] = [
        (number, [cell_text(cell) for cell in row])
        for number, row in enumerate(book[chosen].iter_rows(values_only=True), start=1)
    ]
    remarks = [f"sheet {chosen!r} of {', '.join(names)}"] if len(names) > 1 else []
    return table_of_rows(path, rows, remarks, place="row")


def cell_text(value: Any) -> str:
    """As a CSV file would write it; days as the standard does."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat() if value.time() != datetime.time() else value.date().isoformat()
    if isinstance(value, float):
        # Spreadsheets know no whole numbers: an identifier of digits has no fraction.
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value).strip()


def spreadsheet_module(path: Path) -> Any:
    try:
        return import_module("openpyxl")
    except ImportError:
        raise RieszError(
            f"{path} is a spreadsheet, which openpyxl reads, and that is not installed: pip "
            "install '.[excel]' in a clone of the repository, or save the sheet as CSV."
        ) from None


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
    known = any_of((".csv", ".csv.gz", ".xlsx", ".gpkg", ".geojson", ".shp", ".nc"))
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
            f"{any_of([repr(name) for name in names[1:]])}."
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
    return table_from(path, columns, layer_crs(path, frame))


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
    return table_from(path, columns, None)


def table_from(path: Path, columns: dict[str, list[str]], crs: str | None) -> TextTable:
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

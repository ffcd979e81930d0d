"""Maps on a grid: bands of named values with their colours, as GeoTIFF and as NetCDF.

GeoTIFF is north up, with NoData outside the domain, and needs rasterio; NetCDF (version 3) follows
the CF conventions, and needs xarray and pyproj: all of the extra `gis`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
from jaxtyping import Float, Shaped

from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import project
from riesz.io.store.files import write_bytes
from riesz.io.tables.layers import gis_module
from riesz.mesh.grids import Grid
from riesz.notes import Note

Values = Float[np.ndarray, "..."]

COLOURS = {
    "viridis": (
        "440154 48196b 462f7c 404387 38568b 30678d 29788e 23888d "
        "1e988a 22a784 35b778 53c567 79d151 a5da35 d2e11b fde724"
    ),
    "magma": (
        "000003 0b0824 1f114b 3b0f6f 57147d 711f81 8c2980 a7317d "
        "c33b74 dd4968 f0605d fa7f5e fd9f6c febe83 fddd9f fbfcbf"
    ),
    "cividis": (
        "00224d 002e6b 1d396e 35456c 47516b 575d6d 666970 747575 "
        "848178 948e77 a59b73 b6a96e c8b765 dac65a edd648 fde737"
    ),
    "RdBu_r": (
        "053061 175493 2c75b3 4393c3 77b4d5 a7cfe4 d1e5f0 eaf1f4 "
        "f9ede7 fddbc7 f7b799 ea8e70 d6604d be3036 991027 67001f"
    ),
}
"""Colour maps of matplotlib by a few of their colours: to import it takes longer than a map."""
DOCTYPE = b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"

TIME = "time"
CRS = "crs"
"""The variable that holds the coordinate system; others name it as their grid mapping."""


@dataclass(frozen=True, eq=False)
class Band:
    """One number a place; NaN lies outside the domain."""

    name: str
    values: Float[np.ndarray, "*shape"]
    about: str = ""
    unit: str | None = None
    when: str = ""  # the date, of one of several

    @property
    def label(self) -> str:
        return f"{self.name} {self.when}".rstrip()


def bands_of(
    name: str,
    values: Values,
    num_axes: int,
    *,
    about: str = "",
    unit: str | None = None,
    when: str = "",
) -> list[Band]:
    """One band a component, numbered where there are several; the first axes count places."""
    components = values.reshape(*values.shape[:num_axes], -1)
    count = components.shape[-1]
    labels = [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    return [
        Band(
            label,
            components[..., i],
            about if count == 1 else f"{about}, component {i}",
            unit,
            when,
        )
        for i, label in enumerate(labels)
    ]


def finite_range(band: Band) -> tuple[float, float]:
    """Smallest and largest value inside the domain."""
    return float(np.nanmin(band.values)), float(np.nanmax(band.values))


def colour_range(bands: Sequence[Band]) -> tuple[str, float, float]:
    """Which colours suit the first band, and their ends, which are the same for all its dates.

    Values of both signs get two colours that meet at zero, unless zero is far off the middle.
    """
    band = bands[0]
    lows, highs = zip(*(finite_range(one) for one in bands if one.name == band.name), strict=True)
    low, high = min(lows), max(highs)
    if "_exceed_" in band.name:
        return "cividis", 0.0, 1.0
    if low < 0 < high and min(-low, high) > 0.2 * max(-low, high):
        largest = max(-low, high)
        return "RdBu_r", -largest, largest
    return ("magma" if "_sd" in band.name else "viridis"), low, high


def style_of(raster: Path) -> Path:
    """Where QGIS looks for the style of a raster."""
    return raster.with_suffix(".qml")


def write_style(path: Path, colours: str, low: float, high: float) -> None:
    """Colour the first band from `low` to `high` by a colour map, one of COLOURS."""
    ends = {"minimumValue": f"{low!r}", "maximumValue": f"{high!r}"}
    root = Element("qgis", {"version": "3.22", "styleCategories": "Symbology"})
    renderer = SubElement(
        SubElement(root, "pipe"),
        "rasterrenderer",
        {
            "type": "singlebandpseudocolor",
            "band": "1",
            "opacity": "1",
            "alphaBand": "-1",
            "nodataColor": "",
            "classificationMin": f"{low!r}",
            "classificationMax": f"{high!r}",
        },
    )
    ramp = {"colorRampType": "INTERPOLATED", "classificationMode": "1", "clip": "0"}
    shader = SubElement(SubElement(renderer, "rastershader"), "colorrampshader", ramp | ends)
    codes = COLOURS[colours].split()
    for share, code in zip(np.linspace(0.0, 1.0, len(codes)), codes, strict=True):
        value = low + float(share) * (high - low)
        look = {"value": f"{value!r}", "color": f"#{code}", "alpha": "255"}
        SubElement(shader, "item", look | {"label": f"{value:.4g}"})
    indent(root)
    write_bytes(path, DOCTYPE + tostring(root))


def write_raster_and_style(
    path: Path,
    grid: Grid,
    bands: Sequence[Band],
    crs: str | None,
    tags: Mapping[str, str],
    colours: tuple[str, float, float] | None = None,
) -> list[Path]:
    """Write a raster and, beside it, the colours that suit the first band; returns both names."""
    write_raster(path, grid, bands, crs=crs, tags=tags)
    write_style(style_of(path), *(colours or colour_range(bands)))
    return [path, style_of(path)]


def netcdf_modules() -> tuple[Any, Any]:
    return gis_module("xarray", ".nc files"), gis_module("pyproj", ".nc files")


def write_netcdf(
    path: Path,
    grid: Grid,
    bands: Sequence[Band],
    *,
    crs: str | None = None,
    attributes: Mapping[str, str] | None = None,
    times: Shaped[np.ndarray, " time"] | None = None,
) -> None:
    """Write arrays on a grid, each a variable over y and x; NaN is the fill value.

    With `times`, dates or numbers, bands of one name are one variable, over time as well.
    """
    xarray, _ = netcdf_modules()
    known = None if crs is None else crs_object(crs)
    axes = {
        name: (name, values, axis_attributes(name, known))
        for name, values in zip("xy", grid.axes, strict=True)
    }
    axes |= {} if times is None else {TIME: (TIME, *time_variable(times))}
    by_name: dict[str, list[Band]] = {}
    for band in bands:
        by_name.setdefault(band.name, []).append(band)
    variables: dict[str, Any] = {
        name: band_variable(own, known, timed=times is not None) for name, own in by_name.items()
    }
    if known is not None:
        variables[CRS] = ((), np.int32(0), plain_attributes(known.to_cf()))
    dataset = xarray.Dataset(
        variables, axes, {"Conventions": "CF-1.8", "source": "riesz", **(attributes or {})}
    )
    filled = {name: {"_FillValue": np.nan} for name in by_name}
    bare = {name: {"_FillValue": None} for name in axes}
    content = dataset.to_netcdf(engine="scipy", encoding=filled | bare)
    write_bytes(path, bytes(content))


def time_variable(
    times: Shaped[np.ndarray, " time"],
) -> tuple[Float[np.ndarray, " time"], dict[str, str]]:
    """Values and attributes of the axis of time: dates count in days, as CF has them."""
    result = {"axis": "T", "long_name": "time"}
    if times.dtype.kind != "M":
        return times.astype(float), result
    midnight = times[0].astype("datetime64[D]")
    days = (times - midnight) / np.timedelta64(1, "s") / 86_400.0
    units = f"days since {midnight} 00:00:00"
    return days, result | {"standard_name": TIME, "units": units, "calendar": "standard"}


def band_variable(
    bands: Sequence[Band], crs: Any, *, timed: bool
) -> tuple[tuple[str, ...], np.ndarray, dict[str, str]]:
    """Of one name: a single band, or one a time."""
    band = bands[0]
    attributes = {"long_name": band.about or band.name}
    attributes |= {} if band.unit is None else {"units": band.unit}
    attributes |= {} if crs is None else {"grid_mapping": CRS}
    if timed:
        return (TIME, "y", "x"), np.stack([one.values for one in bands]), attributes
    return ("y", "x"), band.values, attributes


def crs_object(crs: str) -> Any:
    _, pyproj = netcdf_modules()
    try:
        return pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise RieszError(f"the CRS {crs!r} is not known: {error}.") from None


def axis_attributes(name: str, crs: Any) -> dict[str, str]:
    """What CF asks of an axis; without a coordinate system only its direction is known."""
    own = {} if crs is None else {one["axis"]: one for one in crs.cs_to_cf()}
    about = {"axis": name.upper(), "long_name": f"{name} of the cell centre"}
    return own.get(name.upper(), {}) | about


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """NetCDF has texts and numbers, but no truth values and nothing empty."""
    plain = {
        key: value for key, value in attributes.items() if isinstance(value, str | int | float)
    }
    # GDAL, and with it QGIS, reads the system from here.
    return plain | {"spatial_ref": str(attributes["crs_wkt"])}


def rasterio_modules() -> tuple[Any, Any]:
    """Rasterio and its CRS class, or what to install."""
    what = "GeoTIFF files"
    return gis_module("rasterio", what), gis_module("rasterio.crs", what).CRS


def rasterio_crs(crs: str) -> Any:
    """Rasterio's object for an EPSG code."""
    _, crs_class = rasterio_modules()
    try:
        return crs_class.from_user_input(crs)
    except ValueError as error:
        raise RieszError(f"the CRS {crs!r} is not known: {error}.") from None


def check_crs(crs: str) -> None:
    """Raise where a code means nothing; without rasterio there is nobody to ask yet."""
    if find_spec("rasterio") is not None:
        rasterio_crs(crs)


def crs_notes(crs: str) -> list[Note]:
    """What to know of a code that counts in degrees."""
    is_known = find_spec("rasterio") is not None
    return [Note("crs_in_degrees", crs=crs)] if is_known and rasterio_crs(crs).is_geographic else []


def raster_values(
    path: Path, points: Float[np.ndarray, "point 2"], crs: str | None
) -> Float[np.ndarray, " point"]:
    """The first band of a raster at points, which are in `crs`; raises where it has no value."""
    rasterio, _ = rasterio_modules()
    try:
        with rasterio.open(path) as source:
            own = source.crs
            there = points if crs is None or own is None else project(points, crs, own.to_wkt())
            cells = np.ma.concatenate(list(source.sample(there.tolist(), indexes=1, masked=True)))
    except rasterio.errors.RasterioIOError as error:
        raise FileFormatError(f"{path} cannot be read as a raster: {error}.") from None
    values = np.ma.filled(cells.astype(float), np.nan)
    (bad,) = np.nonzero(~np.isfinite(values))
    if bad.size:
        x, y = points[bad[0]]
        raise FileFormatError(
            f"{path} has no value at {bad.size} of {len(points)} places, first ({x:.10g}, {y:.10g})"
            ": take a raster that covers them all, or give one value."
        )
    return values


def write_raster(
    path: Path,
    grid: Grid,
    bands: Sequence[Band],
    *,
    crs: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Write arrays on a grid, each a named band with its unit; NaN is NoData.

    Of several dates of one statistic, bands are named by their dates. A grid runs along ascending
    y, a raster from north to south: rows change their order.
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
            crs=None if crs is None else rasterio_crs(crs),
            transform=transform,
            nodata=np.nan,
            compress="deflate",
        ) as raster:
            raster.update_tags(**(tags or {}))
            is_alone = len({band.name for band in bands}) == 1
            for number, band in enumerate(bands, start=1):
                raster.write(band.values[::-1], number)
                label = band.when if is_alone and band.when else band.label
                raster.set_band_description(number, label)
                raster.update_tags(number, long_name=band.about)
                if band.unit is not None:
                    raster.set_band_unit(number, band.unit)
        write_bytes(path, memory.read())

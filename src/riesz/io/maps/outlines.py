"""Outlines of domains from map files, with what these say of their coordinates."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import crs_of, same_crs, short_crs
from riesz.geometry.geojson import geojson_in
from riesz.geometry.lines import lines_of
from riesz.geometry.outline import Outline, outline_from
from riesz.io.store.files import read_bytes
from riesz.io.tables.layers import crs_text, read_layer
from riesz.spelling import listed

GEOJSON = (".geojson", ".json")
OUTLINES = (*GEOJSON, ".gpkg", ".shp")


@dataclass(frozen=True, eq=False)
class OutlineFile:
    """An outline and the crs that its file names, if any."""

    path: Path
    outline: Outline
    crs: str | None


def read_outline_file(path: Path, layer: str | None = None) -> OutlineFile:
    """The polygon in a GeoJSON file, a GeoPackage or a shapefile."""
    content, crs = read_shapes(path, layer)
    try:
        return OutlineFile(path, outline_from(content), crs)
    except RieszError as error:
        raise type(error)(f"{path}: {error}") from None


def read_shapes(path: Path, layer: str | None) -> tuple[Any, str | None]:
    """What a map file holds, as GeoJSON, and the crs that it names."""
    if path.suffix.lower() not in OUTLINES:
        raise FileFormatError(f"{path}: maps are read from files that end in {listed(OUTLINES)}.")
    if path.suffix.lower() not in GEOJSON:
        frame = read_layer(path, layer)
        if "geometry" not in frame:
            raise FileFormatError(f"{path} has no geometry: name a layer that is a map.")
        return frame.__geo_interface__, crs_text(frame.crs)
    if layer is not None:
        raise FileFormatError(f"{path} has no layers: leave the key layer out.")
    content = geojson_in(read_bytes(path), str(path))
    return content, crs_of(content)


def read_lines(path: Path, layer: str | None = None, *, crs: str | None = None) -> Any:
    """Lines, or outlines of polygons, in a map file, as GeoJSON; `crs` is the problem's own."""
    content, own = read_shapes(path, layer)
    if own is not None and crs is not None:
        check_same_crs(path, own, crs)
    try:
        lines_of(content)
    except RieszError as error:
        raise type(error)(f"{path}: {error}") from None
    return content


def check_same_crs(path: Path, own: str, crs: str) -> None:
    """Raise where a file names another crs than the problem file."""
    if not same_crs(own, crs):
        raise FileFormatError(
            f"{path} is in {short_crs(own)}, by its own crs, but the problem file says "
            f"{short_crs(crs)}: bring both into the same coordinates."
        )

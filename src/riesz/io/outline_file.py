"""Outlines of domains from map files, with what these say of their coordinates."""

from dataclasses import dataclass
from pathlib import Path

from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import crs_of
from riesz.geometry.geojson import geojson_in
from riesz.geometry.outline import Outline, outline_from
from riesz.io.crs_text import same_crs, short_crs
from riesz.io.layer_table import crs_text, read_layer
from riesz.io.whole_file import read_bytes

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
    if path.suffix.lower() in GEOJSON:
        if layer is not None:
            raise FileFormatError(f"{path} has no layers: leave the key layer out.")
        content = geojson_in(read_bytes(path), str(path))
        crs = crs_of(content)
    else:
        frame = read_layer(path, layer)
        content, crs = frame.geometry.__geo_interface__, crs_text(frame.crs)
    try:
        return OutlineFile(path, outline_from(content), crs)
    except RieszError as error:
        raise type(error)(f"{path}: {error}") from None


def check_same_crs(path: Path, own: str, crs: str) -> None:
    """Raise where a file names another crs than the problem file."""
    if not same_crs(own, crs):
        raise FileFormatError(
            f"{path} is in {short_crs(own)}, by its own crs, but the problem file says "
            f"{short_crs(crs)}: bring both into the same coordinates."
        )

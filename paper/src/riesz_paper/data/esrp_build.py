"""The folder `esrp` from the R files: tables cleaned and split by the rules, layers, elevations."""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy.interpolate import RegularGridInterpolator

from riesz.errors import FileFormatError
from riesz.geometry.crossings import offset_from_edge
from riesz.geometry.lines import Line, inside_polygon
from riesz_paper.data.esrp_raw import Raster, Raw
from riesz_paper.data.esrp_rules import Table, counts_of, drop_reasons, exclude_reasons, splits_from
from riesz_paper.data.library import optional

LAST_DATE = "1999-12-31"
OUTLINE_TOLERANCE, STREAM_TOLERANCE = 1500.0, 200.0  # m
COARSE = 10  # cells of the elevation model along one of the grid
NOTE = "coordinates are metres in the INL Albers projection, not lon/lat"
PROJ4 = (
    "+proj=aea +lat_1=42.83333333333333 +lat_2=44.16666666666666 +lat_0=41.5 +lon_0=-113 "
    "+x_0=200000 +y_0=0 +datum=NAD83 +units=m +no_defs"
)
WELL_COLUMNS = (
    *("site_no", "site_nm", "x_m", "y_m", "lon", "lat", "alt_ft", "alt_acy_ft", "alt_meth_cd"),
    *("dem_ft", "network_cd", "aqfr_cd", "nat_aqfr_cd", "aqfr_type_cd", "completion_cd"),
    *("well_depth_ft", "hole_depth_ft", "construction_dt", "coord_meth_cd", "coord_acy_s"),
    *("huc_cd", "in_esrp", "in_inl", "n_levels", "exclude_reason", "use", "n_levels_used"),
)
LEVEL_COLUMNS = (
    *("site_no", "date", "dtw_ft", "head_ft", "status_cd", "age_cd", "meth_cd"),
    *("dtw_acy_ft", "head_acy_ft", "drop_reason"),
)


def build_esrp(raw: Raw, folder: Path) -> None:
    """Write all files of the data set into a folder that is there."""
    sites, levels = clean_tables(raw)
    outline = thinned_ring(raw.boundary, OUTLINE_TOLERANCE)
    check_contains(outline, sites)
    kept = rows_of(levels, levels["drop_reason"] == "")
    shown = rows_of(levels, np.array([date <= LAST_DATE for date in levels["date"]]))
    texts = {
        "wells.csv": csv_of(sites, WELL_COLUMNS),
        "boundary.geojson": layer("esrp", [polygon("ESRP boundary", raw.boundary)], raw.crs),
        "boundary_simplified.geojson": layer(
            "esrp_simplified",
            [polygon("ESRP boundary, Douglas-Peucker 1.5 km", outline)],
            raw.crs,
        ),
        "inl_boundary.geojson": layer("inl", [polygon("INL boundary", raw.fence)], raw.crs),
        "streams.geojson": layer("streams", streams_of(raw), raw.crs),
    }
    for name, rows in splits_from(sites, kept).items():
        columns = {key: np.array([row[key] for row in rows], dtype=object) for key in rows[0]}
        texts[f"split_{name}.csv"] = csv_of(columns, tuple(columns))
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    packed = gzip.compress(csv_of(shown, LEVEL_COLUMNS).encode(), mtime=0)
    (folder / "levels_pre2000.csv.gz").write_bytes(packed)
    x, y, feet = coarse_grid(raw.elevation)
    np.savez_compressed(folder / "dem_1km.npz", elevation_ft=feet, x_m=x, y_m=y)


def clean_tables(raw: Raw) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Sites and levels in order, with all columns and the reasons to leave some out."""
    sites = rows_of(raw.sites, np.argsort(raw.sites["site_no"].astype(str), kind="stable"))
    levels = rows_of(raw.levels, ~np.isnan(raw.levels["dtw_ft"]))
    order = np.lexsort((levels["date"].astype(str), levels["site_no"].astype(str)))
    levels = rows_of(levels, order)
    levels["date"] = np.array([date[:10] for date in levels["date"]], dtype=object)
    sites["construction_dt"] = np.array([t[:10] for t in sites["construction_dt"]], dtype=object)
    points = np.stack([sites["x_m"], sites["y_m"]], axis=1)
    sites["lon"], sites["lat"] = (np.round(c, 6) for c in lon_lat(points, raw.crs))
    sites["x_m"], sites["y_m"] = np.round(points, 2).T
    sites["dem_ft"] = np.round(elevation_at(raw.elevation, points), 1)
    sites["in_esrp"] = inside_polygon(points, [raw.boundary])
    sites["in_inl"] = inside_polygon(points, [raw.fence])
    sites["exclude_reason"] = exclude_reasons(sites, levels)
    sites["use"] = sites["exclude_reason"] == ""
    levels["drop_reason"] = drop_reasons(levels, set(sites["site_no"][~sites["use"]]))
    kept = rows_of(levels, levels["drop_reason"] == "")
    for name, table in (("n_levels", levels), ("n_levels_used", kept)):
        counts = counts_of(table)
        sites[name] = np.array([counts.get(number, 0) for number in sites["site_no"]])
    return sites, levels


def rows_of(table: Table, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in table.items()}


def lon_lat(
    points: Float[np.ndarray, "site 2"], crs: str
) -> tuple[Float[np.ndarray, " site"], Float[np.ndarray, " site"]]:
    """Longitude and latitude in degrees (WGS 84)."""
    pyproj = optional("pyproj")
    try:
        to_degrees = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise FileFormatError(f"crs.rda holds a crs that is not known: {error}.") from None
    lon, lat = to_degrees.transform(points[:, 0], points[:, 1])
    return np.asarray(lon), np.asarray(lat)


def elevation_at(raster: Raster, points: Float[np.ndarray, "site 2"]) -> Float[np.ndarray, " site"]:
    """Bilinear between centres of cells; NaN outside of them."""
    rows, columns = raster.values.shape
    x = raster.corner[0] + raster.cell[0] * (np.arange(columns) + 0.5)
    y = raster.corner[1] - raster.cell[1] * (np.arange(rows) + 0.5)
    at = RegularGridInterpolator((y[::-1], x), raster.values[::-1], bounds_error=False)
    return at(points[:, ::-1])


def coarse_grid(
    raster: Raster,
) -> tuple[
    Float[np.ndarray, " column"], Float[np.ndarray, " row"], Float32[np.ndarray, "row column"]
]:
    """Means over blocks of cells from the north-western corner; what is left over is cut off."""
    rows, columns = (size // COARSE for size in raster.values.shape)
    whole = raster.values[: rows * COARSE, : columns * COARSE]
    means = whole.reshape(rows, COARSE, columns, COARSE).mean(axis=(1, 3))
    step = COARSE * raster.cell
    x = raster.corner[0] + step[0] * (np.arange(columns) + 0.5)
    y = raster.corner[1] - step[1] * (np.arange(rows) + 0.5)
    return x, y, np.round(means, 2).astype(np.float32)


def check_contains(outline: Line, sites: Table) -> None:
    points = np.stack([sites["x_m"], sites["y_m"]], axis=1)[sites["use"]]
    out: Bool[np.ndarray, " used"] = ~inside_polygon(points, [outline])
    if out.any():
        number = sites["site_no"][sites["use"]][out][0]
        raise FileFormatError(
            f"{out.sum()} of {len(out)} wells lie outside the simplified boundary, first {number}: "
            "the files may be of another version of inldata."
        )


def layer(name: str, features: Sequence[Mapping[str, Any]], crs: str) -> str:
    """A GeoJSON text with a heading that says what its coordinates are."""
    heading = {"type": "FeatureCollection", "name": name, "note": NOTE}
    return json.dumps({**heading, "crs_proj4": PROJ4, "crs_wkt2": crs, "features": features})


def polygon(name: str, ring: Line) -> dict[str, Any]:
    closed = np.concatenate([ring, ring[:1]])
    geometry = {"type": "Polygon", "coordinates": [np.round(closed, 1).tolist()]}
    return {"type": "Feature", "properties": {"name": name}, "geometry": geometry}


def streams_of(raw: Raw) -> list[dict[str, Any]]:
    return [
        {
            "type": "Feature",
            "properties": {"name": name, "type": kind},
            "geometry": {
                "type": "LineString",
                "coordinates": np.round(thinned_line(line, STREAM_TOLERANCE), 1).tolist(),
            },
        }
        for name, kind, line in raw.streams
    ]


def csv_of(table: Table, columns: Sequence[str]) -> str:
    """A table as CSV, cells empty where a number is not known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    cells = [table[name].tolist() for name in columns]
    writer.writerows([shown(cell) for cell in row] for row in zip(*cells, strict=True))
    return out.getvalue()


def shown(cell: Any) -> Any:
    return "" if isinstance(cell, float) and np.isnan(cell) else cell


def thinned_line(
    line: Float[np.ndarray, "vertex 2"], tolerance: float
) -> Float[np.ndarray, "kept 2"]:
    """The line with both ends, and of the rest what it needs (Douglas & Peucker 1973).

    Unlike `simplify_outline` this keeps no topology: it is the rule of map services, kept for data
    that were made with it.
    """
    return line[needed(line, tolerance)]


def thinned_ring(
    ring: Float[np.ndarray, "vertex 2"], tolerance: float
) -> Float[np.ndarray, "kept 2"]:
    """An open ring, which may lose the vertex that it starts at too."""
    closed = np.concatenate([ring, ring[:1]])
    kept = closed[needed(closed, tolerance)][:-1]
    chord = kept[1] - kept[-1]
    off = offset_from_edge(kept[:1] - kept[-1], chord)[0]
    # Where its start goes, a ring starts at the vertex before.
    return np.roll(kept[1:], 1, axis=0) if len(kept) > 3 and off <= tolerance else kept


def needed(line: Float[np.ndarray, "vertex 2"], tolerance: float) -> Bool[np.ndarray, " vertex"]:
    """Both ends, and between two that are needed the furthest from their chord if it is far."""
    kept = np.zeros(len(line), dtype=bool)
    kept[[0, -1]] = True
    pending = [(0, len(line) - 1)]
    while pending:
        first, last = pending.pop()
        between = line[first + 1 : last]
        if not len(between):
            continue
        offset = offset_from_edge(between - line[first], line[last] - line[first])
        if offset.max() > tolerance:
            middle = first + 1 + int(offset.argmax())
            kept[middle] = True
            pending += [(first, middle), (middle, last)]
    return kept

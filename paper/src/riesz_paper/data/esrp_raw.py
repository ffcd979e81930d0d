"""The seven R files that `esrp` is made from, as plain arrays.

They hold what `sf` and `terra` keep: data frames with a column of geometries, and a raster packed
into a text that defines it and a matrix of its cells. What is not there is told with what is.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError
from riesz.geometry.lines import Line
from riesz_paper.data.library import optional

LOCAL_TIME = "America/Denver"
CANAL = "CanalDitch"
Columns = Mapping[str, Any]

SITE_COLUMNS = {
    "site_no": "site_no",
    "site_nm": "site_nm",
    "alt_ft": "alt_va",
    "alt_acy_ft": "alt_acy_va",
    "alt_meth_cd": "alt_meth_cd",
    "network_cd": "network_cd",
    "aqfr_cd": "aqfr_cd",
    "nat_aqfr_cd": "nat_aqfr_cd",
    "aqfr_type_cd": "aqfr_type_cd",
    "completion_cd": "completion_cd",
    "well_depth_ft": "well_depth_va",
    "hole_depth_ft": "hole_depth_va",
    "construction_dt": "construction_dt",
    "coord_meth_cd": "coord_meth_cd",
    "coord_acy_s": "coord_acy_va",
    "huc_cd": "huc_cd",
}
LEVEL_COLUMNS = {
    "site_no": "site_no",
    "date": "lev_dt",
    "dtw_ft": "lev_va",
    "head_ft": "sl_lev_va",
    "status_cd": "lev_status_cd",
    "age_cd": "lev_age_cd",
    "meth_cd": "lev_meth_cd",
    "dtw_acy_ft": "lev_acy_va",
    "head_acy_ft": "sl_lev_acy_va",
}


@dataclass(frozen=True, eq=False)
class Raster:
    """Cells of an elevation model, row 0 in the north; `corner` is its north-western one."""

    corner: Float[np.ndarray, "2"]
    cell: Float[np.ndarray, "2"]
    values: Float[np.ndarray, "row column"]


@dataclass(frozen=True, eq=False)
class Raw:
    """What the files hold, in the names that the tables of `esrp` have."""

    sites: dict[str, np.ndarray]
    levels: dict[str, np.ndarray]
    boundary: Line
    fence: Line
    streams: tuple[tuple[str, str, Line], ...]  # name, type, vertices
    elevation: Raster
    crs: str  # WKT


def read_raw(folder: Path) -> Raw:
    """All seven files of a folder."""
    sites = r_object(folder, "sites")
    places = [np.asarray(one, dtype=float) for one in column(sites, "geometry", "sites")]
    x, y = np.array([place.ravel()[:2] for place in places]).T
    return Raw(
        sites={**renamed(sites, SITE_COLUMNS, "sites"), "x_m": x, "y_m": y},
        levels=renamed(r_object(folder, "gwl"), LEVEL_COLUMNS, "gwl"),
        boundary=the_polygon(r_object(folder, "esrp"), "esrp"),
        fence=the_polygon(r_object(folder, "inl"), "inl"),
        streams=natural_streams(r_object(folder, "streams")),
        elevation=raster_from(r_object(folder, "dem")),
        crs=wkt_of(r_object(folder, "crs")),
    )


def r_object(folder: Path, name: str) -> Any:
    """The object `name` in the file `name.rda`."""
    rdata = optional("rdata")
    path = folder / f"{name}.rda"
    try:
        with warnings.catch_warnings():
            # It warns of every class that it has no constructor for; we want what is below them.
            warnings.simplefilter("ignore")
            found = rdata.read_rda(path, constructor_dict=constructors(rdata))
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # a damaged file can fail anywhere in the reader
        raise FileFormatError(f"{path} is not an R data file that can be read: {error}.") from None
    if name not in found:
        raise FileFormatError(
            f"{path} holds no {name!r}: it holds {', '.join(found) or 'nothing'}."
        )
    return found[name]


def constructors(rdata: Any) -> dict[str, Any]:
    """What R classes become: columns by name, texts, and dates."""
    known = {
        name: rdata.conversion.DEFAULT_CLASS_MAP[name] for name in ("factor", "ordered", "srcref")
    }
    frames = dict.fromkeys(("sf", "data.frame", "tbl_df"), lambda value, _: value)
    return {**known, **frames, "Date": dates_from_days, "POSIXct": dates_from_seconds}


def dates_from_days(value: Any, _: Columns) -> np.ndarray:
    days = np.asarray(value, dtype=float)
    return iso_dates(np.where(np.isnan(days), np.nan, days * 86_400), "UTC")


def dates_from_seconds(value: Any, _: Columns) -> np.ndarray:
    return iso_dates(np.asarray(value, dtype=float), LOCAL_TIME)


def iso_dates(seconds: Float[np.ndarray, " n"], zone: str) -> np.ndarray:
    """Dates with time, such as 1971-09-21T12:00, at the place; empty where they are not known."""
    start, there = datetime(1970, 1, 1, tzinfo=UTC), ZoneInfo(zone)
    # By a difference: times before 1970 are negative, which not every system can convert.
    told = [
        ""
        if np.isnan(one)
        else (start + timedelta(seconds=float(one))).astimezone(there).isoformat()[:16]
        for one in seconds
    ]
    return np.array(told, dtype=object)


def column(table: Any, name: str, of: str) -> Any:
    if not isinstance(table, Mapping):
        raise FileFormatError(
            f"{of}.rda holds a {type(table).__name__}, not a table: the file may be of another "
            "version of inldata."
        )
    if name not in table:
        raise FileFormatError(
            f"{of}.rda has no column {name!r}: it has {', '.join(map(str, table))}. The file may "
            "be of another version of inldata."
        )
    return table[name]


def renamed(table: Any, names: Mapping[str, str], of: str) -> dict[str, np.ndarray]:
    """Columns in our names; texts are empty and numbers NaN where R has NA."""
    return {ours: plain(column(table, theirs, of)) for ours, theirs in names.items()}


def plain(values: Any) -> np.ndarray:
    """Numbers as float, all else as text."""
    if is_numeric(values):
        return np.ma.filled(np.ma.asarray(values).astype(float), np.nan)
    texts = ["" if one is None or one != one else str(one) for one in list(values)]  # noqa: PLR0124
    return np.array(texts, dtype=object)


def is_numeric(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "kind", "") in tuple("fiub")


def the_polygon(table: Any, of: str) -> Line:
    """The outer ring of the one polygon in a layer, not closed."""
    rings = [
        ring for geometry in column(table, "geometry", of) for ring in rings_in(geometry, depth=2)
    ]
    if len(rings) != 1:
        raise FileFormatError(f"{of}.rda has {len(rings)} rings: one polygon was expected.")
    ring = np.asarray(rings[0], dtype=float)[:, :2]
    return ring[:-1] if (ring[0] == ring[-1]).all() else ring


def rings_in(geometry: Any, depth: int) -> list[Any]:
    """The matrices in a geometry, whose lists may be nested once more for a MULTI one."""
    if isinstance(geometry, Sequence) and not isinstance(geometry, str) and depth:
        return [ring for part in geometry for ring in rings_in(part, depth - 1)]
    return [geometry]


def natural_streams(table: Any) -> tuple[tuple[str, str, Line], ...]:
    """All that is no canal."""
    names, kinds = (plain(column(table, key, "streams")) for key in ("gnis_nm", "feature_tp"))
    found = []
    for name, kind, geometry in zip(
        names, kinds, column(table, "geometry", "streams"), strict=True
    ):
        if kind == CANAL:
            continue
        found += [
            (name, kind, np.asarray(one, dtype=float)[:, :2]) for one in rings_in(geometry, depth=1)
        ]
    return tuple(found)


def raster_from(packed: Any) -> Raster:
    """A raster that `terra` packed: a definition in words, and a column of cells."""
    slots = packed if isinstance(packed, Mapping) else getattr(packed, "__dict__", {})
    missing = [name for name in ("definition", "values") if name not in slots]
    if missing:
        raise FileFormatError(
            f"dem.rda holds a raster without {' and '.join(missing)}: it has "
            f"{', '.join(slots) or type(packed).__name__}."
        )
    text = str(np.asarray(slots["definition"]).ravel()[0])
    keys = ("ncols", "nrows", "xmin", "xmax", "ymin", "ymax")
    told = {key: re.search(rf"\b{key}\s*=\s*(-?[\d.]+(?:[eE][+-]?\d+)?)", text) for key in keys}
    unknown = [key for key, match in told.items() if match is None]
    if unknown:
        raise FileFormatError(
            f"dem.rda: its definition has no {', '.join(unknown)}; it is {text[:200]!r}."
        )
    columns, rows, xmin, xmax, ymin, ymax = (float(m[1]) for m in told.values() if m is not None)
    cells = np.asarray(slots["values"], dtype=float).ravel()
    if cells.size != columns * rows:
        raise FileFormatError(
            f"dem.rda has {cells.size} cells, not {columns:.0f} x {rows:.0f} as it says."
        )
    return Raster(
        np.array([xmin, ymax]),
        np.array([(xmax - xmin) / columns, (ymax - ymin) / rows]),
        cells.reshape(int(rows), int(columns)),
    )


def wkt_of(crs: Any) -> str:
    """The WKT of a crs of `sf`, which keeps it beside what was typed."""
    found = crs.get("wkt") if isinstance(crs, Mapping) else None
    if found is None:
        raise FileFormatError(f"crs.rda holds a {type(crs).__name__} without a wkt.")
    return str(np.asarray(found).ravel()[0])

"""A made-up aquifer in R files of the form of inldata, for tests without the real ones."""

from pathlib import Path

import numpy as np
import rdata
from rdata.conversion.to_r import build_r_object

ALBERS = (
    "+proj=aea +lat_1=42.8333 +lat_2=44.1667 +lat_0=41.5 +lon_0=-113 +x_0=200000 +datum=NAD83 "
    "+units=m +no_defs"
)
BOUNDARY = np.array([[1.2, 1.6], [2.9, 1.6], [2.9, 3.2], [1.2, 3.2], [1.2, 1.6]]) * 1e5
FENCE = np.array([[1.9, 2.1], [2.2, 2.1], [2.2, 2.5], [1.9, 2.5], [1.9, 2.1]]) * 1e5
ALTITUDE = 5000.0  # ft, of the land everywhere
NUM_WELLS = 40
SECONDS = 86_400.0


class R:
    """A value with the attributes that R gives it, such as its class."""

    def __init__(self, value, **attributes):
        self.value, self.attributes = value, attributes


def r_value(data, converter):
    """What `R` becomes, for rdata."""
    bare, kept = data.value, {}
    if isinstance(bare, dict):
        bare, kept = list(bare.values()), {"names": np.array(list(bare))}
    elif isinstance(bare, np.ndarray) and bare.ndim == 2:
        bare, kept = bare.ravel(order="F"), {"dim": np.array(bare.shape)}
    # Bare: a symbol that is converted twice would be referred to before it is written.
    inner = converter.convert_to_r_object(bare)
    attributes = {
        key.replace("_", "."): one if isinstance(one, np.ndarray) else np.array(one)
        for key, one in {**kept, **data.attributes}.items()
    }
    return build_r_object(
        inner.info.type,
        value=inner.value,
        is_object="class" in attributes,
        attributes=converter.convert_to_r_attributes(attributes),
    )


def write(path: Path, name: str, value) -> None:
    rdata.write_rda(path / f"{name}.rda", {name: value}, constructor_dict={R: r_value})


def frame(columns, *, spatial=False):
    first = next(iter(columns.values()))
    length = len(first.value if isinstance(first, R) else first)
    kinds = (["sf"] if spatial else []) + ["data.frame"]
    return R(columns, **{"class": kinds, "row.names": np.arange(1, length + 1)})


def texts(values):
    return np.array(values, dtype=object)


def shapes(kind, values):
    return R(
        [R(one, **{"class": ["XY", kind, "sfg"]}) for one in values],
        **{"class": [f"sfc_{kind}", "sfc"]},
    )


def sites_and_levels():
    """Wells on a slope of 1 ft a kilometre, some of them wrong in a way that a rule finds."""
    rng = np.random.default_rng(0)
    near = np.array([2.05e5, 2.3e5]) + rng.uniform(-1.2e4, 1.2e4, (30, 2))
    far = np.array([2.05e5, 2.3e5]) + 4.5e4 * np.stack(
        [np.cos(np.arange(10)), np.sin(np.arange(10))], axis=1
    )
    points = np.round(np.concatenate([near, far]), 2)
    numbers = [f"4330001125{i:05d}" for i in range(NUM_WELLS)]
    head = 4500.0 - points[:, 0] / 1e3
    head[3] += 400.0  # perched
    network = ["A"] * NUM_WELLS
    network[4] = "P"
    altitude = np.full(NUM_WELLS, ALTITUDE)
    altitude[5] += 60.0
    depth = np.full(NUM_WELLS, 900.0)
    depth[6] = 9000.0
    rows = []
    for i in range(NUM_WELLS):
        if i == 7:
            continue
        for day in (-3000, -2990, -2980, 4000, 4010, 4020, 12_000):
            rows.append((numbers[i], (day + 0.8) * SECONDS, ALTITUDE - head[i], "1", "A"))
    rows[1] = (*rows[1][:3], "P", "A")
    sites = {
        "site_nm": [f"WELL {i}" for i in range(NUM_WELLS)],
        "site_no": numbers,
        "coord_meth_cd": ["D"] * NUM_WELLS,
        "coord_acy_va": np.full(NUM_WELLS, 0.01),
        "alt_va": altitude,
        "alt_meth_cd": ["L"] * NUM_WELLS,
        "alt_acy_va": np.full(NUM_WELLS, 0.01),
        "construction_dt": R(np.full(NUM_WELLS, -1000.0), **{"class": ["Date"]}),
        "huc_cd": ["17040218"] * NUM_WELLS,
        "nat_aqfr_cd": [None] * NUM_WELLS,
        "aqfr_cd": ["110SKRV"] * NUM_WELLS,
        "aqfr_type_cd": ["U"] * NUM_WELLS,
        "well_depth_va": depth,
        "hole_depth_va": depth,
        "completion_cd": ["O"] * NUM_WELLS,
        "network_cd": network,
    }
    number, seconds, depths, status, age = map(list, zip(*rows, strict=True))
    many = len(rows)
    levels = {
        "site_no": number,
        "lev_dt": R(
            np.array(seconds), **{"class": ["POSIXct", "POSIXt"], "tzone": ["America/Denver"]}
        ),
        "lev_va": np.array(depths),
        "sl_lev_va": ALTITUDE - np.array(depths),
        "lev_status_cd": status,
        "lev_age_cd": age,
        "lev_meth_cd": ["S"] * many,
        "lev_acy_va": np.full(many, 0.01),
        "sl_lev_acy_va": np.full(many, 0.02),
    }
    return as_columns(sites), as_columns(levels), points


def as_columns(table):
    return {k: texts(v) if isinstance(v, list) else v for k, v in table.items()}


def write_raw(folder: Path, **changed) -> None:
    """All seven files; `changed` replaces whole objects by name."""
    sites, levels, points = sites_and_levels()
    river = np.array([[1.5e5, 2e5], [1.6e5, 2.0005e5], [1.7e5, 2e5]])
    size, extent = "ncols=180, nrows=170", "xmin=110000, xmax=290000, ymin=150000, ymax=320000"
    definition = f"rast({size}, nlyrs=1, {extent}, names='elevation')"
    objects = {
        "sites": frame({**sites, "geometry": shapes("POINT", list(points))}, spatial=True),
        "gwl": frame(levels),
        "esrp": frame({"geometry": shapes("POLYGON", [[BOUNDARY]])}, spatial=True),
        "inl": frame({"geometry": shapes("POLYGON", [[FENCE]])}, spatial=True),
        "streams": frame(
            {
                "gnis_nm": texts(["Big Lost River", None]),
                "feature_tp": texts(["StreamRiver", "CanalDitch"]),
                "geometry": shapes("LINESTRING", [river, river + 5e3]),
            },
            spatial=True,
        ),
        "dem": {"definition": definition, "values": np.full((180 * 170, 1), ALTITUDE)},
        "crs": R({"input": texts([ALBERS]), "wkt": texts([ALBERS])}, **{"class": ["crs"]}),
        **changed,
    }
    folder.mkdir(exist_ok=True)
    for name, value in objects.items():
        write(folder, name, value)

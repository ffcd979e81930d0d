"""How the tables of `esrp` are cleaned and split: fixed functions of sites and water levels.

Tables are columns by name, named as in `wells.csv` and `levels_pre2000.csv.gz`. Nothing is deleted:
a reason is written beside what is left out.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull, KDTree

from riesz.errors import RieszError
from riesz.geometry.hull import check_cloud
from riesz.geometry.outline import Outline, contains, distance_to_outline, outline_from

Table = Mapping[str, np.ndarray]

ALTITUDE_CONFLICT = 25.0  # ft between a site's altitude and the elevation model
DEEPEST = 4000.0  # ft: test holes, open to far deeper rocks than the aquifer
PERCHED = 150.0  # ft above the water level of its neighbours
NUM_NEIGHBOURS = 14
LEAST_ACCURACY = 1.0  # ft
RUNNING = 11  # levels in a running median
OUTLYING, OUTLYING_SDS = 10.0, 8.0  # ft, and robust standard deviations
TRAINING_YEARS, TEST_YEARS = (1960, 1979), (1980, 1999)
ON_RIM = 1e-6  # m: corners of a hull are not inside it
CORE_RADIUS, CORE_GAP = 15e3, 2e3  # m, of split B2

BLOCK_CENTRES_KM = np.array(
    [
        *[(207.2, 240.7), (236.7, 251.1), (195.7, 217.9), (222.8, 260.9)],
        *[(225.5, 229.2), (251.6, 232.6), (205.5, 228.1), (161.9, 191.5)],
    ]
)
"""Of the eight blocks of split D: rounded means of a k-means clustering of the wells of A."""


def exclude_reasons(sites: Table, levels: Table) -> np.ndarray:
    """Why a site is left out, or nothing; `levels` are all there are, also after 1999."""
    heads, depths = medians(levels, "head_ft"), medians(levels, "dtw_ft")
    counts = counts_of(levels)
    reasons = np.full(len(sites["site_no"]), "", dtype=object)
    number = sites["site_no"]
    num_levels = np.array([counts.get(one, 0) for one in number])
    depth = np.array([depths.get(one, np.nan) for one in number])
    # Comparisons with what is not known are false: it excludes nothing.
    for told, found in (
        ("perched-network", sites["network_cd"] == "P"),
        ("surface-water", sites["network_cd"] == "S"),
        ("no-levels", num_levels == 0),
        (
            "altitude-conflicts-with-DEM",
            np.abs(sites["alt_ft"] - sites["dem_ft"]) > ALTITUDE_CONFLICT,
        ),
        ("deep-test-hole", sites["well_depth_ft"] > DEEPEST),
        ("single-level-at-well-bottom", (num_levels == 1) & (depth >= sites["well_depth_ft"])),
    ):
        reasons[found & (reasons == "")] = told
    (kept,) = np.nonzero(reasons == "")
    head = np.array([heads[one] for one in number[kept]])
    points = np.stack([sites["x_m"], sites["y_m"]], axis=1)[kept]
    reasons[kept[is_perched(points, head)]] = "perched-by-head"
    return reasons


def is_perched(
    points: Float[np.ndarray, "well 2"], head: Float[np.ndarray, " well"]
) -> Bool[np.ndarray, " well"]:
    """Which heads are far above the median of their nearest neighbours that are not.

    Repeated until none is: perched wells come in clusters, and hide behind each other.
    """
    perched = np.zeros(len(head), dtype=bool)
    while (~perched).sum() > NUM_NEIGHBOURS:
        (kept,) = np.nonzero(~perched)
        _, near = KDTree(points[kept]).query(points[kept], NUM_NEIGHBOURS + 1)
        # Not simply all but the first: wells at one place may come in any order.
        others = [row[row != i][:NUM_NEIGHBOURS] for i, row in enumerate(np.asarray(near))]
        excess = head[kept] - np.median(head[kept][np.array(others)], axis=1)
        if not (excess > PERCHED).any():
            break
        perched[kept[excess > PERCHED]] = True
    return perched


def drop_reasons(levels: Table, excluded: set[str]) -> np.ndarray:
    """Why a level is left out, or nothing; levels of a site follow each other in time."""
    reasons = np.full(len(levels["site_no"]), "", dtype=object)
    for told, found in (
        ("well-excluded", np.isin(levels["site_no"], list(excluded))),
        ("status-not-static", levels["status_cd"] != "1"),
        ("accuracy-worse-than-1-ft", ~(levels["dtw_acy_ft"] <= LEAST_ACCURACY)),
        ("provisional", levels["age_cd"] == "P"),
    ):
        reasons[found & (reasons == "")] = told
    (kept,) = np.nonzero(reasons == "")
    for rows in rows_by_site(levels["site_no"][kept]).values():
        out = is_outlying(levels["head_ft"][kept[rows]])
        reasons[kept[rows][out]] = "temporal-outlier"
    return reasons


def is_outlying(head: Float[np.ndarray, " level"]) -> Bool[np.ndarray, " level"]:
    """Which levels are far from a running median, in feet and in robust standard deviations.

    The window is cut at both ends of the record.
    """
    half = RUNNING // 2
    running = [np.median(head[max(0, i - half) : i + half + 1]) for i in range(len(head))]
    offset = np.abs(head - np.array(running))
    return offset > max(OUTLYING, OUTLYING_SDS * 1.4826 * float(np.median(offset)))


def rows_by_site(site_numbers: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of each site, sites in the order of their numbers."""
    names, which = np.unique(site_numbers.astype(str), return_inverse=True)
    order = np.argsort(which, kind="stable")
    cuts = np.cumsum(np.bincount(which, minlength=len(names)))[:-1]
    return dict(zip(names.tolist(), np.split(order, cuts), strict=True)) if len(names) else {}


def counts_of(levels: Table) -> dict[str, int]:
    return {site: len(rows) for site, rows in rows_by_site(levels["site_no"]).items()}


def medians(levels: Table, column: str) -> dict[str, float]:
    """The median of a column for each site."""
    by_site = rows_by_site(levels["site_no"])
    return {site: float(np.median(levels[column][rows])) for site, rows in by_site.items()}


def well_heads(sites: Table, kept: Table, years: tuple[int, int]) -> list[dict[str, Any]]:
    """One row a well that has levels in these years: medians, how many, and their spread."""
    year = np.array([int(date[:4]) for date in kept["date"]])
    (within,) = np.nonzero((year >= years[0]) & (year <= years[1]))
    place_of = {number: i for i, number in enumerate(sites["site_no"])}
    rows = []
    for site, found in rows_by_site(kept["site_no"][within]).items():
        head, depth = (kept[column][within[found]] for column in ("head_ft", "dtw_ft"))
        i = place_of[site]
        rows.append(
            {
                "site_no": site,
                "head_ft": float(np.median(head)),
                "dtw_ft": float(np.median(depth)),
                "n_levels": len(head),
                "head_sd": float(head.std(ddof=1)) if len(head) > 1 else "",
                "site_nm": sites["site_nm"][i],
                "x_m": float(sites["x_m"][i]),
                "y_m": float(sites["y_m"][i]),
                "in_inl": bool(sites["in_inl"][i]),
                "completion_cd": sites["completion_cd"][i],
            }
        )
    return rows


def splits_from(sites: Table, kept: Table) -> dict[str, list[dict[str, Any]]]:
    """The rows of splits A, B1, B2 and D, from sites and the levels that are kept."""
    before, after = (well_heads(sites, kept, years) for years in (TRAINING_YEARS, TEST_YEARS))
    if not before or not after:
        raise RieszError(
            f"there are {len(before)} wells with levels in {TRAINING_YEARS} and {len(after)} in "
            f"{TEST_YEARS}: a split needs wells in both."
        )
    whole = split_rows(before, after)
    every = {row["site_no"]: point_of(row) for row in [*before, *after]}
    middle = np.median(np.array(list(every.values())), axis=0)
    core = [row for row in before if np.linalg.norm(point_of(row) - middle) <= CORE_RADIUS]
    gap = distance_from_hull(points_of(after), points_of(core))
    far = [row for row, metres in zip(after, gap, strict=True) if metres > CORE_GAP]
    return {
        "A": whole,
        "B1": split_rows(
            [row for row in before if row["in_inl"]], [row for row in after if not row["in_inl"]]
        ),
        "B2": split_rows(core, far),
        "D": [{**row, "block": block_of(row)} for row in whole],
    }


def block_of(row: Mapping[str, Any]) -> int:
    return int(np.linalg.norm(BLOCK_CENTRES_KM - point_of(row) / 1e3, axis=1).argmin())


def split_rows(training: list[dict[str, Any]], test: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their role, and how test wells lie to the training wells."""
    places = points_of(training)
    known = {row["site_no"] for row in training}
    rows = []
    for role, wells in (("train", training), ("test", test)):
        points = points_of(wells)
        from_hull = distance_from_hull(points, places) / 1e3
        on_rim = distance_to_outline(convex_outline(places), points) < ON_RIM
        nearest, _ = KDTree(places).query(points)
        found = zip(wells, from_hull, on_rim, nearest, strict=True)
        for row, distance, at_rim, metres in found:
            told = {
                "role": role,
                "in_train_hull": bool(distance == 0 and not at_rim),
                "hull_dist_km": round(float(distance), 3),
                "same_well_in_train": row["site_no"] in known,
                "nn_train_km": round(float(metres) / 1e3, 3) if role == "test" else "",
            }
            rows.append({**row, **told})
    return rows


def point_of(row: Mapping[str, Any]) -> Float[np.ndarray, "2"]:
    return np.array([row["x_m"], row["y_m"]])


def points_of(rows: list[dict[str, Any]]) -> Float[np.ndarray, "row 2"]:
    return np.array([[row["x_m"], row["y_m"]] for row in rows]).reshape(-1, 2)


def distance_from_hull(
    points: Float[np.ndarray, "n 2"], cloud: Float[np.ndarray, "m 2"]
) -> Float[np.ndarray, " n"]:
    """How far each point is from the convex hull of a cloud; zero inside it."""
    hull = convex_outline(cloud)
    return np.where(contains(hull, points), 0.0, distance_to_outline(hull, points))


def convex_outline(cloud: Float[np.ndarray, "n 2"]) -> Outline:
    """The convex hull of a cloud, some of its points being the corners."""
    check_cloud(cloud)
    return outline_from(cloud[ConvexHull(cloud).vertices])

"""The rules find what they are for, and make the published tables out of each other."""

import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.io.tables.layers import read_csv
from riesz_paper.data.esrp_build import PROJ4, lon_lat
from riesz_paper.data.esrp_rules import (
    drop_reasons,
    exclude_reasons,
    is_outlying,
    is_perched,
    splits_from,
)


def columns_of(path, numbers):
    table = read_csv(path)
    found = {name: np.array(table.words(name), dtype=object) for name in table.header}
    return found | {name: table.numbers(name, may_be_missing=True) for name in numbers}


@pytest.fixture(scope="module")
def sites(esrp_folder):
    numbers = ("x_m", "y_m", "lon", "lat", "alt_ft", "dem_ft", "well_depth_ft")
    table = columns_of(esrp_folder / "wells.csv", numbers)
    return {**table, "in_inl": table["in_inl"] == "True"}


@pytest.fixture(scope="module")
def levels(esrp_folder):
    numbers = ("dtw_ft", "head_ft", "dtw_acy_ft")
    return columns_of(esrp_folder / "levels_pre2000.csv.gz", numbers)


def test_wells_are_left_out_for_the_published_reasons(sites, levels):
    found = exclude_reasons(sites, levels)
    # Only levels to 1999 are public as a table: wells that were drilled later look empty.
    known = np.isin(sites["site_no"], levels["site_no"])
    assert known.sum() > 200
    np.testing.assert_array_equal(found[known], sites["exclude_reason"][known])
    assert set(found[~known]) == {"no-levels", "perched-network", "surface-water"}


def test_levels_are_left_out_for_the_published_reasons(sites, levels):
    found = drop_reasons(levels, set(sites["site_no"][sites["exclude_reason"] != ""]))
    (differ,) = np.nonzero(found != levels["drop_reason"])
    # These three are the only level of their wells to 1999: what they stand out from came later.
    assert len(differ) == 3
    assert set(levels["drop_reason"][differ]) == {"temporal-outlier"}
    assert all((levels["site_no"] == levels["site_no"][row]).sum() == 1 for row in differ)


@pytest.mark.parametrize("name", ["A", "B1", "B2", "D"])
def test_splits_are_the_published_ones(esrp_folder, sites, levels, name):
    kept = {key: values[levels["drop_reason"] == ""] for key, values in levels.items()}
    rows = splits_from(sites, kept)[name]
    table = read_csv(esrp_folder / f"split_{name}.csv")
    published = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [list(row) for row in rows] == [list(row) for row in published]
    exact = [key for key in published[0] if key != "head_sd"]
    for found, told in zip(rows, published, strict=True):
        assert [str(found[key]) for key in exact] == [told[key] for key in exact]
        spread = float(found["head_sd"] or 0)
        assert spread == pytest.approx(float(told["head_sd"] or 0), rel=1e-9, abs=1e-12)


def test_longitude_and_latitude_are_the_published_ones(sites):
    lon, lat = lon_lat(np.stack([sites["x_m"], sites["y_m"]], axis=1), PROJ4)
    assert np.abs(lon - sites["lon"]).max() < 2e-6
    assert np.abs(lat - sites["lat"]).max() < 2e-6


def test_a_cluster_of_perched_wells_is_found_although_they_are_neighbours():
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1e4, (60, 2))
    points[:6] = points[0] + rng.uniform(-10, 10, (6, 2))
    head = 4500 + points[:, 0] / 1e3
    head[:6] += 300
    np.testing.assert_array_equal(is_perched(points, head), np.arange(60) < 6)
    assert not is_perched(points, 4500 + points[:, 0] / 1e3).any()


def test_few_wells_have_too_few_neighbours_to_be_perched():
    assert not is_perched(np.zeros((14, 2)), np.arange(14) * 1e3).any()


def test_a_spike_is_outlying_and_a_step_or_a_trend_is_not():
    steady = np.linspace(4500, 4520, 60)
    spiked = steady.copy()
    spiked[20] += 15
    np.testing.assert_array_equal(is_outlying(spiked), np.arange(60) == 20)
    assert not is_outlying(steady).any()
    assert not is_outlying(steady + np.where(np.arange(60) < 30, 0, 40)).any()
    assert not is_outlying(np.array([4500.0])).any()


def test_reasons_come_in_the_order_of_the_rules():
    levels = {
        "site_no": np.array(["1", "2", "2", "2", "2"], dtype=object),
        "status_cd": np.array(["P", "P", "1", "1", "1"], dtype=object),
        "dtw_acy_ft": np.array([0.1, 0.1, np.nan, 0.1, 0.1]),
        "age_cd": np.array(["A", "A", "P", "P", "A"], dtype=object),
        "head_ft": np.full(5, 4500.0),
    }
    assert drop_reasons(levels, {"1"}).tolist() == [
        "well-excluded",
        "status-not-static",
        "accuracy-worse-than-1-ft",
        "provisional",
        "",
    ]


def test_a_period_without_levels_is_told():
    empty = {"site_no": np.array([], dtype=object), "date": np.array([], dtype=object)}
    with pytest.raises(RieszError, match=r"there are 0 wells with levels in \(1960, 1979\)"):
        splits_from({"site_no": np.array([], dtype=object)}, empty)

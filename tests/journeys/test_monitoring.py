"""A monitoring network in time: from tables to forecasts at its wells, scored by later readings.

The model is the one that `riesz init` writes: by what is known of aquifers, before any forecast
was scored. The later readings that are scored here chose nothing.
"""

import shutil

import pytest
from tests.journeys.conftest import data_folder
from tests.journeys.heads import read_column, scores

TABLES = ("train.csv", "test.csv", "wells.csv", "recharge.csv", "pumping.csv")

WELL_AND_MONTH = 0.430
"""The mean absolute error of the mean of each well and month, in metres."""


@pytest.mark.slow  # 207 CPU seconds without optimised programs
def test_a_monitoring_network_is_forecast_better_than_by_the_months_of_its_wells(riesz):
    folder = data_folder("monitoring")
    for name in TABLES:
        shutil.copy(folder / name, riesz.folder)
    told = riesz(
        "riesz init train.csv --sites wells.csv --recharge recharge.csv --wells pumping.csv "
        "--crs EPSG:28992"
    )
    assert "recharge: m_per_day, 1989-06-01 to 2004-12-01" in told
    riesz("riesz check problem.toml")
    riesz("riesz fit problem.toml --out run --no-check")
    told = riesz(
        "riesz predict run --points test.csv --stat mean,q:0.025,q:0.975 --out forecasts.csv"
    )
    assert "readings of their own" not in told
    truth = read_column(riesz.folder / "test.csv", "head_m")
    error, inside = scores(riesz.folder / "forecasts.csv", truth)
    assert error < WELL_AND_MONTH, (error, inside)
    assert 0.92 <= inside <= 0.98, (error, inside)

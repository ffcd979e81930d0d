"""A monitoring network in time: from tables to forecasts at its wells, scored by later readings.

The model is the one that `riesz init` writes: by what is known of aquifers, before any forecast
was scored. The later readings that are scored here chose nothing.
"""

import csv
import re
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from tests.journeys.conftest import data_folder
from tests.journeys.heads import read_column, scores, write_table

TABLES = ("train.csv", "test.csv", "wells.csv", "recharge.csv", "pumping.csv")

WELL_AND_MONTH = 0.430
"""The mean absolute error of the mean of each well and month, in metres."""


INIT = (
    "riesz init train.csv --sites wells.csv --recharge recharge.csv --wells pumping.csv "
    "--crs EPSG:28992"
)
PREDICT = "riesz predict run --points test.csv --stat mean,q:0.025,q:0.975 --out forecasts.csv"


@pytest.mark.slow  # 207 CPU seconds without optimised programs
def test_a_monitoring_network_is_forecast_better_than_by_the_months_of_its_wells(riesz):
    folder = data_folder("monitoring")
    for name in TABLES:
        shutil.copy(folder / name, riesz.folder)
    assert "recharge: m_per_day, 1989-06-01 to 2004-12-01" in riesz(INIT)
    riesz("riesz check problem.toml")
    riesz("riesz fit problem.toml --out run --no-check")
    assert "readings of their own" not in riesz(PREDICT)
    truth = read_column(riesz.folder / "test.csv", "head_m")
    error, inside = scores(riesz.folder / "forecasts.csv", truth)
    assert error < WELL_AND_MONTH, (error, inside)
    assert 0.92 <= inside <= 0.98, (error, inside)


def test_half_of_the_network_over_half_of_the_years(riesz):
    """On a coarser mesh and by fewer values of the scales: what runs on every change."""
    folder = data_folder("monitoring")
    known, *_ = tables = [rows_of(folder / name) for name in TABLES]
    wells = sorted({row["well"] for row in known})[::2]
    for name, rows in zip(TABLES, tables, strict=True):
        dates = [row.get("date", row.get("month", "9")) for row in rows]
        kept = [
            list(row.values())
            for row, date in zip(rows, dates, strict=True)
            if row.get("well", wells[0]) in wells and date >= ("1996" if "date" in row else "1994")
        ]
        write_table(riesz.folder / name, list(rows[0]), kept)
    riesz(INIT)
    problem = riesz.folder / "problem.toml"
    text = re.sub(r"max_edge = \d+", "max_edge = 900", problem.read_text())
    problem.write_text(re.sub(r"num_values = \d+", "num_values = 8", text))
    riesz("riesz fit problem.toml --out run --no-check")
    riesz(PREDICT)
    truth = read_column(riesz.folder / "test.csv", "head_m")
    error, inside = scores(riesz.folder / "forecasts.csv", truth)
    by_month = well_and_month(*(rows_of(riesz.folder / name) for name in ("train.csv", "test.csv")))
    assert error < np.mean(abs(by_month - truth)), (error, inside)
    assert 0.88 <= inside <= 0.99, (error, inside)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def well_and_month(known: list[dict[str, str]], asked: list[dict[str, str]]) -> np.ndarray:
    """The mean of the readings that a well has of a month."""
    read = defaultdict(list)
    for row in known:
        read[row["well"], row["date"][5:7]].append(float(row["head_m"]))
    return np.array([np.mean(read[row["well"], row["date"][5:7]]) for row in asked])

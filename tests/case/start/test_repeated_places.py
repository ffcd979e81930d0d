"""Several readings of one place are one observation unless something else is said of them."""

import csv
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest

from riesz.case.data.read import read_observations
from riesz.case.options import InitOptions
from riesz.case.start.starter import starter
from riesz.notes import Note
from riesz.observe.observations import observations

WELLS = 6


def german(folder, name="Meßstelle", word="GWM {}"):
    """Six wells with five readings each, as an office writes them."""
    rng = np.random.default_rng(3)
    places = rng.uniform([400_000, 5_600_000], [405_000, 5_604_000], (WELLS, 2)).round(1)
    rows = [f"{name};Datum;Rechtswert;Hochwert;Filtertiefe;Wasserstand [m NHN]"]
    for number, (x, y) in enumerate(places):
        for day in range(5):
            level = 87.0 + number + 0.1 * day
            cells = [word.format(number + 7), f"{day + 1:02d}.03.2021", x, y, 5 + number, level]
            rows.append(";".join(map(str, cells)).replace(".", ",").replace(",03,", ".03."))
    path = folder / "pegel.csv"
    path.write_bytes("\n".join(rows).encode("cp1252"))
    return path


@pytest.mark.parametrize(
    ("name", "word"),
    [("Meßstelle", "GWM {}"), ("Messstelle", "{}"), ("pozo", "P-{}"), ("piezometre", "{}")],
)
def test_readings_of_a_well_are_one_observation_whatever_its_column_is_called(tmp_path, name, word):
    table = german(tmp_path, name, word)
    made = starter(table, tmp_path, InitOptions())
    names = tomllib.loads(made.text)["observations"]
    assert (names["site"], names["aggregate"]) == (name, "median")
    assert names["value"] == "Wasserstand [m NHN]"
    found = read_observations(table, x="Rechtswert", y="Hochwert", value=names["value"],
                              site=name, aggregate="median")  # fmt: skip
    assert found.sites == [word.format(number + 7) for number in range(WELLS)]
    np.testing.assert_allclose(found.values, 87.2 + np.arange(WELLS))
    (joined,) = [one for one in made.guesses if one.code == "sites_joined"]
    readings = Note("aggregated", how="median", fewest=5, most=5, count=6)
    assert joined == Note("sites_joined", remark=readings, column=name)


def test_places_alone_tell_which_readings_belong_together(tmp_path):
    table = german(tmp_path)
    keys = {"x": "Rechtswert", "y": "Hochwert", "value": "Wasserstand [m NHN]"}
    found = read_observations(table, **keys, aggregate="median")
    np.testing.assert_allclose(sorted(found.values), 87.2 + np.arange(WELLS))
    assert found.sites is None
    assert (found.readings == 5).all()
    every = read_observations(table, **keys)
    with pytest.warns(UserWarning, match=r"6 places were .* each of 30 values counts as independ"):
        observations(every.points, every.values)
    assert observations(found.points, found.values).num_sensors == WELLS


def test_a_column_that_differs_within_a_place_is_no_name_of_it(tmp_path):
    text = "x,y,run,head\n0,0,a,1.0\n0,0,b,1.2\n5,1,a,2.0\n5,1,b,2.2\n1,6,a,3.0\n1,6,b,3.3\n"
    (tmp_path / "t.csv").write_text(text)
    names = tomllib.loads(starter(tmp_path / "t.csv", tmp_path, InitOptions()).text)["observations"]
    assert "site" not in names
    assert (names["aggregate"], names["value"]) == ("median", "head")


def test_a_monitoring_network_has_as_many_observations_as_wells(tmp_path):
    folder = Path(os.environ.get("RIESZ_DATA", "")) / "monitoring"
    if not (folder / "wells.csv").exists():
        pytest.skip("needs RIESZ_DATA, a folder with monitoring in it: see paper/docs/data.md")
    with open(folder / "wells.csv") as wells, open(folder / "train.csv") as readings:
        where = {row["well"]: (row["x"], row["y"]) for row in csv.DictReader(wells)}
        rows = [[r["well"], *where[r["well"]], r["head_m"]] for r in csv.DictReader(readings)]
    with open(tmp_path / "all.csv", "w", newline="") as file:
        csv.writer(file).writerows([["name", "x", "y", "head_m"], *rows])
    made = starter(tmp_path / "all.csv", tmp_path, InitOptions())
    names = tomllib.loads(made.text)["observations"]
    assert (names["site"], names["aggregate"]) == ("name", "median")
    assert len(rows) > 2000
    (joined,) = [one.values for one in made.guesses if one.code == "sites_joined"]
    assert (joined["remark"].values["count"], joined["column"]) == (16, "name")

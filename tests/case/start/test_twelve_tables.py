"""Twelve made-up tables, as offices write them, become problem files, unaided or by one answer."""

import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from riesz.case.data.read import prepare_data
from riesz.case.data.schema import ObservationsTable
from riesz.case.options import InitOptions
from riesz.case.start.columns import unit_of
from riesz.case.start.starter import starter
from riesz.cli.main import app
from riesz.errors import RieszError
from riesz.io.tables.layers import read_table
from riesz.notes import Note

pytest.importorskip("pyproj", reason="projections need the extra gis")

TABLES = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Expected:
    """What a table holds, in the words of init, and what must be answered."""

    columns: tuple[str, str, str]
    rows: int
    told: tuple[Note, ...] = ()
    unit: str | None = None
    crs: str | None = None
    polygon: str | None = None
    question: str | None = None
    answer: dict[str, str] = field(default_factory=dict)


def form(words):
    return Note("table_form", form=words)


def taken(count, *, empty):
    return Note("rows_taken", count=count, total=30, homeless=0, empty=empty, outside=0)


SLIP = Note("far_outlier", where="fehler.csv, line 15", column="Cu (mg/kg)", value=6471.6)
CASES = {
    "boden.csv": Expected(
        ("Rechtswert", "Hochwert", "Zn [mg/kg]"),
        30,
        (form("text in cp1252, columns by semicolons, header on line 4, decimal commas"),),
        unit="mg/kg",
    ),
    "nitrat.txt": Expected(
        ("Ostwert", "Nordwert", "Nitrat (mg/l)"),
        28,
        (form("columns by tabs, decimal commas"), taken(28, empty=2)),
        unit="mg/l",
    ),
    "plomb.csv": Expected(
        ("X_L93", "Y_L93", "Teneur en Pb (mg/kg)"), 29, unit="mg/kg", crs="EPSG:2154"
    ),
    "temperatur.csv": Expected(
        ("Länge", "Breite", "Temperatur [°C]"),
        27,
        (
            Note("cells_emptied", column="Temperatur [°C]", count=3, numbers="-999"),
            Note("crs_from_degrees", crs="EPSG:32632"),
        ),
        unit="°C",
        crs="EPSG:32632",
    ),
    "schweiz.csv": Expected(
        ("E [m]", "N [m]", "pH"), 30, (form("text in utf-16, columns by tabs"),)
    ),
    "stichtag.xlsx": Expected(
        ("UTM Ost", "UTM Nord", "Wasserstand (m)"), 29, (taken(29, empty=1),), "m"
    ),
    "heads.csv": Expected(
        ("easting", "northing", "head_ft"),
        28,
        (Note("cells_emptied", column="head_ft", count=2, numbers="-9999"),),
        unit="ft",
    ),
    "survey.csv": Expected(("x", "y", "value"), 30, (form("header on line 4"),)),
    "feinstaub.csv": Expected(
        ("Longitude", "Latitude", "PM10 (µg/m³)"),
        30,
        (Note("crs_moved", source="EPSG:4326", target="EPSG:25832"),),
        unit="µg/m³",
        crs="EPSG:25832",
        polygon="gebiet_utm.geojson",
    ),
    "cadmium.txt": Expected(
        ("RW", "HW", "Cd_mg_kg"),
        29,
        unit="mg/kg",
        crs="EPSG:31467",
        polygon="gebiet_grad.geojson",
        question="by --crs EPSG:31467, if they are Gauss-Krüger zone 3",
        answer={"crs": "EPSG:31467"},
    ),
    "vertauscht.csv": Expected(
        ("Y", "X", "Messwert"),
        30,
        (
            Note(
                "axes_guessed",
                x="Y",
                y="X",
                reason="the range of the polygon: swapped against their names",
            ),
        ),
        crs="EPSG:25832",
        polygon="gebiet_utm.geojson",
    ),
    "fehler.csv": Expected(
        ("x", "y", "Cu (mg/kg)"),
        29,
        (
            SLIP,
            Note(
                "sites_joined",
                remark=Note("aggregated", how="median", fewest=1, most=2, count=29),
                column="their coordinates",
            ),
        ),
        unit="mg/kg",
        crs="EPSG:25832",
        polygon="gebiet_utm.geojson",
    ),
}


def needs_openpyxl(name):
    if name.endswith(".xlsx"):
        pytest.importorskip("openpyxl", reason="spreadsheets need the extra excel")


@pytest.mark.parametrize(("name", "expected"), CASES.items(), ids=CASES)
def test_a_table_is_understood_and_read_again_alike(name, expected):
    needs_openpyxl(name)
    area = None if expected.polygon is None else TABLES / expected.polygon
    if expected.question is not None:
        with pytest.raises(RieszError, match=expected.question):
            starter(TABLES / name, TABLES, InitOptions(area))
    made = starter(TABLES / name, TABLES, InitOptions(area, **expected.answer))
    tables = tomllib.loads(made.text)
    names = ObservationsTable.model_validate(tables["observations"])
    assert (names.x, names.y, names.value) == expected.columns
    assert not [one for one in expected.told if one not in made.guesses]
    assert (names.unit, tables.get("crs")) == (expected.unit, expected.crs)
    found = prepare_data(TABLES, names, None).within(tables.get("crs"))
    assert found.num_rows == expected.rows
    # All tables are of places about a town, a few kilometres across, in metres after projection.
    assert (np.ptp(found.points, axis=0) > 5_000).all()
    assert (np.ptp(found.points, axis=0) < 15_000).all()


def commands_on(folder, name):
    """Copies of a table's files, and the words for init."""
    expected = CASES[name]
    files = [name] if expected.polygon is None else [name, expected.polygon]
    for file in files:
        shutil.copy(TABLES / file, folder)
    options = [word for key, crs in expected.answer.items() for word in (f"--{key}", crs)]
    return ["init", *(str(folder / file) for file in files), *options]


def run(*words):
    told = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert told.exit_code == 0, told.output
    return told.output


QUICK = "feinstaub.csv"
LONG = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != QUICK]


@pytest.mark.parametrize("name", [QUICK, *LONG])
def test_a_table_goes_from_init_to_check(tmp_path, name):
    needs_openpyxl(name)
    problem = tmp_path / "problem.toml"
    run(*commands_on(tmp_path, name), "--out", problem)
    told = run("check", problem)
    assert "is understood" in told
    if CASES[name].unit is not None:
        assert f"in the column {CASES[name].columns[2]} in {CASES[name].unit}" in told


def test_check_names_what_is_odd(tmp_path):
    problem = tmp_path / "problem.toml"
    run(*commands_on(tmp_path, "fehler.csv"), "--out", problem)
    names = ObservationsTable.model_validate(tomllib.loads(problem.read_text())["observations"])
    found = prepare_data(tmp_path, names, None)
    assert found.notes == (SLIP,)
    names = ObservationsTable(file="heads.csv", x="easting", y="northing", value="head_ft")
    shutil.copy(TABLES / "heads.csv", tmp_path)
    (note,) = prepare_data(tmp_path, names, None).notes
    counts = {"value": -9999.0, "count": 2, "total": 30}
    assert note == Note("no_value", where="heads.csv, line 3", column="head_ft", **counts)


@pytest.mark.parametrize("name", ["fehler.csv"])
def test_what_is_the_same_in_all_rows_is_no_value_and_no_covariate(name):
    area = TABLES / str(CASES[name].polygon)
    with pytest.raises(RieszError, match=r"the covariate Faktor is 1\.0 in all 30 rows"):
        starter(TABLES / name, TABLES, InitOptions(area, covariates=("Faktor",)))
    with pytest.raises(RieszError, match="their values do not differ"):
        starter(TABLES / name, TABLES, InitOptions(area, value="Faktor"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["feinstaub.csv", "cadmium.txt"])
def test_a_table_goes_from_init_to_a_map(tmp_path, name):
    problem, out = tmp_path / "problem.toml", tmp_path / "run"
    run(*commands_on(tmp_path, name), "--out", problem)
    run("fit", problem, "--out", out, "--quiet")
    # Its own table serves as one of places, in its own coordinates.
    run("predict", out, "--points", tmp_path / name, "--out", tmp_path / "at.csv")
    names = ObservationsTable.model_validate(tomllib.loads(problem.read_text())["observations"])
    asked, found = read_table(tmp_path / name), read_table(tmp_path / "at.csv")
    for axis in (names.x, names.y):
        np.testing.assert_allclose(found.numbers(axis), asked.numbers(axis), rtol=1e-8)
    run("predict", out, "--grid", "30x20", "--out", tmp_path / "map.tif")
    assert (tmp_path / "map.qml").exists()


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("Grundwasserstand [m ü. NN]", "m ü. NN"),
        ("niveau (m NGF)", "m NGF"),
        ("head (m a.s.l.)", "m a.s.l."),
        ("Zn [mg/kg TS]", "mg/kg TS"),
        ("Wert (alt)", None),
        ("head_ft", "ft"),
    ],
)
def test_units_are_read_off_headers(header, unit):
    assert unit_of(header) == unit

"""Scenarios: what a file of changes makes of wells, series, sources and boundary values."""

from pathlib import Path

import numpy as np
import pytest
from tests.small_problem import LOGNORMAL, NORMAL, problem_toml, written
from tests.tiny_run_in_time import PROBLEM, READ, TABLES

from riesz.case.file.changes import read_scenario
from riesz.case.file.problem import read_case, read_problem
from riesz.case.file.wells import well_sources
from riesz.errors import RieszError
from riesz.fem.terms.series import Series

START, LATER = 0.0, 75.0  # 1980-03-16, in the middle of the third step


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("changes")
    written(path, PROBLEM, READ)
    for name, text in TABLES.items():
        (path / name).write_text(text)
    return path


@pytest.fixture(scope="module")
def case(folder):
    return read_problem(folder / "problem.toml")


def changes(folder: Path, text: str):
    (folder / "changes.toml").write_text(text)
    return read_scenario(folder / "changes.toml", folder / "problem.toml")


def test_wells_pump_twice_as_much_from_a_time_on(folder, case):
    found = changes(folder, 'from = 1980-03-16\n[[wells]]\nname = "P"\nfactor = 2\n')
    axis = case.problem.time.axis
    (wells,) = found.change_wells(case.inputs.wells)
    ratios = wells.step_rates(axis) / case.inputs.wells[0].step_rates(axis)
    np.testing.assert_allclose(ratios[:, 0], [1, 1, 1.5, 2, 2, 2])
    np.testing.assert_allclose(ratios[:, 1], 1)
    assert wells.place_names == ["P", "Q"]


def test_all_wells_stop_and_a_new_one_starts(folder, case):
    found = changes(folder, "[[wells]]\nfactor = 0\n[[wells]]\nx = 0.3\ny = 0.3\nrate = -5\n")
    axis = case.problem.time.axis
    old, new = found.change_wells(case.inputs.wells)
    np.testing.assert_array_equal(old.step_rates(axis), 0)
    np.testing.assert_array_equal(new.step_rates(axis), -5)
    np.testing.assert_array_equal(new.places, [[0.3, 0.3]])
    alone = changes(folder, "[wells]\nfactor = 0\n")
    (stopped,) = alone.change_wells(case.inputs.wells)
    np.testing.assert_array_equal(stopped.step_rates(axis), 0)


def test_series_are_scaled_or_come_from_another_table(folder, case):
    (folder / "dry.csv").write_text("date,value\n1980-01-01,0\n")
    axis = case.problem.time.axis
    text = 'from = 1980-03-16\n[series.rain]\nfile = "dry.csv"\n[series.lake]\nadd = -0.25\n'
    found = changes(folder, text).change_series(case.inputs.series)
    was, lake = case.inputs.series["rain"].means(axis), case.inputs.series["lake"].along(axis)
    np.testing.assert_allclose(found["rain"].means(axis), was * [1, 1, 0.5, 0, 0, 0])
    # Steps read lines where they end, the first of them after the change on 30 March.
    lines = np.interp(axis.times, *found["lake"].along(axis))
    np.testing.assert_allclose(lines - np.interp(axis.times, *lake), [0, 0, 0, *[-0.25] * 4])


def test_the_axis_goes_on_and_boundary_values_step(folder, case):
    text = "from = 1980-03-16\n[boundary.left]\nvalue = 3.0\n[time]\nend = 1980-12-26\n"
    found = changes(folder, text)
    axis = found.tables.time.axis()
    assert axis.num_steps == 12
    value = found.change_tables().boundary["left"].value
    assert isinstance(value, Series)
    np.testing.assert_allclose(value.rows[:4], [1, 1, 2, 3])  # a row a step


def test_a_number_may_stand_in_place_of_a_series(folder):
    found = read_case(
        folder / "problem.toml", scenario=changes(folder, "[equation]\nsource = 0.5\n")
    )
    assert found.tables.equation.source == 0.5
    assert set(found.inputs.series) == {"lake"}


def applied(folder, case, text):
    found = changes(folder, text)
    return found.change_tables(), found.change_wells(case.inputs.wells)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[boundary.letf]\nvalue = 1\n", "changes boundary.letf, .* did you mean 'left'"),
        ("[series.rian]\nfactor = 1\n", "changes series.rian, .* did you mean 'rain'"),
        ('[[wells]]\nname = "R"\nfactor = 2\n', "changes the well 'R', .* it has P or Q"),
        ("[[wells]]\nrate = 2\n", "wells.1 has a rate, but no name"),
        ('[[wells]]\nname = "P"\n', "wells.1 needs either factor"),
        ("[[wells]]\nx = 1\nrate = 2\n", "wells.1 has a place, which is for a new well"),
        ("[equation]\nsource = { factor = 2 }\n", "is the series rain: change it in .series.rain"),
        ("[equation]\nreaction = { factor = 2 }\n", "equation.reaction .* the problem has none"),
        ("from = 1990-01-01\n[wells]\nfactor = 2\n", "lie outside the time axis"),
        ("[domain]\nmax_edge = 2\n", "has the key 'domain', which is not known"),
        ("[equation]\nstorage = 2\nsourse = 1\n", "has the key 'sourse', which is not known"),
        ("[equation\n", "is not TOML"),
    ],
)
def test_mistakes_are_told(folder, case, text, message):
    with pytest.raises(RieszError, match=message):
        applied(folder, case, text)


def test_steady_problems_change_as_well(tmp_path):
    wells = "[[wells]]\nx = 0.5\ny = 0.5\nrate = 'q'\nname = 'a'\n"
    wells += "[[wells]]\nx = 0.2\ny = 0.5\nrate = 1.0\nname = 'b'\n"
    unknowns = {"a": LOGNORMAL, "q": NORMAL}
    written(tmp_path, problem_toml(unknowns=unknowns) + "\n" + wells)
    case = read_problem(tmp_path / "problem.toml")
    text = "[wells]\nfactor = 3\n[equation]\ndiffusion = { factor = 2 }\nsource = { add = 1 }\n"
    found = changes(tmp_path, text)
    known, unknown = well_sources(found.change_wells(case.inputs.wells)).point_sources
    assert unknown.sign == 3.0
    np.testing.assert_array_equal(known.rates, [3.0])
    tables = found.change_tables()
    assert tables.equation.source == 2.0
    assert tables.equation.diffusion.names == ()  # of its part, times two
    with pytest.raises(RieszError, match="has times, but the problem is one of a steady"):
        changes(tmp_path, "from = 3.0\n[wells]\nfactor = 3\n")
    with pytest.raises(RieszError, match="'a' a rate, but that is the unknown q: give a factor"):
        changes(tmp_path, "[[wells]]\nname = 'a'\nrate = 3\n").change_wells(case.inputs.wells)

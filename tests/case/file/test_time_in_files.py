"""Problem files in time: axes, observations with dates, and what is refused before any work."""

import datetime
import json

import jax.numpy as jnp
import numpy as np
import pytest
from tests.small_problem import LOGNORMAL, problem_toml, table, written

import riesz as rz
from riesz.case.check.description import rivers_lines
from riesz.case.file.problem import inputs_content
from riesz.case.file.stresses import read_series
from riesz.case.file.time_axis import TimeTable
from riesz.case.file.wells import read_wells
from riesz.errors import FileFormatError, RieszError
from riesz.fem.assembly import dirichlet_values, residual
from riesz.fem.time.fixed import has_changing_matrix
from riesz.fem.time.problem import at_time
from riesz.io.store.posterior import load_posterior
from riesz.notes import Note

START = datetime.date(1980, 1, 1)
ROWS = ("0.5,0.5,0.6,1980-02-15", "0.5,0.5,0.7,1980-07-01T12:00", "0.3,0.6,0.5,1980-02-15")
DATES = "\n".join(["x,y,value,day", *ROWS, ""])
YEAR = {"start": START, "end": datetime.date(1981, 1, 1), "step": "month", "initial": 0.0}
STORED = {"storage": "s", "diffusion": "a", "source": 1.0}
UNKNOWNS = {"a": LOGNORMAL, "s": LOGNORMAL | {"median": 50.0}}

PUMPED = "x,y,rate,day\n{}0.4,0.4,-2,1980-01-01\n0.6,0.6,-1,1979-06-01\n0.4,0.4,0,1980-02-11\n"
WELLS = '[[wells]]\nfile = "pumped.csv"\ndate = "day"\n'


def axis_of(**keys):
    return TimeTable.model_validate(keys).axis()


@pytest.mark.parametrize(
    ("keys", "dates"),
    [
        ({"end": "1980-03-01", "step": 20}, ["01-01", "01-21", "02-10", "03-01"]),
        ({"end": "1980-02-01", "step": 20}, ["01-01", "01-21", "02-01"]),
        ({"end": "1980-04-01", "step": "month"}, ["01-01", "02-01", "03-01", "04-01"]),
        ({"end": "1980-01-16", "step": "week"}, ["01-01", "01-08", "01-15", "01-16"]),
        ({"end": "1980-01-03", "step": "day"}, ["01-01", "01-02", "01-03"]),
        ({"start": "1980-01-31", "end": "1980-03-31", "step": "month"},
         ["01-31", "02-29", "03-31"]),
        ({"periods": ["1980-01-03", "1980-02-02"], "steps": 2},
         ["01-01", "01-02", "01-03", "01-18", "02-02"]),
        ({"periods": ["1980-01-04"], "steps": 2, "growth": 2.0}, ["01-01", "01-02", "01-04"]),
    ],
)  # fmt: skip
def test_dates_of_steps(keys, dates):
    axis = axis_of(**({"start": START} | keys))
    wanted = np.array([f"1980-{one}" for one in dates], "datetime64[s]")
    np.testing.assert_array_equal(axis.dates(axis.times), wanted)


def test_years_from_a_time_of_day():
    axis = axis_of(start=datetime.datetime(1980, 2, 29, 6), end="1983-01-01", step="year")
    found = [str(one) for one in axis.dates(axis.times)]
    assert found[:3] == ["1980-02-29T06:00:00", "1981-02-28T06:00:00", "1982-02-28T06:00:00"]
    assert found[3:] == ["1983-01-01T00:00:00"]


def test_numbers_have_no_dates():
    axis = axis_of(start=1.0, end=2.0, step=0.3)
    np.testing.assert_allclose(axis.times, [1.0, 1.3, 1.6, 1.9, 2.0], rtol=1e-12)
    assert axis.origin is None
    np.testing.assert_allclose(axis_of(start=0, end=0.3, step=0.1).times, [0, 0.1, 0.2, 0.3])


def timed(time=YEAR, *, observations=None, equation=STORED, more="", **parts):
    given = {"date": "day"} if observations is None else observations
    text = problem_toml(observations=given, equation=equation, unknowns=UNKNOWNS, **parts)
    return text + "\n" + ("" if time is None else table("time", time)) + more


RIVER = """
[[rivers]]
file = "river.geojson"
stage = {stage}
conductance = 2.0
{rise}
"""


@pytest.mark.slow
def test_a_river_rises_as_a_series_does(tmp_path):
    line = {"type": "LineString", "coordinates": [[0.2, 0.1], [0.7, 0.9]]}
    (tmp_path / "river.geojson").write_text(json.dumps(line))
    (tmp_path / "gauge.csv").write_text("date,value\n1980-01-01,0.5\n1980-02-16,3.5\n")
    gauge = table("series.gauge", {"file": "gauge.csv"})
    rising = RIVER.format(stage=1.0, rise='rise = "gauge"')
    case = rz.read_problem(written(tmp_path, timed(more=gauge + rising), DATES))
    step = case.problem.forward
    z = case.problem.z(jnp.zeros(case.problem.num_coordinates))
    assert not has_changing_matrix(step, at_time(z, jnp.array(10.0)))
    mean = (15 * 0.5 + 14 * 3.5) / 29  # of February
    for day, level in ((10.0, 1.5), (40.0, 1 + mean), (70.0, 4.5)):
        still = RIVER.format(stage=level, rise="")
        same = rz.read_problem(written(tmp_path, timed(more=still), DATES)).problem.forward
        when, state = at_time(z, jnp.array(day)), jnp.linspace(0.0, 1.0, step.space.num_dofs)
        np.testing.assert_allclose(residual(step, state, when), residual(same, state, when))
    assert "mean stage 1 + gauge, conductance 2" in rivers_lines(case)[0]
    with pytest.raises(FileFormatError, match=r"rivers.1.rise = 'gauge', but there is no \[series"):
        rz.read_problem(written(tmp_path, timed(more=rising), DATES))


def test_readings_with_dates_are_read_off_a_march(tmp_path):
    case = rz.read_problem(written(tmp_path, timed(), DATES))
    problem = case.problem
    assert problem.time.axis.num_steps == 12
    assert problem.time.num_recorded == 13 * 2  # two places
    np.testing.assert_array_equal(
        problem.observations.when, case.prepared.times.moments.astype("datetime64[s]")
    )
    # Half-way through February, of 29 days in that year, and in July.
    rows = problem.operator.to_scipy().toarray().reshape(3, 13, 2)
    np.testing.assert_allclose(rows[2, 1:3].sum(axis=1), [15 / 29, 14 / 29], rtol=1e-12)
    np.testing.assert_allclose(rows.sum(axis=(1, 2)), 1.0)
    assert case.notes[0] == Note("maps_at_end", when="1981-01-01")


def test_a_state_may_begin_as_an_unknown_or_steady(tmp_path):
    steady = rz.read_problem(written(tmp_path, timed(YEAR | {"initial": "steady"}), DATES))
    assert steady.problem.time.initial is None
    begun = rz.read_problem(written(tmp_path, timed(YEAR | {"initial": "a"}), DATES))
    assert begun.problem.time.initial is not None


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"time": None, "equation": {"diffusion": "a", "source": "s"}, "more": WELLS},
            "has wells.1.date, rates that change, but no .time.",
        ),
        ({"more": "[[wells]]\nx = 0.5\ny = 0.5\nrate = 1.0\ndate = 'day'\n"}, "which needs 'file'"),
        ({"time": None}, "has equation.storage, but no .time.: give its start"),
        ({"equation": {"diffusion": "a", "source": "s"}}, "has .time., but no equation.storage"),
        ({"observations": {}}, "has .time., which needs observations.date"),
        (
            {"equation": STORED | {"storage": -0.1}},
            "capacity of storage is -0.1 .* must be positive",
        ),
        (
            {"observations": {"date": "day", "site": "day", "aggregate": "median"}},
            "which leaves no times: keep one",
        ),
        ({"more": '[[experiments]]\nfile = "b.csv"\n'}, "experiments.., which have no times"),
        ({"time": {"start": START}}, "needs end and step; or periods"),
        ({"time": YEAR | {"steps": 3}}, "'steps', which goes with periods"),
        ({"time": YEAR | {"periods": [START]}}, "'end', which goes without periods"),
        ({"time": {"start": START, "periods": []}}, "has no periods: give where each"),
        ({"time": YEAR | {"end": 3.0}}, "has dates and numbers: give all its times in one way"),
        ({"time": YEAR | {"end": START}}, "goes from 1980-01-01 .* times must rise"),
        ({"time": {"start": 0.0, "end": 1.0, "step": "month"}}, "'month', which needs dates"),
        ({"time": YEAR | {"step": 1e-6}}, "steps, more than 100000: make them longer"),
        ({"time": YEAR | {"step": -1}}, "step is -1: give a positive number, of days where"),
        ({"time": YEAR | {"start": "soon"}}, "start is 'soon': give a date such as 1980-01-31"),
        ({"time": YEAR | {"start": "1980-01-01T00:00Z"}}, "in a time zone: leave it out"),
        ({"time": YEAR | {"initial": "h0"}}, "time.initial = 'h0', but there is no .unknowns.h0"),
        (
            {"time": YEAR | {"end": datetime.date(1980, 6, 1)}},
            r"wells.csv, line 3: the time 1980-07-01T12:00:00 is not between 1980-01-01T00:00:00 a",
        ),
        ({"time": {"start": 0.0, "end": 9.0, "step": 1.0}}, "but the time axis has numbers"),
    ],
)
def test_mistakes_are_told_before_any_work(tmp_path, parts, message):
    with pytest.raises((FileFormatError, RieszError), match=message):
        rz.read_problem(written(tmp_path, timed(**parts), DATES))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("", "line 4: day is empty: every row needs its time"),
        ("15.02.1980", "line 4: day is '15.02.1980', but .* line 2 has '1980-02-15': write all"),
        ("1980-02-30", "line 4: day is '1980-02-30', and there is no such day"),
    ],
)
def test_bad_dates_are_told_with_their_line(tmp_path, cell, message):
    rows = DATES.rsplit(",", 1)[0] + f",{cell}\n"
    with pytest.raises(FileFormatError, match=message):
        rz.read_problem(written(tmp_path, timed(), rows))


def test_wells_pump_the_volumes_of_their_table(tmp_path):
    (tmp_path / "pumped.csv").write_text(PUMPED.format(""))
    case = rz.read_problem(written(tmp_path, timed(more=WELLS), DATES))
    (wells,), axis = case.inputs.wells, case.problem.time.axis
    np.testing.assert_array_equal(wells.places, [[0.4, 0.4], [0.6, 0.6]])
    # Ten of the 29 days of February are pumped.
    wanted = np.tile([0.0, -1.0], (12, 1))
    wanted[:2, 0] = -2.0, -2.0 * 10 / 29
    np.testing.assert_allclose(wells.step_rates(axis), wanted, atol=1e-12)
    np.testing.assert_array_equal(wells.rates, [0.0, -1.0])
    (source,) = case.problem.forward.form.point_sources
    for step in (0, 1, 11):
        now = source.rates.now({"t": jnp.asarray(axis.times[step + 1])}, "rates")
        np.testing.assert_allclose(now, wanted[step], atol=1e-12)
    (tmp_path / "wells.csv").write_bytes(inputs_content(case)["wells.csv"])
    (again,) = read_wells(tmp_path / "problem.toml", case.tables.wells, None, tmp_path)
    np.testing.assert_array_equal(again.step_rates(axis), wells.step_rates(axis))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "0.2,0.2,1,1980-03-01\n",
            r"line 2: the rate of the well at \(0.2, 0.2\) has no value before 1980-0",
        ),
        (
            "0.4,0.4,1,1980-01-01\n",
            "line 3: the rate of the well .* has two values at 1980-01-01T00:00:00: keep",
        ),
        ("0.4,0.4,1,\n", "line 2: day is empty: every row needs its time"),
        ("0.4,0.4,1,3\n", "line 2: day is '3', a number, but other rows have dates"),
    ],
)
def test_gaps_and_doubles_in_a_table_of_rates_are_told(tmp_path, row, message):
    (tmp_path / "pumped.csv").write_text(PUMPED.format(row))
    with pytest.raises(FileFormatError, match=message):
        rz.read_problem(written(tmp_path, timed(more=WELLS), DATES))


RAIN = "date,value\n1980-01-01,1\n1980-03-01,4\n1980-02-11,0\n"
CHANGING = """
[series.rain]
file = "rain.csv"
factor = "s"

[series.lake]
file = "lake.csv"
kind = "linear"
date = "t"
value = "h"
"""
BY_RAIN = {"storage": 10.0, "diffusion": "a", "source": "rain"}
CHANGES = {"equation": BY_RAIN, "boundary": {"left": "lake"}, "more": CHANGING}


def with_series(folder, rain=RAIN, last=731, **parts):
    (folder / "rain.csv").write_text(rain)
    (folder / "lake.csv").write_text(f"t,h\n1979-01-01,0\n1981-01-01,{last}\n")
    return rz.read_problem(written(folder, timed(**(CHANGES | parts)), DATES))


def test_sources_and_boundary_values_follow_their_tables(tmp_path):
    case = with_series(tmp_path)
    forward, axis = case.problem.forward, case.problem.time.axis
    then = {"t": jnp.asarray(axis.times[2]), "s": jnp.asarray(3.0), "a": jnp.asarray(1.0)}
    # Ten of the 29 days of February have a rain of one, and the others none.
    rain = next(one.coefficients["strength"] for one in forward.form.terms if one.name == "source")
    np.testing.assert_allclose(rain.now(then, "rain"), 3.0 * 10 / 29, rtol=1e-12)
    # By one a day since the beginning of 1979.
    np.testing.assert_allclose(dirichlet_values(forward, then), 365 + 60, rtol=1e-12)
    (tmp_path / "series.csv").write_bytes(inputs_content(case)["series.csv"])
    again = read_series(tmp_path, case.tables.series, tmp_path)
    for name, one in case.inputs.series.items():
        np.testing.assert_array_equal(again[name].means(axis), one.means(axis))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"rain": RAIN.replace("1980-01-01", "1980-01-02")}, "line 2: the series rain has no val"),
        ({"rain": RAIN + "1980-02-11,3\n"}, "line 5: the series rain has two values at 1980-02"),
        ({"rain": RAIN + "11.02.1980,3\n"}, "line 5: date is '11.02.1980', but"),
        ({"rain": RAIN + "1980-05-01,\n"}, "line 5: value is '', not a finite number"),
        ({"equation": BY_RAIN | {"source": 1.0}}, "series.rain., which nothing reads"),
        ({"equation": BY_RAIN | {"storage": "rain"}}, "storage = 'rain', but there is no"),
        ({"more": CHANGING.replace('"s"', '"c"')}, "series.rain.factor = 'c', but there is no"),
        (
            {"equation": BY_RAIN | {"source": "a"}, "more": CHANGING.replace("rain]", "a]")},
            "has .series.a. and .unknowns.a.: rename one",
        ),
        (
            {"time": None, "equation": {"diffusion": "a", "source": "rain"}},
            "has .series.lake., but no .time. that it changes in",
        ),
    ],
)
def test_mistakes_in_series_are_told(tmp_path, parts, message):
    with pytest.raises(FileFormatError, match=message):
        with_series(tmp_path, **parts)


@pytest.mark.slow
def test_a_run_in_time_is_kept_read_and_mapped_at_its_end(tmp_path):
    (tmp_path / "pumped.csv").write_text(PUMPED.format(""))
    parts = {"equation": BY_RAIN | {"storage": 50.0}, "more": CHANGING + WELLS}
    case = with_series(tmp_path, last=0.5, **parts)
    run = case.fit(tmp_path / "run", "laplace", check=False, progress=False)
    for name in ("pumped.csv", "rain.csv", "lake.csv"):
        (tmp_path / name).unlink()  # the run has its own
    posterior = rz.read_run(tmp_path / "run").posterior
    points = [[0.5, 0.5], [0.3, 0.6]]
    end = rz.predict(posterior, "u", points, times=["1981-01-01"], num_draws=400)
    run.predict(quantity="u", points=points).save(tmp_path / "u.csv")
    mapped = np.loadtxt(tmp_path / "u.csv", delimiter=",", skiprows=1)[:, 2]
    np.testing.assert_allclose(mapped, end.mean[0], rtol=0.02)
    (tmp_path / "pumped.csv").write_text(PUMPED.format(""))
    begun = parts | {"time": YEAR | {"initial": 0.1}}
    other = with_series(tmp_path, last=0.5, **begun).problem
    with pytest.raises(RieszError, match="differs in the time axis and the initial state"):
        load_posterior(tmp_path / "run" / "posterior", other)
    stored = parts | {"equation": BY_RAIN | {"storage": 51.0}}
    other = with_series(tmp_path, last=0.5, **stored).problem
    with pytest.raises(RieszError, match="differs in the equation"):
        load_posterior(tmp_path / "run" / "posterior", other)

"""Counts, shares and other noise, and further measurements, written down in problem files."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from tests.small_problem import problem_toml, table, written

import riesz as rz
from riesz.case.data.rows import data_rows_content, plain_rows, read_data_rows
from riesz.case.file.measurements import read_measurements
from riesz.case.file.noise import NoiseTable, likelihood_of
from riesz.case.file.problem import inputs_content
from riesz.errors import FileFormatError
from riesz.fem.assembly import dirichlet_values

COUNTS = "x,y,value,hours\n0.5,0.5,6,2.0\n0.75,0.25,5,1.0\n0.3,0.6,0,1.5\n"
SHARES = "x,y,value,n\n0.5,0.5,6,20\n0.75,0.25,5,10\n0.3,0.6,0,15\n"


def test_counts_over_a_column_of_exposures(tmp_path):
    text = problem_toml(noise={"kind": "poisson"}, observations={"exposure": "hours"})
    problem = rz.read_problem(written(tmp_path, text, COUNTS)).problem
    assert isinstance(problem.likelihood, rz.Poisson)
    np.testing.assert_array_equal(problem.likelihood.exposure, [2.0, 1.0, 1.5])
    np.testing.assert_array_equal(problem.observed, [6.0, 5.0, 0.0])


def test_numbers_found_among_trials_become_shares(tmp_path):
    text = problem_toml(noise={"kind": "binomial"}, observations={"trials": "n"})
    problem = rz.read_problem(written(tmp_path, text, SHARES)).problem
    assert isinstance(problem.likelihood, rz.observe.Binomial)
    np.testing.assert_allclose(problem.observed, [0.3, 0.5, 0.0])


@pytest.mark.parametrize(
    ("noise", "told"),
    [
        ({"kind": "log-normal", "sd": 0.2}, "log-normal, sd 0.2 of the logarithm"),
        ({"kind": "correlated", "sd": 0.1, "length": "a"}, "Matern12, length 'a' learned"),
        (
            {"kind": "negative-binomial", "concentration": 5.0, "exposure": 2.0},
            "negative binomial counts, concentration 5, the state is the log of the rate, exp",
        ),
        ({"kind": "poisson", "link": "identity"}, "Poisson counts, the state is the rate"),
        ({"kind": "binomial", "trials": 20.0}, "binomial shares, trials 20, the state is the log"),
    ],
    ids=lambda given: given["kind"] if isinstance(given, dict) else "",
)
def test_kinds_of_noise_have_their_keys(noise, told):
    points, values = np.array([[0.5, 0.5], [0.75, 0.25]]), np.array([6.0, 5.0])
    read = plain_rows(Path("wells.csv"), points, values)
    assert told in likelihood_of(NoiseTable.model_validate(noise), read).describe()


SITES = "x,y,value,well,day\n0.5,0.5,0.6,A,{}\n0.5,0.5,0.7,A,{}\n0.3,0.6,0.5,B,{}\n"
DATES = SITES.format("1971-09-21", "1971-10-01T12:00", "1971-09-21")
GROUPED = {"kind": "grouped", "sd": 0.1, "drift_sd": 0.2, "correlation_time": "a"}
BY_SITE = {"site": "well", "date": "day"}


@pytest.mark.parametrize("days", [DATES, SITES.format(0.0, 10.5, 3)])
def test_readings_of_one_site_share_their_error(tmp_path, days):
    text = problem_toml(noise=GROUPED | {"level_sd": 0.3}, observations=BY_SITE)
    case = rz.read_problem(written(tmp_path, text, days))
    likelihood = case.problem.likelihood
    same, apart = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]), 10.5 * (1 - np.eye(3))
    wanted = 0.1**2 * np.eye(3) + same * (0.3**2 + 0.2**2 * np.exp(-apart / 2.0))
    root = likelihood.factor(jnp.zeros(3), {"a": jnp.array(2.0)}).colour(jnp.eye(3))
    np.testing.assert_allclose(root @ root.T, wanted, rtol=1e-10)
    (tmp_path / "kept.csv").write_bytes(data_rows_content(case.prepared))
    again = read_data_rows(tmp_path / "kept.csv", case.tables.observations)
    np.testing.assert_array_equal(again.times.values(), case.prepared.times.values())
    assert again.sites == case.prepared.sites


def test_a_level_needs_no_times(tmp_path):
    noise = {"kind": "grouped", "sd": 0.1, "level_sd": 0.3}
    text = problem_toml(noise=noise, observations={"site": "well"})
    case = rz.read_problem(written(tmp_path, text, SITES.format("soon", "", "1")))
    assert "2 groups share a level (sd 0.3)" in case.problem.likelihood.describe()
    assert case.prepared.times is None


def entry(**keys):
    return table("[measurements]", {"noise": {"sd": 0.1}} | keys)


HEAVY = {"kind": "student-t", "sd": 0.2}
MIDDLE = {"x": 0.5, "y": 0.5}
FURTHER = [
    entry(kind="average", over=[[0.2, 0.2], [0.8, 0.2], [0.8, 0.8]], value=0.4),
    entry(kind="average", lines="screens.geojson", value="level"),
    entry(kind="flux", through="left", value=1.0),
    entry(kind="flux", **MIDDLE, angle=180, value=0.5),
    entry(kind="gradient", file="slopes.csv", angle="towards", value="slope", noise=HEAVY),
    entry(kind="difference", x=0.75, y=0.5, to_x=0.25, to_y=0.5, value=0.2),
    entry(kind="coefficient", of="a", **MIDDLE, value=1.2, noise={"kind": "log-normal", "sd": 0.3}),
    entry(kind="value", file="counts.csv", log=True),
]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("further")
    line = {"type": "LineString", "coordinates": [[0.1, 0.1], [0.9, 0.7]]}
    feature = {"type": "Feature", "properties": {"level": 0.45}, "geometry": line}
    layer = {"type": "FeatureCollection", "features": [feature]}
    (tmp_path / "screens.geojson").write_text(json.dumps(layer))
    (tmp_path / "slopes.csv").write_text("x,y,towards,slope\n0.3,0.3,0,0.6\n0.6,0.6,90,0.1\n")
    (tmp_path / "counts.csv").write_text("x,y,value\n0.4,0.4,-1.0\n")
    return rz.read_problem(written(tmp_path, problem_toml() + "\n".join(["", *FURTHER])))


def test_further_measurements_stand_behind_the_observations(case):
    problem = case.problem
    values = [0.6, 0.5, 0.4, 0.45, 1.0, 0.5, 0.6, 0.1, 0.2, 1.2, -1.0]
    np.testing.assert_allclose(problem.observed, values)
    told = problem.observations.what.describe()
    for kind in ("averages over areas", "averages along lines", "fluxes through left",
                 "fluxes at points", "slopes at points", "differences between points",
                 "values of 'a' at points", "logarithms of values at points"):  # fmt: skip
        assert f"1 {kind}" in told or f"2 {kind}" in told


def test_a_run_folder_keeps_measurements_whose_files_are_gone(case, tmp_path):
    (tmp_path / "measurements.json").write_bytes(inputs_content(case)["measurements.json"])
    again = read_measurements(case.path, case.tables.further_measurements(), None, tmp_path)
    for one, other in zip(case.inputs.measurements, again, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.numbers, other.numbers)
        assert json.dumps(list(one.shapes)) == json.dumps(other.shapes)


EXPERIMENT = """
[[experiments]]
file = "second.csv"
source = 2.0
wells = [{ x = 0.5, y = 0.5, rate = -0.3 }]
boundary = { left = { value = 1.0 } }
"""


def test_logarithms_of_an_experiment_need_positive_values_too(tmp_path):
    (tmp_path / "second.csv").write_text("x,y,value\n0.25,0.5,0.9\n0.5,0.5,0.0\n")
    text = problem_toml(observations={"transform": "log"}) + EXPERIMENT
    with pytest.raises(FileFormatError, match=r"second.csv, line 3: value is 0, and transform ="):
        rz.read_problem(written(tmp_path, text))
    (tmp_path / "second.csv").write_text("x,y,value\n0.25,0.5,0.9\n")
    problem = rz.read_problem(written(tmp_path, text)).problem
    np.testing.assert_allclose(problem.observed[-1], np.log(0.9))


def test_experiments_share_unknowns_and_differ_in_what_they_say(tmp_path):
    (tmp_path / "second.csv").write_text("x,y,value\n0.25,0.5,0.9\n")
    case = rz.read_problem(written(tmp_path, problem_toml() + EXPERIMENT))
    problem = case.problem
    first, second = problem.forwards
    assert [problem.latents.names, len(problem.observed)] == [("a",), 3]
    by_hand = rz.boundary_value_problem(
        first.space,
        rz.diffusion(2.0) - rz.source(2.0) - rz.point_source([[0.5, 0.5]], [-0.3]),
        {"left": 1.0},
    )
    rough = jnp.asarray(np.random.default_rng(0).normal(size=first.space.num_dofs))
    wanted = rz.fem.residual(by_hand, rough)
    np.testing.assert_allclose(rz.fem.residual(second, rough, {"a": jnp.array(2.0)}), wanted)
    np.testing.assert_allclose(dirichlet_values(second), 1.0)
    assert case.choice().engine.name == "laplace"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"noise": {"kind": "poisson", "sd": 1.0}}, "key 'sd', which kind = 'poisson' does not"),
        ({"noise": {"kind": "binomial"}}, "needs either noise.trials, a number, or obs"),
        ({"noise": {"kind": "correlated", "sd": 0.1}}, "lacks the key 'length'"),
        ({"noise": {"kind": "grouped", "sd": 0.1}}, "needs what readings of one site share"),
        (
            {"noise": {"kind": "grouped", "sd": 0.1, "drift_sd": 0.1}},
            "drift_sd and corr.* together",
        ),
        ({"noise": GROUPED}, "needs observations.site: the column that says"),
        ({"noise": GROUPED, "observations": {"site": "well"}}, "needs observations.date"),
        (
            {"noise": GROUPED, "observations": BY_SITE | {"aggregate": "median"}},
            "observations.aggregate = 'median', which leaves one",
        ),
        (
            {"more": entry(kind="value", x=0.5, y=0.5, value=1.0, noise=GROUPED)},
            "needs the site of each reading",
        ),
        ({"noise": {"kind": "poisson", "link": "logit"}}, "link = 'logit', which is for"),
        (
            {"noise": {"kind": "poisson"}, "observations": {"transform": "log"}},
            "observations.transform and noise.kind = 'poisson'",
        ),
        ({"observations": {"trials": "n"}}, "observations.trials, which is for noise.kind"),
        ({"noise": {"kind": "poisson"}}, "0.6 of observation 0: give whole numbers"),
        ({"more": entry(kind="flux", x=0.5, y=0.5, value=1.0)}, "lacks the key 'angle'"),
        ({"more": entry(kind="average", value=1.0)}, "needs one of .* but holds none of them"),
        ({"more": entry(kind="average", region="clay", value=1.0)}, "clay"),
        ({"more": entry(kind="coefficient", of="b", x=0.5, y=0.5, value=1.0)}, "no .unknowns.b."),
        ({"more": entry(kind="value", x=0.5, y=0.5)}, "lacks the key 'value'"),
        ({"more": entry(kind="value", x=0.5, value=1.0)}, "lacks the key 'y'"),
        ({"more": entry(kind="value", x=5.0, y=0.5, value=1.0)}, "of the observations, 1 of 1"),
        ({"more": entry(kind="value", x=0.5, y=0.5, value=1.0, angle=3.0)}, "does not take"),
        (
            {"more": EXPERIMENT, "observations": {"local": True}},
            "has experiments and observations.local",
        ),
        ({"more": EXPERIMENT.replace("2.0", '"b"')}, "experiments.1.source = 'b', but there is no"),
        ({"more": entry(kind="level", value=1.0)}, "'level': .*may be"),
        (
            {"more": table("[measurements]", {"kind": "value", "value": 1.0})},
            "lacks the key 'noise'",
        ),
    ],
)
def test_mistakes_are_told_before_any_work(tmp_path, parts, message):
    more = parts.pop("more", "")
    with pytest.raises((FileFormatError, rz.RieszError), match=message):
        rz.read_problem(written(tmp_path, problem_toml(**parts) + "\n" + more))

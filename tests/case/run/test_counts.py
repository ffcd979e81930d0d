"""Predictions of counts are counts, and further measurements stay out of maps of the first."""

import csv
import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from tests.small_problem import NORMAL, problem_toml, rectangle, written

from riesz.case.data.schema import ObservationsTable
from riesz.case.file.problem import read_problem
from riesz.case.run.fit import make_run
from riesz.case.run.measurand import measurand_of, measurements_of, noise_note
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.draws import Shifts
from riesz.prediction.sensors import fit_to_data

PROBLEM = problem_toml(
    domain=rectangle([4, 2], max_edge=1.0),
    observations={"file": "counts.csv", "value": "n"},
    noise={"kind": "poisson", "exposure": 10.0},
    equation={"diffusion": 1.0},
    boundary={"boundary": "level"},
    unknowns={"level": NORMAL | {"sd": 0.3}},
)
FURTHER = """
[[measurements]]
kind = "average"
along = [[1.0, 1.0], [3.0, 1.0]]
value = 0.1
noise = { sd = 0.2 }
"""
COUNTS = "x,y,n\n0.5,0.5,9\n1.5,1.5,14\n3.5,0.5,7\n"
NUM_DRAWS = 400


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose draws are those of the prior: nothing is fitted."""
    folder = tmp_path_factory.mktemp("counts")
    case = read_problem(written(folder, PROBLEM + FURTHER, COUNTS, data="counts.csv"))
    normals = np.random.default_rng(0).normal(size=(1, NUM_DRAWS, case.problem.num_coordinates))
    posterior = Posterior(case.problem, EmpiricalDraws(jnp.asarray(normals)), ExactStates())
    return make_run(folder, case, posterior, {})


@pytest.fixture(scope="module")
def levels(run):
    """Of the state, which is the same everywhere: logarithms of the rate."""
    return 0.3 * np.asarray(run.posterior.distribution.all())[:, 0]


def ensemble(run, folder, quantity):
    out = folder / "out.csv"
    run.predict(quantity=quantity, stat="ensemble", points=[[2.0, 1.0]]).save(out)
    return np.array(list(csv.reader(out.read_text().splitlines()))[1:], float)[0, 2:]


@pytest.mark.slow
def test_a_new_count_is_whole_and_scatters_about_the_rate(run, levels, tmp_path):
    rates = ensemble(run, tmp_path, "value")
    np.testing.assert_allclose(np.sort(rates), np.sort(10 * np.exp(levels)), rtol=1e-3)
    counts = ensemble(run, tmp_path, "measurement")
    np.testing.assert_array_equal(counts, np.round(counts))
    variance = np.mean(rates) + np.var(rates)
    assert abs(counts.mean() - rates.mean()) < 4 * np.sqrt(variance / NUM_DRAWS)
    assert abs(counts.var() / variance - 1) < 0.35


def test_the_state_is_called_what_it_is(run):
    measured = measurand_of(run.observations).with_link(
        run.case.problem.likelihood.noise.observation_distribution
    )
    assert measured.state == "log of n"
    assert measured.unit_of("u") is None


@pytest.mark.slow
def test_maps_show_the_observations_and_the_fit_counts_all(run):
    observed = run.draws(None, 0).observed
    shown = measurements_of(measurand_of(run.observations), observed, run.prepared.num_rows)
    np.testing.assert_array_equal(shown.measured, [9.0, 14.0, 7.0])
    met = fit_to_data(observed.values, observed.censored, observed.drawn)
    assert met.num_observations == 4
    assert met.coverage == 1.0


@pytest.mark.parametrize(
    ("named", "parameters", "of_value", "of_measurement"),
    [
        ({"exposure": "hours"}, {"exposure": 1.5}, *["counts are those for hours = 1.5"] * 2),
        ({"trials": "n"}, {"trials": 20.0}, None, "a new share is one for n = 20"),
        ({"sd": "error"}, {"sd": 0.2}, None, "that of a new measurement is their median"),
    ],
)
def test_a_note_says_for_which_noise_a_prediction_is(named, parameters, of_value, of_measurement):
    names = ObservationsTable.model_validate({"file": "wells.csv"} | named)
    noise = {key: np.full((5, 1), value) for key, value in parameters.items()}
    shifts = Shifts(None, None, None, noise, differs=True, scatter=None)
    for quantity, told in (("value", of_value), ("measurement", of_measurement), ("u", None)):
        note = noise_note(names, shifts, quantity)
        assert note is None if told is None else told in str(note)
    alike = dataclasses.replace(shifts, differs=False)
    assert noise_note(names, alike, "measurement") is None

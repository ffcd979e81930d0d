"""Many data sets at once: the formulas of linear regression, verdicts, and one program for all."""

import os
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.source_strengths import NOISE, POINTS, response, without_data

from riesz.amortise.importance import exact_predictions, predict_exactly
from riesz.density.reduced_basis import reduce_over_prior
from riesz.devices import map_data_sets
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import Dense
from riesz.fem.terms.weakform import diffusion, source
from riesz.inference.batch import fit_data_sets
from riesz.mesh.shapes import rectangle
from riesz.notes import Note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem

ROOT = Path(__file__).parents[2]


def strengths():
    return without_data(1.0, 1.0)


@lru_cache
def model():
    return reduce_over_prior(strengths())


def made_up(count, seed=0):
    matrix, offset = response(strengths())
    rng = np.random.default_rng(seed)
    truths = rng.normal(size=(count, 2))
    return offset + truths @ matrix.T + NOISE * rng.normal(size=(count, len(offset)))


def known(values, sd):
    """Mean and standard deviations of the coordinates, from the values that are there."""
    matrix, offset = response(strengths())
    there = np.isfinite(values)
    slopes = matrix[there] / sd[there, None]
    covariance = np.linalg.inv(np.eye(2) + slopes.T @ slopes)
    white = (values[there] - offset[there]) / sd[there]
    return covariance @ slopes.T @ white, np.sqrt(np.diag(covariance))


@contextmanager
def count_programs():
    """A list of what is compiled meanwhile."""
    seen, listening = [], True

    def listener(event, *_, **__):
        if listening and event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listener)
    yield seen
    listening = False


@lru_cache
def fits():
    return fit_data_sets(strengths(), made_up(5), model=model())


@pytest.mark.slow
def test_the_reduced_equation_is_right_over_the_prior():
    assert model().gap < 1e-6  # the state is affine in the strengths: two modes make all of it
    assert model().num_modes == 2


def test_means_and_sds_are_those_of_linear_regression():
    for number, values in enumerate(made_up(5)):
        mean, sd = known(values, np.full(len(values), NOISE))
        assert np.abs(fits().mean[number] - mean).max() < 0.01 * sd.min()
        np.testing.assert_allclose(fits().sd[number], sd, rtol=0.01)
    assert fits().counts == {"trusted": 5}
    assert fits().notes(0) == ()
    assert not fits().contradict.any()


def test_numbers_come_in_their_own_units():
    means, sds = fits().moments("w")
    np.testing.assert_allclose(means, 0.5 + 1.5 * fits().mean)
    np.testing.assert_allclose(sds, 1.5 * fits().sd, rtol=1e-4)
    with pytest.raises(RieszError, match="'v' is no unknown number: there are w"):
        fits().moments("v")


def test_a_data_set_alone_has_the_same_numbers_and_needs_no_other_program():
    values = made_up(5)
    fits()
    with count_programs() as programs:
        alone = [fit_data_sets(strengths(), values[k : k + 1], model=model()) for k in range(5)]
    np.testing.assert_allclose(np.concatenate([one.mean for one in alone]), fits().mean, rtol=1e-8)
    np.testing.assert_allclose(np.concatenate([one.sd for one in alone]), fits().sd, rtol=1e-8)
    assert not programs


@pytest.mark.slow
def test_values_may_be_missing_and_noise_may_differ():
    values, sds = made_up(3), np.array([NOISE, 2 * NOISE, 0.5 * NOISE])
    values[0, 3:] = np.nan
    values[2, 5] = np.nan
    found = fit_data_sets(strengths(), values, noise_sd=sds, model=model())
    for number, row in enumerate(values):
        mean, sd = known(row, np.full(len(row), sds[number]))
        assert np.abs(found.mean[number] - mean).max() < 0.01 * sd.min()
        np.testing.assert_allclose(found.sd[number], sd, rtol=0.01)
    assert len(found.posterior(0).problem.observed) == 3


def test_data_that_no_unknowns_explain_are_told():
    values = made_up(5)
    values[1] *= 100  # another unit
    values[3, 4] += 20 * NOISE  # an outlier
    found = fit_data_sets(strengths(), values, model=model())
    assert found.contradict.tolist() == [False, True, False, True, False]
    assert found.notes(3)[-1] == Note("unexplained", surprise=found.found.surprise[3])
    assert str(found).endswith("2 of them contradict the model")


def test_a_posterior_of_one_of_them_holds_draws_of_it():
    posterior = fits().posterior(2)
    np.testing.assert_allclose(posterior.coordinate_mean(), fits().mean[2], atol=0.02)
    np.testing.assert_array_equal(posterior.problem.observed, made_up(5)[2])


@pytest.mark.slow
def test_solvers_of_a_device_see_what_those_of_the_host_do():
    problem, places = strengths(), np.random.default_rng(5).normal(size=(5, 2))
    own = map_data_sets(predict_exactly, (problem, Dense()), places, width=2, devices=None)
    np.testing.assert_allclose(own, exact_predictions(problem, places, None), rtol=1e-10)


def test_a_model_that_is_wrong_is_found_out_by_exact_solves():
    wrong = eqx.tree_at(lambda own: own.sensors, model(), 1.03 * model().sensors)
    found = fit_data_sets(strengths(), made_up(5), model=wrong)
    assert set(found.verdicts) == {"refined"}
    np.testing.assert_allclose(found.mean, fits().mean, atol=0.1 * fits().sd.min())


@lru_cache
def squared():
    """The source is the square of an unknown: each sign explains the data."""
    return inverse_problem(
        rectangle((4, 4)),
        diffusion(1.0) - source(lambda x, z: 10 * z["w"] ** 2),
        latents={"w": dist.Normal(0.0, 1.0)},
        observations=observations(POINTS, np.zeros(len(POINTS))),
        likelihood=Gaussian(0.1 * NOISE),
        dirichlet={"boundary": 0.0},
    )


@pytest.mark.slow
def test_another_explanation_is_told():
    problem = squared()
    seen = np.asarray(problem.operator @ problem.state(0.3 * jnp.ones(1)))
    found = fit_data_sets(problem, seen[None])
    assert found.verdicts == ("doubtful",)
    assert Note("explained_elsewhere") in found.notes(0)


@pytest.mark.parametrize(
    ("values", "noise", "message"),
    [
        (np.zeros((2, 3)), None, r"shape \(2, 3\): give a row for each data set, with a value for"),
        (np.full((2, 14), np.inf), None, "28 observed values are infinite, first that of sensor 0"),
        (np.full((1, 14), np.nan), None, "1 of 1 data sets have no value at all"),
        (np.zeros((2, 14)), -1.0, "not positive and finite"),
        (np.zeros((2, 14)), np.ones(5), r"noise_sd has shape \(5,\)"),
    ],
)
def test_data_that_cannot_be_read_are_refused(values, noise, message):
    with pytest.raises(RieszError, match=message):
        fit_data_sets(strengths(), values, noise_sd=noise, model=model())


def test_more_devices_than_there_are_are_refused():
    with pytest.raises(RieszError, match="devices is 99, and JAX has"):
        fit_data_sets(strengths(), made_up(1), model=model(), devices=99)


SHARED_OUT = """
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from tests.inference.test_batch import made_up, model, strengths
from riesz.inference.batch import fit_data_sets
found = [fit_data_sets(strengths(), made_up(21), model=model(), devices=n) for n in (1, 2, 4)]
for one in found[1:]:
    np.testing.assert_allclose(one.mean, found[0].mean, rtol=1e-8)
    np.testing.assert_allclose(one.sd, found[0].sd, rtol=1e-8)
print(len(jax.devices()), "devices")
"""


@pytest.mark.slow
def test_devices_share_data_sets_and_give_the_same_numbers(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path]))
    run = subprocess.run(
        [sys.executable, "-c", SHARED_OUT], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "4 devices" in run.stdout

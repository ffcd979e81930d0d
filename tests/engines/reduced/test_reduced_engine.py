"""The engine reduced: draws of a near posterior become ones of the exact one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.engines.reduced import engine
from riesz.engines.reduced.engine import LARGEST_GAP, Reduced, evenly_spaced, exact_sample
from riesz.errors import EngineError, RieszError
from riesz.notes import Note

SMALL = Reduced(num_snapshots=40, num_exact=400, num_warmup=100, num_samples=200, num_searches=2)


def test_weights_turn_draws_of_one_normal_into_those_of_another():
    """Of N(0, 1) into N(0.5, 0.8^2), whose weights are bounded."""
    draws = np.random.default_rng(0).normal(size=(4, 2000, 1))
    logs = (-0.5 * ((draws - 0.5) / 0.8) ** 2 + 0.5 * draws**2)[..., 0]
    found = exact_sample(draws, logs)
    assert found.notes("reduced_k_hat") == ()
    error, again = 1 / np.sqrt(found.effective_draws), found.resample(logs.size)
    assert abs(again.mean() - 0.5) < 4 * error
    assert abs(again.std() - 0.8) < 4 * error


def test_draws_without_an_exact_state_are_not_drawn_again():
    draws = np.arange(40.0).reshape(2, 20, 1)
    logs = np.where(draws[..., 0] % 2 == 0, 0.0, np.nan)
    again = exact_sample(draws, logs).resample(40).reshape(draws.shape)
    assert (again % 2 == 0).all()
    assert (again[0] < 20).all()
    assert (again[1] >= 20).all()
    with pytest.raises(EngineError, match="solved exactly at none of the draws"):
        exact_sample(draws, np.full((2, 20), np.nan))


def test_chains_keep_their_weights_against_each_other():
    """Of three, one is where the exact posterior has less, and one where it has nothing."""
    draws = np.repeat(np.arange(3.0), 40).reshape(3, 40, 1)
    logs = np.broadcast_to(np.log([[1.0], [0.6], [np.nan]]), (3, 40))
    again = exact_sample(draws, logs).resample(logs.size)
    assert [(again == chain).sum() for chain in range(3)] == [75, 45, 0]


def test_weights_with_a_heavy_tail_are_told():
    draws = np.random.default_rng(1).normal(size=(4, 500, 1))
    found = exact_sample(draws, 2 * draws[..., 0] ** 2)
    assert found.notes("reduced_k_hat") == (Note("reduced_k_hat", value=found.k_hat, limit=0.7),)


def test_draws_are_chosen_evenly():
    np.testing.assert_array_equal(evenly_spaced(9, 3), [0, 4, 8])
    np.testing.assert_array_equal(evenly_spaced(3, 10), [0, 1, 2])


def posed(equation, **changes):
    """Two unknowns: a diffusivity that varies from left to right, and the strength of a source."""
    points = np.random.default_rng(3).uniform(0.1, 0.9, (12, 2))
    parts = {
        "latents": {"a": dist.LogNormal(0.0, 0.5), "f": dist.Normal(1.0, 0.5)},
        "dirichlet": {"boundary": 0.0},
        "observations": rz.observations(points, 0.06 * np.ones(12)),
        "likelihood": rz.Gaussian(0.005),
    }
    return rz.inverse_problem(rz.rectangle((8, 8)), equation, **parts | changes)


def diffusivity(x, z):
    return 1.0 + z["a"] * x[0]


@pytest.fixture(scope="module")
def problem():
    return posed(rz.diffusion(diffusivity) - rz.source("f"))


def test_equations_that_are_not_linear_are_refused():
    nonlinear = posed(
        rz.diffusion(lambda x, z, u, slope: 1.0 + z["a"] * u**2) - rz.source("f"),
    )
    with pytest.raises(RieszError, match="reduced takes equations that are linear in the state"):
        Reduced().check(nonlinear)


def test_several_experiments_are_refused(problem):
    several = dataclasses.replace(problem, others=(problem.forward,))
    with pytest.raises(RieszError, match="reduced takes one experiment, and there are 2"):
        Reduced().check(several)


def exact_moments(problem, centre, sd):
    axis = np.linspace(-5, 5, 25)
    grid = centre + np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2) * sd
    logs = np.asarray(jax.jit(lambda g: jax.lax.map(problem.log_prob, g))(jnp.asarray(grid)))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


@pytest.fixture(scope="module")
def posterior(problem):
    return SMALL.run(problem, seed=1)


@pytest.mark.slow
def test_the_posterior_is_the_exact_one(problem, posterior):
    found = np.asarray(posterior.coordinate_mean())
    sd = np.sqrt(np.asarray(posterior.distribution.variances()))
    mean, exact_sd = exact_moments(problem, found, sd)
    error = 1 / np.sqrt(np.asarray(posterior.history["effective_draws"]))
    assert (np.abs(found - mean) < 4 * error * exact_sd).all()
    assert (np.abs(sd / exact_sd - 1) < 4 * error).all()
    assert posterior.history["gap"][-1] < 0.01
    assert posterior.history["k_hat"] < 0.5
    assert posterior.distribution.by_chain.shape == (4, 100, 2)


@pytest.mark.slow
def test_a_fit_that_is_stopped_goes_on_to_the_same_posterior(problem, posterior, tmp_path):
    again, stops = stopped_and_resumed(
        lambda checkpoint: SMALL.run(problem, seed=1, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops > 3
    check_same(again, posterior)


@pytest.mark.slow
def test_an_equation_that_cannot_be_reduced_ends_with_advice(problem, monkeypatch):
    monkeypatch.setattr(engine, "MAX_PILOTS", 1)
    monkeypatch.setattr(engine, "LARGEST_GAP", 0.0)
    assert LARGEST_GAP > 0
    with pytest.raises(EngineError, match=r"modes of .* leave .* or use sample"):
        SMALL.run(problem, seed=1)

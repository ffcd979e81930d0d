"""The density reduced-basis: draws of a near posterior become ones of the exact one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.density import reduced_basis
from riesz.density.reduced_basis import LARGEST_GAP
from riesz.errors import EngineError, RieszError

SMALL = pair(
    "mcmc(reduced-basis)",
    num_snapshots=40,
    num_exact=400,
    num_warmup=100,
    num_samples=200,
    num_searches=2,
)


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
    with pytest.raises(
        RieszError, match="a reduced basis takes equations that are linear in the state"
    ):
        pair("mcmc(reduced-basis)").check(nonlinear)


def test_several_experiments_are_refused(problem):
    several = dataclasses.replace(problem, others=(problem.forward,))
    with pytest.raises(RieszError, match="a reduced basis takes one experiment, and there are 2"):
        pair("mcmc(reduced-basis)").check(several)


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
    monkeypatch.setattr(reduced_basis, "MAX_PILOTS", 1)
    monkeypatch.setattr(reduced_basis, "LARGEST_GAP", 0.0)
    assert LARGEST_GAP > 0
    with pytest.raises(EngineError, match=r"modes of .* leave .* or use the density exact"):
        SMALL.run(problem, seed=1)

"""Leaving observations out by weights, against closed forms and against ArviZ."""

import warnings
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.pairs import pair

import riesz as rz
from riesz.diagnose.arviz import arviz
from riesz.diagnose.held_out import leave_one_out, observation_draws
from riesz.prediction.sampling import quantity_draws

PLACES = np.linspace(0.08, 0.92, 10)
WELLS = ("a",) * 4 + ("b",) * 3 + ("c",) * 3


@lru_cache
def posed(noise):
    rng = np.random.default_rng(2)
    values = 0.1 * np.sin(3 * PLACES) + 0.03 * rng.normal(size=len(PLACES))
    likelihood = (
        rz.Gaussian(0.03)
        if noise == "independent"
        else rz.observe.GroupedNormal(groups=WELLS, sd=0.03, level_sd=0.03)
    )
    return rz.inverse_problem(
        rz.interval(16),
        rz.diffusion(1.0) - rz.source("f"),
        latents={"f": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=5)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(PLACES, values),
        likelihood=likelihood,
    )


@lru_cache
def fitted(noise):
    return rz.fit(posed(noise), pair("laplace(marginal)", num_draws=4000), seed=0, progress=False)


@pytest.mark.parametrize("noise", ["independent", pytest.param("shared", marks=pytest.mark.slow)])
def test_weights_leave_out_as_exact_posteriors_do(noise):
    problem = posed(noise)
    zeros = jnp.zeros(problem.num_coordinates)
    slopes = jax.jacfwd(lambda at: problem.operator @ problem.state(at))(zeros)
    factor = problem.likelihood.factor(problem.observed, problem.z(zeros))
    noise_factor = np.asarray(factor.colour(jnp.eye(len(PLACES))))
    covariance = np.asarray(slopes @ slopes.T) + noise_factor @ noise_factor.T
    precision = np.linalg.inv(covariance)
    values = np.asarray(problem.observed - problem.operator @ problem.state(zeros))
    apart, sd = precision @ values / np.diag(precision), 1 / np.sqrt(np.diag(precision))
    exact = stats.norm.logpdf(apart, scale=sd)
    found = leave_one_out(fitted(noise), num_draws=4000)
    assert not found.unreliable.any()
    np.testing.assert_allclose(found.log_densities, exact, atol=0.05)
    assert abs(found.total / exact.sum() - 1) < 0.01


def test_weights_agree_with_those_of_arviz():
    library = arviz()
    drawn = quantity_draws(fitted("independent"), observation_draws, num_draws=4000)
    logs = drawn["log_likelihood"]
    groups = {"posterior": {"f": np.zeros((1, len(logs)))}, "log_likelihood": {"y": logs[None]}}
    try:
        data = library.from_dict(**groups)
    except TypeError:
        data = library.from_dict(groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = library.loo(data, pointwise=True)
    ours = leave_one_out(fitted("independent"), num_draws=4000)
    each = getattr(theirs, "loo_i", None)
    each = theirs.elpd_i if each is None else each
    np.testing.assert_allclose(ours.log_densities, np.asarray(each), atol=0.02)

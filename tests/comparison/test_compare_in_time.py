"""Readings of wells in time, which share noise: blocks are wells of which nothing was read."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tests.pairs import pair

import riesz as rz
from riesz.comparison.compare import compare
from riesz.comparison.results import BLOCKS, ONE

PLACES = np.array([0.25, 0.5, 0.8])
TIMES = np.array([0.1, 0.15, 0.3])
WELL = np.tile(np.arange(3), 3)


@pytest.fixture(scope="module")
def fitted():
    points, times = np.tile(PLACES, 3), np.repeat(TIMES, 3)
    values = 0.3 * np.random.default_rng(0).normal(size=9)
    problem = rz.inverse_problem(
        rz.interval(8),
        rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f"),
        latents={"start": rz.SPDEField(1.0, 0.3), "f": dist.Normal(0.5, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, values, times=times),
        likelihood=rz.observe.GroupedNormal(0.2, WELL.tolist(), level_sd=0.2),
        times=0.05 * np.arange(7),
        initial="start",
        scheme="euler",
    )
    return rz.fit(problem, pair("laplace(marginal)", num_draws=4000), progress=False)


def left_out_exactly(problem, block):
    zeros = jnp.zeros(problem.num_coordinates)

    def seen(at):
        return problem.predict(problem.state(at), problem.z(at))

    slopes = np.asarray(jax.jacfwd(seen)(zeros))
    factor = problem.likelihood.factor(problem.observed, problem.z(zeros))
    root = np.asarray(factor.colour(jnp.eye(9)))
    precision = np.linalg.inv(slopes @ slopes.T + root @ root.T)
    weights = precision @ np.asarray(problem.observed - seen(zeros))
    found = np.zeros(9)
    for own in (np.flatnonzero(block == one) for one in np.unique(block)):
        covariance = np.linalg.inv(precision[np.ix_(own, own)])
        found[own] = stats.norm.logpdf(covariance @ weights[own], 0, np.sqrt(np.diag(covariance)))
    return found


@pytest.mark.slow
def test_wells_are_left_out_as_exact_posteriors_do_with_kriging_of_dates_beside(fitted):
    # Under another name its draws are weighed, as those of any engine.
    models = {"closed": fitted, "drawn": dataclasses.replace(fitted, engine="formula")}
    found = compare(models, blocks=WELL.tolist())
    for how, block in ((ONE, np.arange(9)), (BLOCKS, WELL)):
        exact = left_out_exactly(fitted.problem, block)
        np.testing.assert_allclose(
            found.model("closed").held_out[how].log_densities, exact, rtol=1e-5, atol=1e-6
        )
    near = found.model("drawn").held_out[ONE].log_densities
    np.testing.assert_allclose(near, left_out_exactly(fitted.problem, np.arange(9)), atol=0.3)
    assert [one.name for one in found.models] == ["closed", "drawn", "kriging", "plane"]

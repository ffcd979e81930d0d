"""New readings at places that were read share what readings there share: closed forms."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import ndtri

import riesz as rz
from riesz.errors import RieszError
from riesz.observe.sites import UNREAD
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior

SITES = np.array([0.3, 0.6, 0.8])
SITE = np.array([0, 0, 0, 0, 1, 1, 1, 2])
AWAY = 0.45
OWN, LEVEL, DRIFT, MEMORY = 0.1, 0.7, 0.4, 0.2
NUM_DRAWS = 400
ERROR = 5 / np.sqrt(NUM_DRAWS)
"""Five standard errors of a mean, in standard deviations."""


def exact_posterior(problem, responses, noise):
    """Draws of one standard normal coordinate, given readings that respond to it."""
    precision = 1 + responses @ np.linalg.solve(noise, responses)
    mean = responses @ np.linalg.solve(noise, np.asarray(problem.observed)) / precision
    white = ndtri((np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS)  # evenly spread
    draws = (mean + white / np.sqrt(precision)).reshape(1, -1, 1)
    return Posterior(problem, EmpiricalDraws(jnp.asarray(draws)), ExactStates(), {}, "known", 0)


def conditioned(known, noise, responses, shared, new, own):
    """Mean and sd of new readings, of the joint normal distribution of them and what is known."""
    covariance = np.outer(responses, responses) + noise
    between = np.outer(new, responses) + shared
    mean = between @ np.linalg.solve(covariance, known)
    variance = new**2 + own - np.sum(between * np.linalg.solve(covariance, between.T).T, axis=1)
    return mean, np.sqrt(variance)


def check(found, mean, sd):
    np.testing.assert_allclose(found.mean, mean, atol=ERROR * sd.max())
    np.testing.assert_allclose(found.sd, sd, rtol=ERROR)


def test_steady_readings_know_the_level_of_their_site():
    rng = np.random.default_rng(0)
    values = np.array([0.9, -0.6, 0.2])[SITE] + OWN * rng.normal(size=len(SITE))
    with pytest.warns(UserWarning, match="observed more than once"):
        observed = rz.observations(SITES[SITE], values)
    problem = rz.inverse_problem(
        rz.interval(20),
        rz.diffusion(1.0) - rz.source("w"),
        latents={"w": dist.Normal(0.0, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=observed,
        likelihood=rz.observe.GroupedNormal(OWN, SITE, level_sd=LEVEL),
    )
    places = np.append(SITES, AWAY)
    new = places * (1 - places) / 2  # linear elements are exact at nodes
    same = SITE[:, None] == SITE
    noise = LEVEL**2 * same + OWN**2 * np.eye(len(SITE))
    posterior = exact_posterior(problem, new[SITE], noise)
    numbers = np.array([0, 1, 2, UNREAD])
    wanted = conditioned(
        *(values, noise, new[SITE], LEVEL**2 * (numbers[:, None] == SITE), new),
        own=LEVEL**2 + OWN**2,
    )
    settings = {"num_draws": NUM_DRAWS, "quantiles": ()}
    check(rz.predict(posterior, "measurement", places[:, None], **settings), *wanted)
    there = rz.predict(posterior, "measurement", **settings)  # at the sensors
    check(there, wanted[0][SITE], wanted[1][SITE])
    grid = rz.predict(posterior, "measurement", np.array([[AWAY]]), **settings)
    assert grid.sd > LEVEL > 2 * there.sd[0]


def test_forecasts_know_level_and_drift_of_their_site():
    rng = np.random.default_rng(0)
    when = np.array([0.1, 0.2, 0.25, 0.4, 0.1, 0.3, 0.4, 0.35])
    values = np.array([0.9, -0.6, 0.2])[SITE] + 0.3 * rng.normal(size=len(SITE))
    drift = {"drift_sd": DRIFT, "correlation_time": MEMORY, "times": when}
    axis = rz.fem.time_axis(np.linspace(0.0, 0.8, 9))
    problem = rz.inverse_problem(
        rz.interval(20),
        rz.storage(1.0) + rz.diffusion(0.3) - rz.source("w"),
        latents={"w": dist.Normal(0.0, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(SITES[SITE], values, times=when),
        likelihood=rz.observe.GroupedNormal(OWN, SITE, level_sd=LEVEL, **drift),
        times=axis,
        initial=0.0,
    )
    responses = np.asarray(problem.predict(problem.state(jnp.ones(1)), problem.z(jnp.ones(1))))

    def shared(site, then):
        same, apart = site[:, None] == SITE, np.abs(then[:, None] - when)
        return np.where(same, LEVEL**2 + DRIFT**2 * np.exp(-apart / MEMORY), 0.0)

    noise = shared(SITE, when) + OWN**2 * np.eye(len(SITE))
    posterior = exact_posterior(problem, responses, noise)
    times, places = np.array([0.45, 0.8]), np.append(SITES, AWAY)
    units = EmpiricalDraws(jnp.ones((1, 2, 1)))
    unit = Posterior(problem, units, ExactStates(), {}, "known", 0)
    new = rz.predict(unit, "u", places, times=times, num_draws=2, quantiles=()).mean.ravel()
    grid = rz.mesh.grid(problem.forward.space.mesh, (10,))
    mapped = rz.predict(unit, "u", grid, times=times, num_draws=2, quantiles=()).mean
    middle = rz.predict(unit, "u", grid.points, times=times, num_draws=2, quantiles=()).mean
    np.testing.assert_allclose(mapped, middle.reshape(2, 10))
    numbers = np.tile([0, 1, 2, UNREAD], 2)
    mean, sd = conditioned(
        *(values, noise, responses, shared(numbers, np.repeat(times, 4)), new),
        own=LEVEL**2 + DRIFT**2 + OWN**2,
    )
    settings = {"num_draws": NUM_DRAWS, "quantiles": (), "times": times}
    found = rz.predict(posterior, "measurement", places, **settings)
    check(found, mean.reshape(2, 4), sd.reshape(2, 4))
    # What a site's readings share narrows its forecast, and the less the later it is.
    read, away = np.asarray(found.sd)[:, :3], np.asarray(found.sd)[:, 3]
    assert (read < away[:, None]).all()
    assert (read[0] < read[1]).all()


class Laplacian(rz.observe.AbstractLikelihood):
    """A user's own, which says nothing of the host."""

    scale: float

    def distribution(self, predicted, z):
        return dist.Laplace(predicted, self.scale)

    def describe(self):
        return f"double exponential, scale {self.scale:g}"


def test_new_readings_by_a_likelihood_of_ones_own_are_shifted_by_effects_of_covariates():
    problem = rz.inverse_problem(
        rz.interval(20),
        rz.diffusion(1.0) - rz.source("w"),
        latents={"w": dist.Normal(0.0, 1.0), "effects": dist.Normal(jnp.zeros(1), 1.0)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(SITES[:, None], [0.1, 0.2, 0.1]),
        likelihood=rz.observe.WithEffects(Laplacian(1e-9), np.ones((3, 1))),
    )
    draws = jnp.stack([jnp.linspace(-1, 1, 50), jnp.linspace(0, 2, 50)], axis=1)
    posterior = Posterior(problem, EmpiricalDraws(draws[None]), ExactStates(), {}, "known", 0)
    place, design = np.array([[AWAY]]), np.array([[3.0]])
    given = {"num_draws": 50, "quantiles": (), "keep_draws": True}
    state = rz.predict(posterior, "u", place, **given).draws
    new = rz.predict(posterior, "measurement", place, design=design, **given).draws
    np.testing.assert_allclose(new, state + 3.0 * np.asarray(draws[:, 1:]), atol=1e-6)
    with pytest.raises(RieszError, match="shifted by 1 effects of covariates"):
        rz.predict(posterior, "measurement", place, **given)

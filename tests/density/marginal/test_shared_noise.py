"""Noise that readings of one well share: against dense algebra, and methods against one another."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.density.marginal.host import data_model
from riesz.density.marginal.linear import Assimilation, MarginalDensity, assimilate, mixture_at
from riesz.density.marginal.points import point_map_at_sensors
from riesz.density.marginal.systems import ParameterSpace
from riesz.errors import RieszError
from riesz.problem.linearity import linear_parts

POINTS = np.random.default_rng(3).uniform(0.1, 0.9, (12, 2))
WELLS = np.repeat(["a", "b", "c"], [6, 5, 1])
TIMES = np.array([0.0, 1, 1, 4, 5, 9, 2, 3, 7, 7, 8, 5])
OWN, DRIFT, MEMORY = 0.05, 0.1, 2.0
STRENGTHS, LEVEL_SCALE = np.array([1.0, -0.5, 2.0]), 0.5


def strength(x, z):
    shapes = (1.0, 2 * jnp.cos(jnp.pi * x[0]), jnp.cos(jnp.pi * x[1]))
    return 10 * sum(weight * shape for weight, shape in zip(z["w"], shapes, strict=True))


def problem_with(likelihood, latents, values):
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((4, 4)), 2),
        rz.diffusion(1.0) - rz.source(strength),
        latents={"w": dist.Normal(0.5 * jnp.ones(3), 1.5)} | latents,
        observations=rz.observations(POINTS, values),
        likelihood=likelihood,
        dirichlet={"left": 0.0, "right": 1.0},
    )


@lru_cache
def affine():
    """What sensors see without sources, and of each."""
    problem = problem_with(rz.Gaussian(0.1), {}, np.zeros(12))
    seen = jax.jit(jax.vmap(lambda one: problem.operator @ problem.state(one)))
    found = np.asarray(seen(jnp.vstack([jnp.zeros((1, 3)), jnp.eye(3)])))
    return found[0], (found[1:] - found[0]).T


def covariance(level):
    same, apart = WELLS[:, None] == WELLS[None], np.abs(TIMES[:, None] - TIMES[None])
    shared = np.where(same, level**2 + DRIFT**2 * np.exp(-apart / MEMORY), 0.0)
    return shared + OWN**2 * np.eye(12)


@lru_cache
def problem():
    """With an unknown level."""
    offset, responses = affine()
    rng = np.random.default_rng(5)
    noise = np.linalg.cholesky(covariance(0.4)) @ rng.normal(size=12)
    values = offset + responses @ ((STRENGTHS - 0.5) / 1.5) + noise
    words = {"drift_sd": DRIFT, "correlation_time": MEMORY, "times": TIMES}
    likelihood = rz.observe.GroupedNormal(OWN, WELLS, level_sd="level", **words)
    return problem_with(likelihood, {"level": dist.LogNormal(np.log(LEVEL_SCALE), 0.5)}, values)


def by_hand(level):
    """Mean and covariance of the strengths' coordinates, and the log-density of the data."""
    offset, responses = affine()
    misfit = np.asarray(problem().observed) - offset
    data = covariance(level) + responses @ responses.T
    gain = np.linalg.solve(data, responses).T
    volume = np.linalg.slogdet(2 * np.pi * data)[1]
    density = -0.5 * (misfit @ np.linalg.solve(data, misfit) + volume)
    return gain @ misfit, np.eye(3) - gain @ responses, density


@pytest.mark.slow
def test_the_marginal_density_is_the_dense_closed_form():
    own = problem()
    parts, at = linear_parts(own), point_map_at_sensors(own)
    assert [own.latents.coordinate_names()[i] for i in parts.others] == ["level"]
    assert data_model(own, parts, at) is None  # on the host noise is independent

    @eqx.filter_jit
    def found(others):
        system = MarginalDensity(own, parts, at).system(others)
        density = MarginalDensity(own, parts, at)(others)
        return system.mean, system.variances(jnp.eye(3)), density

    for coordinate in (0.0, -0.8):
        level = LEVEL_SCALE * np.exp(0.5 * coordinate)
        mean, variances, density = found(jnp.asarray([coordinate]))
        wanted_mean, wanted, wanted_density = by_hand(level)
        np.testing.assert_allclose(mean, wanted_mean, rtol=1e-8)
        np.testing.assert_allclose(variances, np.diag(wanted), rtol=1e-8)
        prior = -0.5 * (coordinate**2 + np.log(2 * np.pi))
        np.testing.assert_allclose(density, wanted_density + prior, rtol=1e-8)


@pytest.mark.slow
def test_elsewhere_the_marginal_density_has_the_state_and_all_of_the_noise():
    own, points = problem(), np.array([[0.4, 0.6], [0.2, 0.3]])
    mixture = mixture_at(own, linear_parts(own), np.zeros((1, 1)), points)
    mean, _, _ = by_hand(LEVEL_SCALE)
    at = {"w": jnp.asarray(0.5 + 1.5 * mean)}
    state = rz.fem.point_operator(own.forward.space, points) @ rz.solve(own.forward, at)
    np.testing.assert_allclose(mixture.means[0], state, rtol=1e-8)
    noise = OWN**2 + DRIFT**2 + LEVEL_SCALE**2
    np.testing.assert_allclose(mixture.noise[0] ** 2, noise, rtol=1e-12)


def test_relaxed_refuses_shared_noise():
    with pytest.raises(RieszError, match="relaxed needs independent normal noise"):
        pair("gaussian-vi(relaxed)").check(problem())


def test_later_readings_that_share_noise_with_earlier_ones_are_refused():
    own, nothing = problem(), np.zeros((0, 4))
    empty = ParameterSpace(nothing, np.zeros(0), np.zeros(0))
    begun = Assimilation(own, np.zeros(0), nothing, empty)
    with pytest.raises(RieszError, match="later need independent normal noise, and it is normal"):
        begun.update(own.observations, own.likelihood)


@pytest.mark.slow
def test_in_time_what_was_assimilated_is_the_posterior_of_shared_noise():
    places, times = np.tile([0.25, 0.5, 0.8], 3), np.repeat([0.1, 0.17, 0.3], 3)
    words = {"level_sd": 0.05, "drift_sd": 0.03, "correlation_time": 0.1, "times": times}
    heat = rz.inverse_problem(
        rz.interval(12),
        rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f"),
        latents={"start": rz.SPDEField(1.0, 0.3), "f": dist.Normal(0.5, 1.0)},
        observations=rz.observations(places, np.sin(np.arange(9)), times=times),
        likelihood=rz.observe.GroupedNormal(0.02, places, **words),
        dirichlet={"boundary": 0.0},
        times=0.05 * np.arange(7),
        initial="start",
    )
    parts = linear_parts(heat)
    system = MarginalDensity(heat, parts, point_map_at_sensors(heat)).system(jnp.zeros(0))
    found = assimilate(heat)
    np.testing.assert_allclose(found.mean()[np.asarray(parts.linear)], system.mean, atol=1e-8)
    apart = found.system.variances(np.eye(heat.num_coordinates))[np.asarray(parts.linear)]
    np.testing.assert_allclose(apart, system.variances(jnp.eye(len(apart))), atol=1e-8)


@lru_cache
def moments():
    """Of the strengths' coordinates and that of the level, by quadrature over the level."""
    axis = np.linspace(-6, 6, 2001)
    found = [by_hand(LEVEL_SCALE * np.exp(0.5 * one)) for one in axis]
    logs = np.array([density for _, _, density in found]) - 0.5 * axis**2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    means = np.column_stack([np.stack([mean for mean, _, _ in found]), axis])
    mean = weights @ means
    within = np.column_stack([np.stack([np.diag(one) for _, one, _ in found]), 0 * axis])
    return mean, np.sqrt(weights @ (within + (means - mean) ** 2))


def errors_of(posterior):
    """The largest of means, in sds, and of sds, relatively: of the strengths and the level."""
    names = problem().latents.coordinate_names()
    order = [i for i, name in enumerate(names) if name != "level"] + [names.index("level")]
    mean, sd = moments()
    found = np.asarray(posterior.coordinate_mean())[order]
    spread = np.sqrt(np.diag(posterior.coordinate_covariance()))[order]
    return np.max(np.abs(found - mean) / sd), np.max(np.abs(spread / sd - 1))


ENGINES = {
    "laplace(marginal)": (
        pair("laplace(marginal)", num_draws=4000, num_values=400),
        0.08,
        0.06,
    ),
    "nuts": (
        pair("mcmc", kernel="nuts", num_samples=4000, num_chains=2, linear_solver="dense"),
        0.08,
        0.06,
    ),
    "hmc": (pair("mcmc"), 0.12, 0.1),
    "gaussian-vi": (pair("gaussian-vi"), 0.1, 0.1),
    "gaussian-vi(surrogate)": (pair("gaussian-vi(surrogate)"), 0.1, 0.1),
    "laplace": (pair("laplace"), 0.25, 0.12),  # the level's posterior leans to one side
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_engines_agree_with_quadrature(name):
    engine, off, wider = ENGINES[name]
    mean_error, width_error = errors_of(engine.run(problem()))
    assert mean_error < off
    assert width_error < wider

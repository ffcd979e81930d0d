"""Methods on the relaxed density against its posterior on a lattice, log-determinant included.

One unknown diffusivity: errors of the equation move sensors the more the smaller it is.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.source_strengths import (
    POINTS,
    known_posterior,
    most_likely,
    relaxed_covariance,
    response,
    source_problem,
)

from riesz.density.relaxed.discrepancy import gram_factor, noise_variances, relax_solver
from riesz.density.relaxed.relaxed import Learned, Relaxed, note_on_scales
from riesz.density.relaxed.states import linearise
from riesz.diagnose.importance import importance_check
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.penalty.gram import dual_norm
from riesz.problem.posing import inverse_problem, with_observations

NOISE, TRUTH = 0.01, 0.3
LATTICE = np.linspace(-1.5, 3.0, 541)


@lru_cache
def diffusivity_problem(num_sensors):
    rng = np.random.default_rng(num_sensors)
    places = rng.uniform(0.1, 0.9, (num_sensors, 2))
    problem = inverse_problem(
        rectangle((16, 16)),
        diffusion("a") - source(1.0),
        latents={"a": dist.LogNormal(0.0, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=observations(places, np.zeros(num_sensors)),
        likelihood=Gaussian(NOISE),
    )
    seen = np.asarray(problem.operator @ problem.state(jnp.array([TRUTH])))
    values = seen + NOISE * rng.normal(size=num_sensors)
    return with_observations(problem, observations(places, values), problem.likelihood)


@lru_cache
def covariances(num_sensors):
    """Gaps between data and solution, and K, along the lattice; and the epsilon that is one."""
    problem = diffusivity_problem(num_sensors)
    factor, solver = gram_factor(dual_norm(problem.forward).gram), relax_solver(problem)

    @jax.jit
    def along(places):
        def at(place):
            here = linearise(problem, problem.z(place[None]), solver)
            return problem.observed - problem.operator @ here.state, here.discrepancy(factor)

        return jax.lax.map(at, places)

    gaps, spreads = map(np.asarray, along(jnp.asarray(LATTICE)))
    middle = np.asarray(along(jnp.zeros(1))[1])[0]
    variances = np.asarray(noise_variances(problem, jnp.zeros(1)))
    return gaps, spreads, np.sqrt(variances.mean() / np.diag(middle).mean())


def lattice_moments(num_sensors, scales):
    """Mean and standard deviation by summing the formula over the lattice and over epsilon."""
    gaps, spreads, unit = covariances(num_sensors)
    logs = np.empty((len(LATTICE), len(scales.values)))
    for j, epsilon_rel in enumerate(scales.values):
        covariance = NOISE**2 * np.eye(num_sensors) + (epsilon_rel * unit) ** 2 * spreads
        solved = np.linalg.solve(covariance, gaps[..., None])[..., 0]
        squares = np.sum(gaps * solved, axis=1)
        logs[:, j] = -0.5 * (squares + np.linalg.slogdet(covariance)[1]) + scales.log_weights[j]
    density = np.exp(logs - logs.max()).sum(axis=1) * np.exp(-0.5 * LATTICE**2)
    weights = density / density.sum()
    mean = weights @ LATTICE
    return mean, np.sqrt(weights @ (LATTICE - mean) ** 2)


def scales_of(epsilon_rel):
    return Relaxed(epsilon_rel=epsilon_rel).scales


def check_moments(posterior, num_sensors, scales):
    mean, sd = lattice_moments(num_sensors, scales)
    assert abs(float(posterior.coordinate_mean()[0]) - mean) < 0.1 * sd
    assert 0.9 < float(np.sqrt(posterior.coordinate_covariance()[0, 0])) / sd < 1.1


@lru_cache
def fitted(num_sensors, epsilon_rel):
    engine = pair("gaussian-vi(relaxed)", epsilon_rel=epsilon_rel, num_draws=16, tolerance=0.02)
    return engine.run(diffusivity_problem(num_sensors))


@pytest.mark.slow
@pytest.mark.parametrize("num_sensors", [25, 100])
@pytest.mark.parametrize("epsilon_rel", [0.3, 1.0, 2.0])
def test_q_is_the_relaxed_posterior_with_its_log_determinant(num_sensors, epsilon_rel):
    posterior = fitted(num_sensors, epsilon_rel)
    assert posterior.notes == ()
    check_moments(posterior, num_sensors, scales_of(epsilon_rel))


@pytest.mark.slow
def test_a_learned_epsilon_is_integrated_out():
    """By q, and its weights where tails are longer than those of a normal distribution."""
    check = importance_check(fitted(25, Learned()), num_draws=4000)
    mean, sd = lattice_moments(25, Learned().scales())
    assert abs(float(check.mean[0]) - mean) < 0.1 * sd
    assert 0.9 < float(check.sd[0]) / sd < 1.1


@pytest.mark.slow
def test_the_importance_check_agrees():
    found = importance_check(fitted(25, 1.0), num_draws=200)
    assert found.warnings == ()
    assert abs(found.mean_shift).max() < 0.1


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say_where_epsilon_is_learned():
    """Truth and epsilon are drawn from their priors; held at the likeliest epsilon, fewer do."""
    scales, base, rng = Learned().scales(), source_problem(), np.random.default_rng(0)
    engine = pair("gaussian-vi(relaxed)", epsilon_rel=Learned(), num_draws=8, num_curved=2)
    slopes, offset = response(base)
    held, held_at_the_likeliest = [], []
    for number in range(60):
        truth = rng.normal(size=2)
        epsilon_rel = rng.choice(scales.values, p=np.exp(scales.log_weights))
        scatter = np.linalg.cholesky(relaxed_covariance(base, epsilon_rel))
        values = offset + slopes @ truth + scatter @ rng.normal(size=len(POINTS))
        problem = with_observations(base, observations(POINTS, values), base.likelihood)
        check = importance_check(engine.run(problem, seed=number), num_draws=1000)
        for mean, sd, found in (
            (check.mean, check.sd, held),
            (*known_posterior(problem, most_likely(problem)), held_at_the_likeliest),
        ):
            found.extend(abs(truth - mean) < 1.96 * sd)
    chance = np.sqrt(0.95 * 0.05 / len(held))
    assert abs(np.mean(held) - 0.95) < 3 * chance
    assert np.mean(held) > np.mean(held_at_the_likeliest)


def test_a_learned_epsilon_is_told_with_its_range():
    scales = Learned().scales()
    note = note_on_scales(scales.values, np.exp(scales.log_weights))  # as if data told nothing
    assert note.code == "epsilon_range"
    assert note.values["low"] < 0.1
    assert note.values["high"] > 10

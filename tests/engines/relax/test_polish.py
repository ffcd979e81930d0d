"""The posterior of relax against that of the relaxed model on a lattice, log-determinant included.

One unknown diffusivity: errors of the equation move sensors the more the smaller it is.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.source_strengths import (
    POINTS,
    known_posterior,
    most_likely,
    relaxed_covariance,
    response,
    source_problem,
)

from riesz.diagnose.importance import importance_check
from riesz.engines.relax.discrepancy import gram_factor, linearise, noise_variances, relax_solver
from riesz.engines.relax.engine import Relax, notes_on_fit
from riesz.engines.relax.error_scale import epsilon_unit, median_units
from riesz.engines.relax.gaussian_refinement import RefinedGaussian, epsilon_grid, refine_gaussian
from riesz.engines.relax.schedule import Fixed, Learned
from riesz.engines.relax.states import RelaxedStates
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.notes import Note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.penalty.gram import dual_norm
from riesz.penalty.penalty import exact_penalty
from riesz.posterior.family import full_rank
from riesz.posterior.posterior import Posterior
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
            here = linearise(problem, place[None], solver)
            return problem.observed - problem.operator @ here.state, here.discrepancy(factor)

        return jax.lax.map(at, places)

    gaps, spreads = map(np.asarray, along(jnp.asarray(LATTICE)))
    middle = np.asarray(along(jnp.zeros(1))[1])[0]
    unit = epsilon_unit(jnp.asarray(np.diag(middle)), noise_variances(problem, jnp.zeros(1)))
    return gaps, spreads, factor, float(unit)


def lattice_moments(num_sensors, scales):
    """Mean and standard deviation by summing the formula over the lattice and over epsilon."""
    gaps, spreads, _, unit = covariances(num_sensors)
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


def states_of(num_sensors, scales):
    _, _, factor, unit = covariances(num_sensors)
    return RelaxedStates(jnp.asarray(unit * scales.values), jnp.asarray(scales.log_weights), factor)


def check_moments(family, num_sensors, scales):
    mean, sd = lattice_moments(num_sensors, scales)
    assert abs(float(family.mean[0]) - mean) < 0.1 * sd
    assert 0.9 < float(jnp.sqrt(family.variances()[0])) / sd < 1.1


@lru_cache
def polished_from_the_prior(num_sensors, schedule):
    problem, states = diffusivity_problem(num_sensors), states_of(num_sensors, schedule.scales())
    start = full_rank(1, problem.forward.dtype)
    return refine_gaussian(problem, states, start, jr.key(0), num_draws=16, rounds=20)


@pytest.mark.slow
def test_q_is_the_relaxed_posterior_with_its_log_determinant():
    end = polished_from_the_prior(25, Fixed(1.0))
    assert end.is_settled
    check_moments(end.family, 25, Fixed(1.0).scales())


@pytest.mark.slow  # quickly, the sum over scales by formulas
def test_a_learned_epsilon_is_integrated_out():
    end = polished_from_the_prior(25, Learned())
    assert end.is_settled
    check_moments(end.family, 25, Learned().scales())
    np.testing.assert_allclose(end.scales.sum(), 1.0)


@pytest.mark.slow
def test_the_importance_check_agrees():
    scales, end = Fixed(1.0).scales(), polished_from_the_prior(25, Fixed(1.0))
    posterior = Posterior(
        diffusivity_problem(25), end.family, states_of(25, scales), {}, "relax", 0
    )
    found = importance_check(posterior, num_draws=200)
    assert found.warnings == ()
    assert abs(found.mean_shift).max() < 0.1


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say_where_epsilon_is_learned():
    """Truth and epsilon are drawn from their priors; held at the likeliest epsilon, fewer do."""
    scales, base, rng = Learned().scales(), source_problem(), np.random.default_rng(0)
    matrix = dual_norm(base.forward).gram
    factor = gram_factor(matrix)
    unit, _ = median_units(base, exact_penalty(base.forward), matrix, factor)
    states = RelaxedStates(unit * scales.values, jnp.asarray(scales.log_weights), factor)
    slopes, offset = response(base)
    held, held_at_the_likeliest = [], []
    for number in range(60):
        truth = rng.normal(size=2)
        epsilon_rel = rng.choice(scales.values, p=np.exp(scales.log_weights))
        scatter = np.linalg.cholesky(relaxed_covariance(base, epsilon_rel))
        values = offset + slopes @ truth + scatter @ rng.normal(size=len(POINTS))
        problem = with_observations(base, observations(POINTS, values), base.likelihood)
        start = full_rank(2, jnp.float64)
        q = refine_gaussian(problem, states, start, jr.key(number), num_draws=8, rounds=20).family
        for mean, sd, found in (
            (np.asarray(q.mean), np.sqrt(np.asarray(q.variances())), held),
            (*known_posterior(problem, most_likely(problem)), held_at_the_likeliest),
        ):
            found.extend(abs(truth - mean) < 1.96 * sd)
    chance = np.sqrt(0.95 * 0.05 / len(held))
    assert abs(np.mean(held) - 0.95) < 3 * chance
    assert np.mean(held) > np.mean(held_at_the_likeliest)


@pytest.mark.slow
@pytest.mark.parametrize("num_sensors", [25, 100])
@pytest.mark.parametrize("epsilon_rel", [0.3, 1.0, 2.0])
def test_the_engine_ends_at_the_relaxed_posterior(num_sensors, epsilon_rel):
    engine = Relax(
        epsilon_rel=epsilon_rel, surrogate="nodal", norm="exact", steps=40, num_samples=8
    )
    posterior = engine.run(diffusivity_problem(num_sensors))
    assert posterior.notes == ()
    check_moments(posterior.distribution, num_sensors, Fixed(epsilon_rel).scales())


def test_values_of_epsilon_cover_the_likely_ones_evenly():
    weights = np.exp(-0.5 * ((np.arange(64) - 20) / 4) ** 2)
    numbers = epsilon_grid(weights)
    assert len(numbers) <= 9
    assert len(set(np.diff(numbers))) == 1
    mean = numbers @ weights[numbers] / weights[numbers].sum()
    spread = np.sqrt((numbers - mean) ** 2 @ weights[numbers] / weights[numbers].sum())
    np.testing.assert_allclose([mean, spread], [20, 4], rtol=0.01)


def test_notes_say_what_was_left_out_or_not_reached():
    problem, q = diffusivity_problem(25), full_rank(1, jnp.float64)
    assert notes_on_fit(problem, Fixed(0.1).scales(), None) == ()
    assert notes_on_fit(problem, Fixed(0.5).scales(), None) == (Note("no_polishing"),)
    scales = Fixed(1.0).scales()
    assert notes_on_fit(problem, scales, RefinedGaussian(q, np.ones(1), is_settled=True)) == ()
    end = RefinedGaussian(q, np.ones(1), is_settled=False)
    assert notes_on_fit(problem, scales, end) == (Note("polishing_unsettled"),)


def test_a_learned_epsilon_is_told_with_its_range():
    scales, q = Learned().scales(), full_rank(1, jnp.float64)
    even = RefinedGaussian(
        q, np.exp(scales.log_weights), is_settled=True
    )  # as if data told nothing
    (note,) = notes_on_fit(diffusivity_problem(25), scales, even)
    assert note.code == "epsilon_range"
    assert note.values["low"] < 0.1
    assert note.values["high"] > 10

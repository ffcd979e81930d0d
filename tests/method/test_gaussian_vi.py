"""The nearest normal distribution: known posteriors, and its own conditions by quadrature."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.linear_gaussian import known_posterior, linear_problem
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.errors import EngineError
from riesz.fem.linear.linear_solve import Dense
from riesz.method import gaussian_vi
from riesz.method.gaussian_vi import DrawDerivatives, FitState, step, with_curvature
from riesz.notes import Note
from riesz.posterior.family import PriorUpdate
from riesz.posterior.posterior import ExactStates

SMALL = pair("gaussian-vi", num_draws=4, num_curved=2, linear_solver=Dense())
"""Curvature at fewer draws than there are directions, which are three."""


@pytest.fixture(scope="module")
def linear():
    return SMALL.run(linear_problem(), seed=1)


def test_a_normal_posterior_is_found(linear):
    """Pairs of draws on both sides of the mean leave nothing to chance."""
    mean, covariance = known_posterior()
    gap = (np.asarray(linear.coordinate_mean()) - mean) / np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(gap, 0.0, atol=1e-8)
    np.testing.assert_allclose(linear.coordinate_covariance(), covariance, rtol=1e-8)
    assert linear.notes == ()


def test_of_a_normal_posterior_the_bound_is_the_evidence(linear):
    """Prior times likelihood over posterior, anywhere."""
    mean, covariance = map(jnp.asarray, known_posterior())
    joint = linear_problem().log_prob(mean)
    evidence = joint + 1.5 * jnp.log(2 * jnp.pi) + 0.5 * jnp.linalg.slogdet(covariance)[1]
    assert linear.history["bound"][-1] == pytest.approx(float(evidence), abs=1e-6)


def test_a_fit_that_is_stopped_after_each_step_goes_on_to_the_same_q(linear, tmp_path):
    again, stops = stopped_and_resumed(
        lambda checkpoint: SMALL.run(linear_problem(), seed=1, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops > 3
    check_same(again, linear)


def sources(num_terms, cells):
    """As many unknowns in a source, linear; forty sensors."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.05, 0.95, (40, 2))
    return rz.inverse_problem(
        rz.rectangle((cells, cells)),
        rz.diffusion(1.0) - rz.source("f"),
        latents={"f": rz.KarhunenLoeve(rz.Matern32(length_scale=0.1), num_terms=num_terms)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, 3e-3 * rng.normal(size=40)),
        likelihood=rz.Gaussian(3e-4),
    )


@pytest.mark.parametrize(
    ("size", "cells"),
    [
        pytest.param(270, 16, marks=pytest.mark.slow),
        pytest.param(200, 16, marks=pytest.mark.slow),  # curvature in all directions
        pytest.param(300, 24, marks=pytest.mark.slow),
        pytest.param(500, 24, marks=pytest.mark.slow),
    ],
)
def test_fewer_draws_than_directions_do_not_widen_q(size, cells):
    problem = sources(size, cells)
    posterior = pair("gaussian-vi", num_draws=4, num_curved=2).run(problem, seed=0)
    places = jnp.concatenate([jnp.zeros((1, size)), jnp.eye(size)])
    states = ExactStates().from_outside(problem, jr.key(0), places, jax.vmap(problem.z)(places))
    predicted = problem.operator.to_scipy() @ np.asarray(states).T
    responses = predicted[:, 1:] - predicted[:, :1]
    exact = np.linalg.inv(np.eye(size) + responses.T @ responses / 9e-8)
    found = np.asarray(posterior.coordinate_covariance())
    seen = [np.sqrt(np.diag(responses @ one @ responses.T)) for one in (found, exact)]
    np.testing.assert_allclose(seen[0] / seen[1], 1.0, atol=0.05)
    np.testing.assert_allclose(np.diag(found) / np.diag(exact), 1.0, atol=0.05)
    mean = exact @ responses.T @ (np.asarray(problem.observed) - predicted[:, 0]) / 9e-8
    gap = (np.asarray(posterior.coordinate_mean()) - mean) / np.sqrt(np.diag(exact))
    assert abs(gap).max() < 0.05


LOG_SD, NOISE = 0.7, 0.03


@pytest.fixture(scope="module")
def skewed():
    """A diffusivity of which one sensor tells little: its values there are c / a."""
    return rz.inverse_problem(
        rz.rectangle((4, 4)),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": dist.LogNormal(0.0, LOG_SD)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations([[0.5, 0.5]], [0.05]),
        likelihood=rz.Gaussian(NOISE),
    )


@pytest.mark.slow  # quickly: a normal posterior is found
def test_slope_and_curvature_are_met_on_the_average_over_q(skewed):
    """By quadrature, with the state known in closed form; at the mode they are not."""
    problem = skewed
    found = pair("gaussian-vi", linear_solver=Dense(), tolerance=0.02).run(problem, seed=3)
    at_one = float((problem.operator @ problem.state(jnp.zeros(1)))[0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()

    def averages(mean, sd):
        place = mean + sd * nodes
        predicted = at_one * np.exp(-LOG_SD * place)
        slope = place - LOG_SD * predicted * (predicted - 0.05) / NOISE**2
        return weights @ slope * sd, sd**2 * (1 + weights @ (LOG_SD * predicted / NOISE) ** 2)

    mean, sd = float(found.coordinate_mean()[0]), float(found.distribution.variances()[0] ** 0.5)
    pull, precision = averages(mean, sd)
    assert abs(pull) < 0.06
    assert abs(precision - 1) < 0.12
    mode = np.linspace(-2, 2, 4001)
    cost = mode**2 / 2 + (at_one * np.exp(-LOG_SD * mode) - 0.05) ** 2 / (2 * NOISE**2)
    pull, _ = averages(mode[np.argmin(cost)], sd)
    assert abs(pull) > 0.2


@pytest.mark.slow
def test_a_fit_that_ends_too_early_is_told(skewed):
    (note,) = pair("gaussian-vi", linear_solver=Dense(), max_steps=1).run(skewed, seed=3).notes
    assert (note.code, note.values["steps"]) == ("variational_unconverged", 1)


@pytest.mark.slow
def test_draws_without_a_solution_are_told_or_refused(skewed, monkeypatch):
    place_at, number = gaussian_vi.linearize_at, iter(range(1000))
    share = 0.1

    def failing(*arguments):
        place = place_at(*arguments)
        fails = next(number) % 128 >= 128 - share * 128
        return dataclasses.replace(place, cost=jnp.nan * place.cost) if fails else place

    monkeypatch.setattr(gaussian_vi, "linearize_at", failing)
    monkeypatch.setattr(gaussian_vi.os, "cpu_count", lambda: 1)
    engine = pair("gaussian-vi", linear_solver=Dense(), max_steps=2)
    assert engine.run(skewed).notes[-1] == Note("variational_no_solution", lost=24, total=256)
    share = 1.0
    with pytest.raises(EngineError, match="128 of 128 draws of q the equation has no solution"):
        engine.run(skewed)


@pytest.mark.slow
def test_directions_that_data_tell_of_are_found_step_by_step():
    """A power iteration, one application a step, from a basis that knows none of them."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    values = np.r_[100.0, 30.0, 4.0, np.full(37, 1e-3)]
    matrix = axes * values @ axes.T
    basis = jnp.asarray(np.linalg.qr(rng.normal(size=(40, 6)))[0].T)
    family = PriorUpdate(jnp.zeros(40), basis.T, jnp.zeros(6))
    for _ in range(12):
        family, basis = with_curvature(family, basis, np.asarray(basis) @ matrix, 0.5)
    exact = np.linalg.inv(np.eye(40) + matrix)
    np.testing.assert_allclose(family.covariance(), exact, atol=2e-3)


def test_steps_are_averaged_over_once_they_are_made_by_chance():
    """Noisy slopes of a normal posterior: the error of the mean falls like that of an average."""
    rng = np.random.default_rng(0)
    basis = jnp.eye(3)
    start = PriorUpdate(jnp.full(3, 4.0), basis, jnp.full(3, 3.0))
    state = FitState(start, basis, 0.0, 0.0, 0, 0, ())
    for _ in range(60):
        exact = 4 * np.asarray(state.family.mean)
        slopes = exact + 2 * rng.normal(size=(8, 3))
        state = step(state, DrawDerivatives(slopes, np.stack([3 * np.eye(3)] * 2), 0.0, 0), 0.05)
    error = 2 * np.asarray(state.family.mean)  # in standard deviations, which are a half
    assert state.num_averaged > 50
    told = state.curves[-1]["mean_error"]
    assert told == pytest.approx(1 / np.sqrt(8 * (state.num_averaged + 1)), rel=0.3)
    assert abs(error).max() < 4 * told

"""Coordinates that make a posterior round, and how draws and gradients refine them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.method.mcmc.metric import Metric, geometric_mean, metric_about, refine_metric

RNG = np.random.default_rng(0)


def covariance(size, seed=1):
    rows = np.random.default_rng(seed).normal(size=(2 * size, size))
    return rows.T @ rows / (2 * size) + 0.1 * np.eye(size)


@pytest.fixture(scope="module")
def metric():
    """Five coordinates, three of whose directions are reshaped."""
    directions = np.linalg.qr(RNG.normal(size=(5, 3)))[0]
    factor = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
    given = (RNG.normal(size=5), directions, factor, np.linalg.inv(factor))
    return Metric(*map(jnp.asarray, given))


def test_round_coordinates_lead_to_their_place_and_back(metric):
    place = jnp.asarray(RNG.normal(size=5))
    np.testing.assert_allclose(metric.unwhiten(metric.whiten(place)), place, rtol=1e-12)


def test_its_slope_is_that_of_the_density_by_round_coordinates(metric):
    def density(place):
        return jnp.sum(jnp.sin(place) * jnp.arange(1.0, 6.0))

    rounded = jnp.asarray(RNG.normal(size=5))
    expected = jax.grad(lambda own: density(metric.unwhiten(own)))(rounded)
    found = metric.whitened_gradient(jax.grad(density)(metric.unwhiten(rounded)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_its_density_is_that_of_the_normal_distribution_it_stands_for(metric):
    root = np.asarray(jax.vmap(metric.deviation)(jnp.eye(5))).T
    place = RNG.normal(size=5)
    white = np.linalg.solve(root, place - np.asarray(metric.centre))
    expected = -0.5 * white @ white - np.linalg.slogdet(root)[1]
    np.testing.assert_allclose(metric.log_density(jnp.asarray(place)), expected, rtol=1e-10)


def test_the_geometric_mean_of_covariances_lies_between_them():
    one, other = covariance(4, 1), covariance(4, 2)
    middle = geometric_mean(one, other)
    np.testing.assert_allclose(middle @ np.linalg.solve(one, middle), other, rtol=1e-8)
    np.testing.assert_allclose(middle, geometric_mean(other, one), rtol=1e-8)
    np.testing.assert_allclose(geometric_mean(one, one), one, rtol=1e-8)


def test_a_normal_posterior_is_met_exactly_from_few_draws():
    """With gradients the scatter of draws cancels; without, thirty of them would be off by 20 %."""
    size, count = 6, 4000
    own, mean = covariance(size), RNG.normal(size=size)
    start = metric_about(jnp.zeros(size), jnp.eye(size), jnp.zeros(size))
    errors = []
    for number in (30, count):
        draws = mean + RNG.normal(size=(number, size)) @ np.linalg.cholesky(own).T
        slopes = -(draws - mean) @ np.linalg.inv(own)
        metric = start
        for _ in range(20):  # each time the metric before counts for six draws
            metric = refine_metric(metric, draws, slopes)
        found = np.asarray(metric.factor @ metric.factor.T)
        errors.append(np.abs(found - own).max())
        np.testing.assert_allclose(metric.centre, mean, atol=1e-6)
    assert max(errors) < 1e-6, errors


def test_without_draws_to_speak_of_the_metric_stays():
    start = metric_about(jnp.zeros(40), jnp.eye(40), jnp.full(40, 3.0))
    draws = 0.5 * RNG.normal(size=(2, 40))
    found = refine_metric(start, draws, -4 * draws)
    widths = np.linalg.eigvalsh(np.asarray(found.factor @ found.factor.T))
    assert (abs(widths / 0.25 - 1) < 0.15).all()

"""Pareto-smoothed weights: the shape of a known tail, and averages that do not run away."""

import numpy as np
import pytest

from riesz.posterior.importance import pareto_fit, pareto_quantiles, smoothed_weights


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.5, 1.0])
def test_the_fit_finds_the_shape_and_scale_that_values_were_drawn_with(shape):
    draws = np.random.default_rng(0).uniform(size=20_000)
    found = pareto_fit(np.sort(pareto_quantiles(draws, shape, 2.0)))
    np.testing.assert_allclose(found, (shape, 2.0), atol=0.05)


def test_quantiles_of_shape_zero_are_those_of_the_exponential_distribution():
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(pareto_quantiles(levels, 0.0, 3.0), -3 * np.log(1 - levels))
    np.testing.assert_allclose(
        pareto_quantiles(levels, 1e-9, 3.0), pareto_quantiles(levels, 0.0, 3.0), rtol=1e-6
    )


@pytest.mark.parametrize("ratio", [0.5, 0.8])
def test_k_hat_of_a_narrow_gaussian_is_the_known_one(ratio):
    """Weights of a Gaussian too narrow by a ratio have a tail of shape 1 - ratio^2."""
    rng = np.random.default_rng(1)
    draws = ratio * rng.normal(size=(200_000, 2))
    squares = np.sum(draws**2, axis=1)
    logs = -0.5 * squares + 0.5 * squares / ratio**2
    assert smoothed_weights(logs).k_hat == pytest.approx(1 - ratio**2, abs=0.06)


def test_equal_weights_stay_equal():
    found = smoothed_weights(np.full(1000, -700.0))
    np.testing.assert_allclose(found.weights, 1e-3)
    assert found.effective_draws == pytest.approx(1000)
    assert found.k_hat == 0.0


def test_weights_that_are_all_but_equal_have_no_tail():
    """Cubes of normals have a heavy tail, which does no harm as long as they hardly count."""
    cubes = np.random.default_rng(3).normal(size=1000) ** 3
    assert smoothed_weights(0.01 * cubes).k_hat == 0.0
    assert smoothed_weights(cubes).k_hat > 0.7


def test_weights_sum_to_one_and_the_largest_is_cut():
    logs = np.zeros(1000)
    logs[:40] = np.linspace(0.1, 12.0, 40)
    found = smoothed_weights(logs)
    raw = np.exp(logs) / np.exp(logs).sum()
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.weights.max() < raw.max()
    assert found.k_hat > 0.7


@pytest.mark.parametrize("spread", [1e2, 1e3, 1e4])
def test_weights_of_any_contrast_have_a_tail_that_is_told(spread):
    """Hundreds of orders of magnitude apart, they overflow: no warning, and never NaN."""
    for seed in range(20):
        logs = spread * np.random.default_rng(seed).normal(size=1000)
        found = smoothed_weights(logs)
        assert found.k_hat > 0.7
        np.testing.assert_allclose(found.weights.sum(), 1)


def test_draws_that_are_impossible_have_no_weight():
    logs = np.random.default_rng(2).normal(size=1000)
    logs[::2] = -np.inf
    found = smoothed_weights(logs)
    assert found.weights[::2].max() == 0.0
    assert np.isfinite(found.k_hat)

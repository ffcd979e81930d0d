"""Normal data and linear unknowns: both ways to the same numbers, and each against NumPy's own."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from riesz.density.marginal.systems import DataSpace, ParameterSpace

RNG = np.random.default_rng(0)
RESPONSES = RNG.normal(size=(9, 4))
MISFIT = RNG.normal(size=9)
NOISE = RNG.uniform(0.2, 0.5, 9)
COVARIANCE = RESPONSES @ RESPONSES.T + np.diag(NOISE**2)
GAIN = np.linalg.solve(COVARIANCE, RESPONSES).T


def in_units_of_noise(form):
    """As programs have it, where noise may be shared."""
    responses, misfit = RESPONSES / NOISE[:, None], MISFIT / NOISE
    return form(*map(jnp.asarray, (responses, misfit, np.ones(9), np.log(NOISE).sum())))


@pytest.mark.parametrize("form", [DataSpace, ParameterSpace])
def test_on_the_host_both_forms_are_the_normal_distribution(form):
    system = form(RESPONSES, MISFIT, NOISE)
    expected = scipy.stats.multivariate_normal(np.zeros(9), COVARIANCE).logpdf(MISFIT)
    np.testing.assert_allclose(system.log_likelihood(), expected, rtol=1e-12)
    precision = np.linalg.inv(COVARIANCE)
    np.testing.assert_allclose(system.weights, precision @ MISFIT, rtol=1e-9)
    np.testing.assert_allclose(system.precise(RESPONSES), precision @ RESPONSES, atol=1e-10)
    np.testing.assert_allclose(system.own_precisions, np.diag(precision), rtol=1e-9)
    draws = system.draws(np.random.default_rng(1).standard_normal, 20_000)
    np.testing.assert_allclose(draws.mean(axis=0), GAIN @ MISFIT, atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), np.eye(4) - GAIN @ RESPONSES, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("form", [DataSpace, ParameterSpace])
def test_in_programs_both_forms_are_the_normal_distribution(form):
    system, points = in_units_of_noise(form), RNG.normal(size=(3, 4))
    expected = scipy.stats.multivariate_normal(np.zeros(9), COVARIANCE).logpdf(MISFIT)
    np.testing.assert_allclose(system.log_likelihood(), expected, rtol=1e-12)
    np.testing.assert_allclose(system.mean, GAIN @ MISFIT, rtol=1e-9)
    left = np.eye(4) - GAIN @ RESPONSES
    np.testing.assert_allclose(
        system.variances(jnp.asarray(points)), np.diag(points @ left @ points.T), rtol=1e-9
    )
    draws = system.on_host().draws(np.random.default_rng(1).standard_normal, 20_000)
    np.testing.assert_allclose(draws.mean(axis=0), GAIN @ MISFIT, atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), left, atol=0.01)


def test_with_fewer_unknowns_than_data_noise_may_be_tiny():
    tiny = np.full(9, 1e-8)
    data = RESPONSES @ np.ones(4) + tiny * RNG.normal(size=9)
    system = ParameterSpace(RESPONSES, data, tiny)
    np.testing.assert_allclose(system.mean, np.ones(4), atol=1e-7)
    # Nine data less four unknowns that were fitted, and four unknowns of size one.
    assert 4 < system.square < 4 + 25
    with pytest.raises(np.linalg.LinAlgError):
        DataSpace(RESPONSES, data, tiny).log_likelihood()

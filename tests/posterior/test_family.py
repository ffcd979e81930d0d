"""Variational families against closed forms."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from riesz.posterior.family import FullRank, MeanField, antithetic, full_rank

DIM = 4


def numbers(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


MEAN, LOG_SD = numbers(0, DIM), 0.5 * numbers(1, DIM)
BELOW = numbers(2, DIM, DIM)
SD = np.diag(np.exp(LOG_SD))
LOWER = np.tril(BELOW, -1) + SD
GAUSSIANS = {
    "mean field": (MeanField(MEAN, LOG_SD), SD**2),
    "full rank": (FullRank(MEAN, LOG_SD, BELOW), LOWER @ LOWER.T),
}
gaussians = pytest.mark.parametrize(
    ("family", "covariance"), GAUSSIANS.values(), ids=GAUSSIANS.keys()
)


@gaussians
def test_draws_have_the_mean_and_the_covariance(family, covariance):
    """Exactly: draws are affine in the normals, so their moments follow from the map."""
    normals = jnp.concatenate([jnp.zeros((1, DIM)), jnp.eye(DIM)])
    draws = family.transform(normals)
    np.testing.assert_allclose(draws[0], MEAN)
    rows = draws[1:] - draws[:1]
    np.testing.assert_allclose(rows.T @ rows, covariance, atol=1e-12)
    np.testing.assert_allclose(family.covariance(), covariance, atol=1e-12)


@gaussians
def test_the_density_is_that_of_scipy(family, covariance):
    place = numbers(4, DIM)
    expected = stats.multivariate_normal(MEAN, covariance).logpdf(place)
    np.testing.assert_allclose(family.log_prob(place), expected)


@gaussians
def test_the_divergence_from_the_prior_is_the_closed_form(family, covariance):
    log_det = np.linalg.slogdet(covariance)[1]
    expected = 0.5 * (np.trace(covariance) + MEAN @ MEAN - DIM - log_det)
    np.testing.assert_allclose(family.kl_to_prior(), expected)


def test_a_family_starts_at_the_prior_in_its_precision():
    dtype = jnp.float32
    family, normals = full_rank(3, dtype), numbers(5, 6, 3).astype(dtype)
    draws, density = family.transform(normals), family.log_prob(normals[0])
    np.testing.assert_allclose(draws, normals, rtol=1e-5)
    np.testing.assert_allclose(family.kl_to_prior(), 0.0, atol=1e-5)
    assert draws.dtype == family.dtype == density.dtype == dtype


def test_antithetic_draws_have_mean_zero():
    np.testing.assert_allclose(antithetic(jr.key(0), 8, 3, float).mean(axis=0), 0.0, atol=1e-16)
    assert antithetic(jr.key(0), 5, 3, float).shape == (5, 3)

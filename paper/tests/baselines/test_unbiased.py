"""The restricted likelihood, and its derivative in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from riesz_paper.baselines.kriging.unbiased import restricted_cost

RNG = np.random.default_rng(0)
TREND = np.stack([np.ones(12), RNG.normal(size=12)], axis=1)
VALUES = RNG.normal(size=12)
ROOT = RNG.normal(size=(12, 12))
COVARIANCE = ROOT @ ROOT.T + np.eye(12)


def cost(covariance):
    return restricted_cost(covariance, jnp.asarray(TREND), jnp.asarray(VALUES))


def test_it_is_the_likelihood_of_contrasts_that_no_mean_changes():
    """Up to a constant: differences between two covariances are compared."""
    contrasts = np.linalg.svd(TREND)[0][:, 2:].T

    def of_contrasts(covariance):
        seen = scipy.stats.multivariate_normal(cov=contrasts @ covariance @ contrasts.T)
        return -seen.logpdf(contrasts @ VALUES)

    found = cost(jnp.asarray(COVARIANCE)) - cost(jnp.eye(12))
    np.testing.assert_allclose(found, of_contrasts(COVARIANCE) - of_contrasts(np.eye(12)))


def test_its_derivative_is_that_of_finite_differences():
    direction = RNG.normal(size=(12, 12))
    direction = direction + direction.T
    slope = jnp.sum(jax.grad(cost)(jnp.asarray(COVARIANCE)) * direction)
    step = 1e-5
    ahead, behind = (cost(jnp.asarray(COVARIANCE + s * direction)) for s in (step, -step))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6)

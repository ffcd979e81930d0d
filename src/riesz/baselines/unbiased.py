r"""Best linear unbiased prediction: Gaussian values around means that are unknown constants.

Values are $y = H\beta + e$ with $e \sim N(0, K)$; nothing is known of $\beta$. Predictions are
linear in $y$, unbiased for every $\beta$ and of least variance: the equations of kriging, solved by
generalised least squares. Source: Cressie (1993), Statistics for Spatial Data, section 3.4.
"""

from functools import partial

import jax.numpy as jnp
import jax.scipy as jsp
from jaxtyping import Array, Float

Covariance = Float[Array, "row row"]
Trend = Float[Array, "row mean"]
Rows = Float[Array, " row"]


def best_unbiased(
    covariance: Covariance,
    trend: Trend,
    values: Rows,
    cross: Float[Array, "row place"],
    trend_at: Float[Array, "place mean"],
    variances: Float[Array, " place"],
) -> tuple[Float[Array, " place"], Float[Array, " place"]]:
    """Mean and variance at places, given covariances with them and variances there."""
    whiten = partial(jsp.linalg.solve_triangular, jnp.linalg.cholesky(covariance), lower=True)
    white_trend, white_values, white_cross = whiten(trend), whiten(values), whiten(cross)
    information = jsp.linalg.cho_factor(white_trend.T @ white_trend)
    means = jsp.linalg.cho_solve(information, white_trend.T @ white_values)
    mean = trend_at @ means + white_cross.T @ (white_values - white_trend @ means)
    unexplained = trend_at.T - white_trend.T @ white_cross
    of_means = jnp.sum(unexplained * jsp.linalg.cho_solve(information, unexplained), axis=0)
    return mean, variances - jnp.sum(white_cross**2, axis=0) + of_means


def restricted_cost(covariance: Covariance, trend: Trend, values: Rows) -> Float[Array, ""]:
    """The negative log of the likelihood with all means integrated out, up to a constant."""
    factor = jnp.linalg.cholesky(covariance)
    whiten = partial(jsp.linalg.solve_triangular, factor, lower=True)
    white_trend, white_values = whiten(trend), whiten(values)
    information = jnp.linalg.cholesky(white_trend.T @ white_trend)
    of_means = jsp.linalg.solve_triangular(information, white_trend.T @ white_values, lower=True)
    misfit = white_values @ white_values - of_means @ of_means
    logs = jnp.sum(jnp.log(jnp.diag(factor))) + jnp.sum(jnp.log(jnp.diag(information)))
    return 0.5 * misfit + logs

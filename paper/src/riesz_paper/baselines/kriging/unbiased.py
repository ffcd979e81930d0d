r"""Best linear unbiased prediction: Gaussian values around means that are unknown constants.

Values are $y = H\beta + e$ with $e \sim N(0, K)$; nothing is known of $\beta$. Predictions are
linear in $y$, unbiased for every $\beta$ and of least variance: the equations of kriging, solved by
generalised least squares. Source: Cressie (1993), Statistics for Spatial Data, section 3.4.
"""

from functools import partial

import jax
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


@jax.custom_vjp
def restricted_cost(covariance: Covariance, trend: Trend, values: Rows) -> Float[Array, ""]:
    r"""The negative log of the likelihood with all means integrated out, up to a constant.

    $\frac12(\log|K| + \log|H^\top K^{-1}H| + y^\top P y)$, where $P$ is $K^{-1}$ less what means
    explain. Its derivative by $K$ is $\frac12(P - P y y^\top P)$, which costs half of what
    differentiating a factorisation does; trend and values are data, with no derivatives.
    """
    return cost_and_slope(covariance, trend, values)[0]


def cost_and_slope(
    covariance: Covariance, trend: Trend, values: Rows
) -> tuple[Float[Array, ""], Covariance]:
    factor = jnp.linalg.cholesky(covariance)
    inverse = jsp.linalg.cho_solve((factor, True), jnp.eye(len(values)))
    of_trend = inverse @ trend
    of_means = jnp.linalg.cholesky(trend.T @ of_trend)
    explained = of_trend @ jsp.linalg.cho_solve((of_means, True), of_trend.T)
    projection = inverse - explained
    weights = projection @ values
    logs = jnp.sum(jnp.log(jnp.diag(factor))) + jnp.sum(jnp.log(jnp.diag(of_means)))
    return 0.5 * values @ weights + logs, 0.5 * (projection - jnp.outer(weights, weights))


def backward(slope: Covariance, cotangent: Float[Array, ""]):
    return cotangent * slope, None, None


restricted_cost.defvjp(cost_and_slope, backward)

"""Values of a prior at standard normal coordinates, to the same relative accuracy in both tails.

A probability close to one cannot be told from one: the gap to it is rounded away. So what lies
beyond a coordinate on its own side, at most a half, is all that quantiles are written in.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import erfinv, ndtr, ndtri
from jaxtyping import Array, Bool, Float

Numbers = Float[Array, "..."]
Sides = Bool[Array, "..."]  # whether a coordinate is positive


@eqx.filter_jit  # so that it is traced once: programs ask for it again and again
def quantile(prior: dist.Distribution, coordinates: Numbers) -> Numbers:
    """The prior's value at given standard normal coordinates."""
    if isinstance(prior, dist.Independent | dist.ExpandedDistribution):
        return quantile(prior.base_dist, coordinates)
    if isinstance(prior, dist.Normal):
        return affine(prior, coordinates)
    if isinstance(prior, dist.LogNormal):
        return jnp.exp(affine(prior, coordinates))
    if isinstance(prior, dist.MultivariateNormal):
        mean, factor = as_dtype_of(coordinates, prior.loc, prior.scale_tril)
        moved = jnp.einsum("...ij,...j->...i", factor, coordinates)
        return jnp.broadcast_to(mean, moved.shape) + moved
    if type(prior) not in BY_TAILS:
        return by_numpyro(prior, coordinates)
    upper = coordinates > 0
    # Not ndtr(-abs(x)), whose derivative at zero, where searches start, is zero.
    beyond = jnp.where(upper, ndtr(-coordinates), ndtr(coordinates))
    beyond = jnp.maximum(beyond, jnp.finfo(coordinates.dtype).tiny)
    return BY_TAILS[type(prior)](prior, upper, beyond)


def point_between(low: Any, high: Any, upper: Sides, beyond: Numbers) -> Numbers:
    """A part `beyond` of the way from the end on its side."""
    low, high = as_dtype_of(beyond, low, high)
    return jnp.where(upper, high - (high - low) * beyond, low + (high - low) * beyond)


def uniform(prior: dist.Uniform, upper: Sides, beyond: Numbers) -> Numbers:
    return point_between(prior.low, prior.high, upper, beyond)


def log_uniform(prior: dist.LogUniform, upper: Sides, beyond: Numbers) -> Numbers:
    low, high = as_dtype_of(beyond, prior.low, prior.high)
    return jnp.exp(point_between(jnp.log(low), jnp.log(high), upper, beyond))


def exponential(prior: dist.Exponential, upper: Sides, beyond: Numbers) -> Numbers:
    (rate,) = as_dtype_of(beyond, prior.rate)
    return jnp.where(upper, -jnp.log(beyond), -jnp.log1p(-beyond)) / rate


def half_normal(prior: dist.HalfNormal, upper: Sides, beyond: Numbers) -> Numbers:
    (scale,) = as_dtype_of(beyond, prior.scale)
    return scale * jnp.where(upper, -ndtri(beyond / 2), 2**0.5 * erfinv(beyond))


def half_cauchy(prior: dist.HalfCauchy, upper: Sides, beyond: Numbers) -> Numbers:
    (scale,) = as_dtype_of(beyond, prior.scale)
    tangent = jnp.tan(jnp.pi / 2 * beyond)
    return scale * jnp.where(upper, 1 / tangent, tangent)


def symmetric(prior: Any, distance: Numbers, upper: Sides) -> Numbers:
    """So many units of its scale from the middle of a prior, on one side or the other."""
    loc, scale = as_dtype_of(distance, prior.loc, prior.scale)
    return loc + scale * jnp.where(upper, distance, -distance)


def laplace(prior: dist.Laplace, upper: Sides, beyond: Numbers) -> Numbers:
    return symmetric(prior, -jnp.log(2 * beyond), upper)


def cauchy(prior: dist.Cauchy, upper: Sides, beyond: Numbers) -> Numbers:
    return symmetric(prior, jnp.cos(jnp.pi * beyond) / jnp.sin(jnp.pi * beyond), upper)


def logistic(prior: dist.Logistic, upper: Sides, beyond: Numbers) -> Numbers:
    return symmetric(prior, jnp.log1p(-beyond) - jnp.log(beyond), upper)


BY_TAILS: dict[type, Callable[[Any, Sides, Numbers], Numbers]] = {
    dist.Uniform: uniform,
    dist.LogUniform: log_uniform,
    dist.Exponential: exponential,
    dist.HalfNormal: half_normal,
    dist.HalfCauchy: half_cauchy,
    dist.Laplace: laplace,
    dist.Cauchy: cauchy,
    dist.Logistic: logistic,
}
"""Quantiles from the probability beyond them, above or below.

Both sides are computed and one is taken, so that each must have a finite derivative.
"""


def by_numpyro(prior: dist.Distribution, coordinates: Numbers) -> Numbers:
    """By NumPyro's function of the probability, in float64 where JAX has it: to 8 sd, not 5."""
    wide = coordinates.astype(jnp.result_type(float))
    # Far out the probability rounds to 0 or 1, where the quantile may be infinite.
    rounding = jnp.finfo(wide.dtype).eps
    probability = jnp.clip(ndtr(wide), rounding, 1 - rounding)
    return prior.icdf(probability).astype(coordinates.dtype)


def affine(prior: dist.Normal | dist.LogNormal, x: Numbers) -> Numbers:
    loc, scale = as_dtype_of(x, prior.loc, prior.scale)
    return loc + scale * x


def as_dtype_of(x: Numbers, *parameters: Any) -> list[Array]:
    """Parameters of a prior in the precision of the coordinates."""
    return [jnp.asarray(parameter, x.dtype) for parameter in parameters]

r"""Any continuous distribution of NumPyro as a function of standard normal coordinates.

A number whose quantiles have no formula gets a table of them, from its density on the real line:
with the bijection $T$ to its support, $p(T(y))\,|T'(y)|$ is integrated from both ends, so that both
tails keep their relative accuracy. Transformed distributions, and so flows, are transforms of their
base; a Dirichlet distribution is made by breaking a stick (Connor & Mosimann 1969).

Quantiles have the same relative accuracy in both tails. A probability close to one cannot be told
from one: the gap to it is rounded away. So what lies beyond a coordinate on its own side, at most a
half, is all that they are written in.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.special
from jax.scipy.special import erfinv, ndtr, ndtri
from jaxtyping import Array, Bool, Float
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicHermiteSpline

from riesz.arrays import on_device
from riesz.errors import RieszError

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


FARTHEST = 9.0
"""Coordinates that a table reaches: beyond, it goes on as a straight line."""

NUM_KNOTS, NUM_PLACES = 1025, 40001
"""Of a table, and places at which the density is summed up for it."""

NUM_DRAWS = 2000
"""By which the middle of a distribution and its spread are found."""

WHOLE = 1e-4
"""By how much a density may integrate to other than one."""

LOG_SPAN = 700.0
"""Places reach from the middle to exp of this, in units of the spread: all that is a number."""


class AbstractTransport(eqx.Module):
    """A function that turns independent standard normal coordinates into draws of a prior."""

    @property
    @abstractmethod
    def num_coordinates(self) -> int:
        """How many coordinates it takes."""

    @abstractmethod
    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Numbers:
        """The value."""


class ByQuantiles(AbstractTransport):
    """A distribution whose quantiles are known; for normal ones that is an affine map."""

    distribution: dist.Distribution

    @property
    def num_coordinates(self) -> int:
        return math.prod(self.distribution.shape())

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Numbers:
        return quantile(self.distribution, coordinates.reshape(self.distribution.shape()))


class ByTable(AbstractTransport):
    r"""Independent numbers, each $T(m + s \sinh t)$ with $t$ a tabulated function of a coordinate.

    Between knots it is cubic, with the slopes that the density gives.
    """

    bijection: Any  # T
    middle: Float[Array, " number"]
    spread: Float[Array, " number"]
    values: Float[Array, "number knot"]
    slopes: Float[Array, "number knot"]
    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def num_coordinates(self) -> int:
        return math.prod(self.shape)

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Numbers:
        kept = as_dtype_of(coordinates, self.middle, self.spread, self.values, self.slopes)
        middle, spread, values, slopes = kept
        t = jax.vmap(between_knots)(coordinates, values, slopes)
        return self.bijection((middle + spread * jnp.sinh(t)).reshape(self.shape))


def between_knots(
    at: Float[Array, ""], values: Float[Array, " knot"], slopes: Float[Array, " knot"]
) -> Float[Array, ""]:
    """Cubic Hermite interpolation on equidistant knots; straight on beyond the last."""
    step = 2 * FARTHEST / (NUM_KNOTS - 1)
    inside = jnp.clip(at, -FARTHEST, FARTHEST)
    place = jnp.clip(jnp.floor((inside + FARTHEST) / step).astype(int), 0, NUM_KNOTS - 2)
    share = (inside + FARTHEST) / step - place
    low, high = values[place], values[place + 1]
    rise, fall = step * slopes[place], step * slopes[place + 1]
    bend = share * (1 - share) * ((1 - share) * (rise - high + low) - share * (fall - high + low))
    beyond = (at - inside) * jnp.where(at > 0, slopes[-1], slopes[0])
    return low + share * (high - low) + bend + beyond


class Pushed(AbstractTransport):
    """A transport, and transforms after it."""

    base: AbstractTransport
    transforms: tuple[Any, ...]

    @property
    def num_coordinates(self) -> int:
        return self.base.num_coordinates

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Numbers:
        value = self.base(coordinates)
        for transform in self.transforms:
            value = transform(value)
        return value.astype(coordinates.dtype)


class Broken(AbstractTransport):
    """Shares that sum to one, piece by piece of what is left of a stick."""

    pieces: AbstractTransport

    @property
    def num_coordinates(self) -> int:
        return self.pieces.num_coordinates

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Numbers:
        parts = self.pieces(coordinates)
        left = jnp.cumprod(1 - parts, axis=-1)
        one = jnp.ones_like(left[..., :1])
        return jnp.concatenate([parts, one], -1) * jnp.concatenate([one, left], -1)


class Stretched(AbstractTransport):
    """A multivariate Student distribution: a normal one over the root of one more number."""

    normal: AbstractTransport
    precision: AbstractTransport
    centre: Numbers

    @property
    def num_coordinates(self) -> int:
        return self.normal.num_coordinates + self.precision.num_coordinates

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Numbers:
        own, rest = jnp.split(coordinates, [self.normal.num_coordinates])
        (centre,) = as_dtype_of(coordinates, self.centre)
        return centre + (self.normal(own) - centre) * self.precision(rest)[..., None] ** -0.5


def transport(prior: dist.Distribution, name: str) -> AbstractTransport:
    """Of coordinates to a prior, found to be one."""
    inner = plain(prior)
    if isinstance(inner, dist.TransformedDistribution) and not has_quantiles(inner):
        base = inner.base_dist
        base = base.expand((*repeats(prior, inner), *base.batch_shape))
        return Pushed(transport(base, name), tuple(inner.transforms))
    if isinstance(inner, dist.Dirichlet):
        shares = jnp.broadcast_to(inner.concentration, prior.shape())
        rest = jnp.flip(jnp.cumsum(jnp.flip(shares, -1), -1), -1)
        return Broken(by_table(dist.Beta(shares[..., :-1], rest[..., 1:]), name))
    if isinstance(inner, dist.MultivariateStudentT):
        centre = jnp.broadcast_to(jnp.asarray(inner.loc), prior.shape())
        half = jnp.broadcast_to(jnp.asarray(inner.df), centre.shape[:-1]) / 2
        normal = dist.MultivariateNormal(centre, scale_tril=inner.scale_tril)
        return Stretched(ByQuantiles(normal), by_table(dist.Gamma(half, half), name), centre)
    if has_quantiles(inner):
        return ByQuantiles(prior)
    if inner.event_shape:
        raise RieszError(
            f"the prior of {name!r} is a {type(inner).__name__}, over {inner.event_shape} numbers "
            "together, which nothing here turns normal numbers into: write it as "
            "numpyro.distributions.TransformedDistribution(base, transforms) of normal ones."
        )
    return by_table(inner.expand((*repeats(prior, inner), *inner.batch_shape)), name)


def plain(prior: dist.Distribution) -> dist.Distribution:
    """Without what only says how often it is repeated, or which axes belong together."""
    while isinstance(prior, dist.Independent | dist.ExpandedDistribution):
        prior = prior.base_dist
    return prior


def repeats(prior: dist.Distribution, inner: dist.Distribution) -> tuple[int, ...]:
    """The axes that a distribution has before those of the one in it."""
    whole, own = prior.shape(), inner.shape()
    return tuple(whole[: len(whole) - len(own)])


def has_quantiles(prior: dist.Distribution) -> bool:
    """Whether values at coordinates can be traced; of some, NumPyro asks for another package."""
    zeros = jnp.zeros(prior.shape())
    try:
        return jax.eval_shape(lambda at: quantile(prior, at), zeros).shape == zeros.shape
    except (NotImplementedError, ImportError, AttributeError, TypeError):
        return False


def by_table(prior: dist.Distribution, name: str) -> ByTable:
    """Of a number, or of independent ones, by their density."""
    shape = tuple(prior.batch_shape)
    try:
        bijection = dist.biject_to(prior.support)
    except NotImplementedError:
        raise RieszError(
            f"the prior of {name!r} is a {type(prior).__name__} on {prior.support}, from which "
            "NumPyro has no bijection to the real line: register one by "
            "numpyro.distributions.biject_to.register, or give another prior."
        ) from None
    # Distributions do not keep to one rank among themselves.
    with jax.numpy_rank_promotion("allow"):
        draws = bijection.inv(prior.sample(jax.random.key(0), (NUM_DRAWS,)))
    draws = np.asarray(draws).reshape(NUM_DRAWS, -1)
    low, middle, high = np.quantile(draws, (0.1, 0.5, 0.9), axis=0)
    spread = np.maximum((high - low) / 2, 1e-12 * (1 + np.abs(middle)))

    @jax.jit
    def log_density(t: Numbers) -> Numbers:
        y = middle.reshape(shape) + spread.reshape(shape) * jnp.sinh(t)
        x = bijection(y)
        slope = bijection.log_abs_det_jacobian(y, x) + jnp.log(spread.reshape(shape))
        log_cosh = jnp.logaddexp(t, -t) - jnp.log(2.0)
        return prior.log_prob(x) + slope + log_cosh

    places = np.linspace(-1.0, 1.0, NUM_PLACES)
    # Dense in the middle, and out to where nothing is left.
    grid = 20 * places + LOG_SPAN * places**3
    wide = np.broadcast_to(grid.reshape(-1, *(1,) * len(shape)), (NUM_PLACES, *shape))
    with jax.numpy_rank_promotion("allow"):
        logs = np.asarray(log_density(on_device(wide))).reshape(NUM_PLACES, -1).T
    tables = [table_of(grid, own, name) for own in np.where(np.isnan(logs), -np.inf, logs)]
    values, slopes = (on_device(np.stack(part)) for part in zip(*tables, strict=True))
    return ByTable(bijection, on_device(middle), on_device(spread), values, slopes, shape)


def table_of(
    grid: Float[np.ndarray, " place"], logs: Float[np.ndarray, " place"], name: str
) -> tuple[Float[np.ndarray, " knot"], Float[np.ndarray, " knot"]]:
    """Places at equidistant normal coordinates, and slopes there, for a log-density at places."""
    density = np.exp(np.minimum(logs, LOG_SPAN))
    below = cumulative_simpson(density, x=grid, initial=0.0)
    whole = below[-1]
    if not abs(whole - 1) < WHOLE:
        raise RieszError(
            f"the density of the prior of {name!r} integrates to {whole:.6g}, not to one: check "
            "its log_prob and its support, or spread out peaks that are next to nothing wide."
        )
    above = cumulative_simpson(density[::-1], x=-grid[::-1], initial=0.0)[::-1]
    half = np.searchsorted(below, whole / 2)
    tails = np.append(below[:half], above[half:]) / whole
    known = np.flatnonzero((tails > np.finfo(float).tiny) & np.isfinite(logs))
    coordinates = np.where(known < half, 1, -1) * scipy.special.ndtri(tails[known])
    rising = np.diff(np.maximum.accumulate(coordinates), prepend=-np.inf) > 0
    known, coordinates = known[rising], coordinates[rising]
    slopes = np.exp(-0.5 * (coordinates**2 + np.log(2 * np.pi)) - logs[known])
    curve = CubicHermiteSpline(coordinates, grid[known], slopes, extrapolate=False)
    reach = np.clip(np.linspace(-FARTHEST, FARTHEST, NUM_KNOTS), *coordinates[[0, -1]])
    return curve(reach), curve(reach, 1)

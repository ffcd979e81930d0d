"""Numbers and vectors with a prior from NumPyro."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.latent.latent import AbstractLatent, value_of


class Parametric(AbstractLatent):
    """A number or vector: each entry is the quantile of a normal coordinate's probability.

    For normal and log-normal priors that is the plain affine map (and its exponential), without
    the rounding of the tails.
    """

    distribution: dist.Distribution

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.distribution.batch_shape) + tuple(self.distribution.event_shape)

    @property
    def num_coordinates(self) -> int:
        return math.prod(self.shape)

    def value(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, "..."]:
        return quantile(self.distribution, coordinates.reshape(self.shape))

    def where_all_are(self, place: float) -> Float[Array, "..."]:
        """The value where every coordinate is the same."""
        return value_of(self, jnp.asarray(np.full(self.num_coordinates, place)))

    def describe(self) -> str:
        low, middle, high = (self.where_all_are(place) for place in (-1.96, 0.0, 1.96))
        return f"{kind_of(self.distribution)}, 95 % within {spoken(low)} .. {spoken(high)}, " + (
            f"median {spoken(middle)}"
        )


def quantile(prior: dist.Distribution, coordinates: Float[Array, "..."]) -> Float[Array, "..."]:
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
    # Far out the probability rounds to 0 or 1, where the quantile may be infinite.
    rounding = jnp.finfo(coordinates.dtype).eps
    probability = jnp.clip(ndtr(coordinates), rounding, 1 - rounding)
    return prior.icdf(probability).astype(coordinates.dtype)


def affine(prior: dist.Normal | dist.LogNormal, x: Float[Array, "..."]) -> Float[Array, "..."]:
    loc, scale = as_dtype_of(x, prior.loc, prior.scale)
    return loc + scale * x


def as_dtype_of(x: Float[Array, "..."], *parameters: Any) -> list[Array]:
    """Parameters of a prior in the precision of the coordinates."""
    return [jnp.asarray(parameter, x.dtype) for parameter in parameters]


def parametric(prior: dist.Distribution, name: str) -> Parametric:
    """The unknown for a NumPyro distribution, found to be usable."""
    if prior.is_discrete:
        raise RieszError(
            f"the prior of {name!r} is a {kind_of(prior)}, over whole numbers: unknowns must be "
            "able to move a little, so give a continuous one."
        )
    latent = Parametric(prior)
    if math.prod(latent.shape) == 0:
        raise RieszError(f"the prior of {name!r} has shape {latent.shape}: it holds no number.")
    try:
        shape = jax.eval_shape(latent.value, jnp.zeros(latent.num_coordinates)).shape
    except (NotImplementedError, ImportError, AttributeError):
        raise RieszError(
            f"the prior of {name!r} is a {kind_of(prior)}, whose quantiles NumPyro cannot give: "
            "use Normal, LogNormal, HalfNormal, Uniform, LogUniform, Exponential, Laplace, Cauchy, "
            "TruncatedNormal or MultivariateNormal."
        ) from None
    if shape != latent.shape:
        raise RieszError(f"the prior of {name!r} gives shape {shape}, not {latent.shape}.")
    middle = latent.where_all_are(0.0)
    if not np.isfinite(middle).all():
        raise RieszError(f"the prior of {name!r} has the median {middle}: check its parameters.")
    if kind_of(prior) != "MultivariateNormal":
        low, high = (latent.where_all_are(place) for place in (-1.0, 1.0))
        if not np.all(np.asarray(low) < np.asarray(high)):
            raise RieszError(
                f"the prior of {name!r} goes from {spoken(low)} to {spoken(high)} within a "
                "standard deviation: its parameters are reversed, or leave it no room."
            )
    return latent


def kind_of(prior: dist.Distribution) -> str:
    if isinstance(prior, dist.Independent | dist.ExpandedDistribution):
        return kind_of(prior.base_dist)
    return type(prior).__name__


def spoken(values: Float[Array, "..."]) -> str:
    if values.ndim == 0:
        return f"{float(values):.4g}"
    return "(" + ", ".join(f"{v:.4g}" for v in np.asarray(values).ravel()) + ")"

"""The paper's surrogate of the aquifer: a network of the place alone, and the noise about it."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz_paper.baselines.standard import Standard, standard_of
from riesz_paper.baselines.vae.networks import SMALLEST_SCALE, Perceptron, perceptron
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.method import Values

SIZES = (2, 32, 64, 64, 1)
"""Supplement E of Tait & Damoulas (2020): sigmoids in between, 6,433 parameters."""

Places = Float[Array, "place 2"]


class SpatialSurrogate(eqx.Module):
    r"""$\mu(x)$ and the noise $\sigma$ of $p(y) = N(\mu(x), \sigma^2)$, in standard units."""

    network: Perceptron
    raw_noise: Float[Array, ""]

    def mean(self, x: Float[Array, " 2"]) -> Float[Array, ""]:
        """The state on which equations are put."""
        return self.network(x)[0]

    @property
    def noise(self) -> Float[Array, ""]:
        return SMALLEST_SCALE + jax.nn.softplus(self.raw_noise)

    def misfit(self, places: Places, target: Float[Array, " place"]) -> Float[Array, ""]:
        """The negative log-likelihood of all measurements."""
        errors = (target - jax.vmap(self.mean)(places)) / self.noise
        return jnp.sum(0.5 * errors**2 + jnp.log(self.noise) + 0.5 * jnp.log(2 * jnp.pi))


def spatial_surrogate(key: PRNGKeyArray) -> SpatialSurrogate:
    """To start from."""
    dtype = jnp.zeros(0).dtype
    return SpatialSurrogate(perceptron(SIZES, "sigmoid", key, dtype), jnp.zeros((), dtype))


@dataclass(frozen=True)
class Units:
    """From metres and feet to standard units, and back.

    Both coordinates have one unit of length, so that diffusion stays the same in all directions.
    """

    centre: tuple[float, float]
    length: float
    values: Standard

    def places(self, points: Float[np.ndarray, "place 2"]) -> Float[np.ndarray, "place 2"]:
        return (points - np.array(self.centre)) / self.length


def units_of(training: Covariates, target: Values) -> Units:
    """Those in which training places and values have mean 0 and sd 1."""
    x, y = training.points.mean(axis=0)
    length = float(np.sqrt(training.points.var(axis=0).mean())) or 1.0
    return Units((float(x), float(y)), length, standard_of(target))

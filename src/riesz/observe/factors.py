r"""Square roots of the covariance of noise: what makes errors independent, each of sd one.

Densities that ask how large a difference between states is beside the noise, or integrate unknowns
out, need no more than $L^{-1}$ and $\log|L|$ of $\Sigma = L L^\top$. Each kind of noise has its own
way to them; matrices are made for none that can do without.
"""

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.arrays import AnyArray, beside

Columns = Float[Array, " sensor *column"]


class AbstractFactor(eqx.Module):
    r"""$L$ with $L L^\top = \Sigma$."""

    @abstractmethod
    def white(self, columns: Columns) -> Columns:
        r"""$L^{-1}$ times columns: errors in units of what noise does."""

    @abstractmethod
    def colour(self, columns: Columns) -> Columns:
        r"""$L$ times columns: of standard normal numbers, noise."""

    @abstractmethod
    def log_volume(self) -> Float[Array, ""]:
        r"""$\log|L|$."""


def conditional_errors(
    white: Float[AnyArray, "sensor sensor"], errors: Float[AnyArray, "*draw sensor"]
) -> tuple[Float[AnyArray, "*draw sensor"], Float[AnyArray, " sensor"]]:
    r"""Of errors of the noise whose $L^{-1}$ is given: what the others do not say of each, in units
    of the sd that they leave it, and this sd."""
    sd = (white**2).sum(axis=0) ** -0.5
    return (errors @ white.T) @ white * sd, sd


class Independent(AbstractFactor):
    """Each observation by itself."""

    sd: Float[Array, " sensor"]

    def white(self, columns: Columns) -> Columns:
        return columns / beside(self.sd, columns)

    def colour(self, columns: Columns) -> Columns:
        return columns * beside(self.sd, columns)

    def log_volume(self) -> Float[Array, ""]:
        return jnp.sum(jnp.log(self.sd))


class Triangular(AbstractFactor):
    """By a matrix: any noise, for few observations."""

    lower: Float[Array, "sensor sensor"]

    def white(self, columns: Columns) -> Columns:
        return jax.scipy.linalg.solve_triangular(self.lower, columns, lower=True)

    def colour(self, columns: Columns) -> Columns:
        return self.lower @ columns

    def log_volume(self) -> Float[Array, ""]:
        return jnp.sum(jnp.log(jnp.diagonal(self.lower)))


class Blocks(AbstractFactor):
    """Of data sets one after the other, which share nothing."""

    each: tuple[AbstractFactor, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)

    def cut(self, columns: Columns) -> list[tuple[AbstractFactor, Array]]:
        ends = np.cumsum((0, *self.sizes)).tolist()
        return list(zip(self.each, [columns[a:b] for a, b in pairwise(ends)], strict=True))

    def white(self, columns: Columns) -> Columns:
        return jnp.concatenate([one.white(own) for one, own in self.cut(columns)])

    def colour(self, columns: Columns) -> Columns:
        return jnp.concatenate([one.colour(own) for one, own in self.cut(columns)])

    def log_volume(self) -> Float[Array, ""]:
        return jnp.sum(jnp.stack([one.log_volume() for one in self.each]))


class NormalVector(dist.Distribution):
    """Normal observations together: a draw is all of them, and so is a density."""

    def __init__(
        self, loc: Float[Array, " sensor"], factor: AbstractFactor, sd: Float[Array, " sensor"]
    ):
        self.loc, self.factor, self.sd = loc, factor, sd
        super().__init__(event_shape=loc.shape)

    @property
    def support(self) -> Any:
        return dist.constraints.real_vector

    @property
    def mean(self) -> Float[Array, " sensor"]:
        return self.loc

    @property
    def variance(self) -> Float[Array, " sensor"]:
        return self.sd**2

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Array:
        assert key is not None
        white = jr.normal(key, (*self.loc.shape, *sample_shape), self.loc.dtype)
        drawn = self.factor.colour(white) + beside(self.loc, white)
        return jnp.moveaxis(drawn, 0, -1)

    def log_prob(self, value: Any, intermediates: list[Any] | None = None) -> Float[Array, ""]:
        white = self.factor.white(value - self.loc)
        size = len(self.loc) * np.log(2 * np.pi)
        return -0.5 * (white @ white + size) - self.factor.log_volume()

"""A distribution that is nothing but draws from it, as samplers leave them."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.errors import RieszError
from riesz.posterior.family import Draws


class EmpiricalDraws(eqx.Module):
    """Draws of the standard normal coordinates, kept by chain so that chains can be compared."""

    by_chain: Float[Array, "chain draw coordinate"]

    def __check_init__(self):
        if not self.by_chain.size:
            raise RieszError(f"there are no draws in an array of shape {self.by_chain.shape}.")

    @property
    def num_coordinates(self) -> int:
        return self.by_chain.shape[2]

    @property
    def num_draws(self) -> int:
        return self.by_chain.shape[0] * self.by_chain.shape[1]

    @property
    def dtype(self) -> np.dtype:
        return self.by_chain.dtype

    def all(self) -> Draws:
        """One chain after the other."""
        return self.by_chain.reshape(-1, self.num_coordinates)

    def sample(self, key: PRNGKeyArray, num_draws: int) -> Draws:
        """Some of the draws, each at most once as long as there are enough."""
        chosen = jr.choice(key, self.num_draws, (num_draws,), replace=num_draws > self.num_draws)
        return self.all()[chosen]

    @property
    def mean(self) -> Float[Array, " coordinate"]:
        return jnp.mean(self.all(), axis=0)

    def covariance(self) -> Float[Array, "coordinate coordinate"]:
        return jnp.atleast_2d(jnp.cov(self.all(), rowvar=False))

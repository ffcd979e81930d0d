"""Variational families q over the standard normal coordinates of the unknowns."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Draws = Float[Array, "draw coordinate"]


class AbstractFamily(eqx.Module):
    """A distribution that can be drawn from, differentiably in its parameters."""

    @property
    @abstractmethod
    def num_coordinates(self) -> int:
        """The dimension."""

    @abstractmethod
    def transformed(self, normals: Draws) -> Draws:
        """Draws from q out of standard normal ones."""

    @abstractmethod
    def kl_to_prior(self) -> Float[Array, ""]:
        """The Kullback-Leibler divergence to the standard normal prior."""

    @abstractmethod
    def log_prob(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, ""]:
        """The log-density at one point."""

    def sample(self, key: PRNGKeyArray, num_draws: int) -> Draws:
        """Independent draws."""
        return self.transformed(jr.normal(key, (num_draws, self.num_coordinates), self.dtype))

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """Of its parameters."""


def antithetic(key: PRNGKeyArray, num_draws: int, num_coordinates: int, dtype) -> Draws:
    """Standard normal draws in pairs of opposite sign: their mean is exactly zero."""
    half = jr.normal(key, ((num_draws + 1) // 2, num_coordinates), dtype)
    return jnp.concatenate([half, -half])[:num_draws]


class AbstractGaussian(AbstractFamily):
    """A Gaussian with some factor of its covariance."""

    mean: eqx.AbstractVar[Float[Array, " coordinate"]]

    @abstractmethod
    def factor(self) -> Float[Array, "coordinate coordinate"]:
        """The lower triangular factor of the covariance matrix."""

    @property
    def num_coordinates(self) -> int:
        return len(self.mean)

    @property
    def dtype(self) -> np.dtype:
        return self.mean.dtype

    def covariance(self) -> Float[Array, "coordinate coordinate"]:
        factor = self.factor()
        return factor @ factor.T

    def transformed(self, normals: Draws) -> Draws:
        return self.mean[None, :] + normals @ self.factor().T

    def kl_to_prior(self) -> Float[Array, ""]:
        factor = self.factor()
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor) ** 2))
        return 0.5 * (jnp.sum(factor**2) + jnp.sum(self.mean**2) - len(self.mean) - log_det)

    def log_prob(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, ""]:
        factor = self.factor()
        white = jax.scipy.linalg.solve_triangular(factor, coordinates - self.mean, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
        return -0.5 * jnp.sum(white**2 + jnp.log(2 * jnp.pi)) - log_det


class MeanField(AbstractGaussian):
    """Independent coordinates."""

    mean: Float[Array, " coordinate"]
    log_sd: Float[Array, " coordinate"]

    def factor(self) -> Float[Array, "coordinate coordinate"]:
        return jnp.diag(jnp.exp(self.log_sd))


class FullRank(AbstractGaussian):
    """Any covariance: the logarithm of the factor's diagonal, and what stands below it."""

    mean: Float[Array, " coordinate"]
    log_diagonal: Float[Array, " coordinate"]
    below: Float[Array, "coordinate coordinate"]  # read strictly below the diagonal

    def factor(self) -> Float[Array, "coordinate coordinate"]:
        return jnp.tril(self.below, -1) + jnp.diag(jnp.exp(self.log_diagonal))


class LowRank(AbstractGaussian):
    """Independent coordinates plus a few directions: for many unknowns."""

    mean: Float[Array, " coordinate"]
    log_sd: Float[Array, " coordinate"]
    directions: Float[Array, "coordinate rank"]

    def factor(self) -> Float[Array, "coordinate coordinate"]:
        covariance = self.directions @ self.directions.T + jnp.diag(jnp.exp(2 * self.log_sd))
        return jnp.linalg.cholesky(covariance)


def mean_field(num_coordinates: int, dtype) -> MeanField:
    """The prior itself, to start from."""
    return MeanField(jnp.zeros(num_coordinates, dtype), jnp.zeros(num_coordinates, dtype))


def full_rank(num_coordinates: int, dtype) -> FullRank:
    """The prior itself, to start from."""
    zeros = jnp.zeros(num_coordinates, dtype)
    return FullRank(zeros, zeros, jnp.zeros((num_coordinates, num_coordinates), dtype))


def low_rank(num_coordinates: int, rank: int, key: PRNGKeyArray, dtype) -> LowRank:
    """Nearly the prior; the directions start small but not at zero, where they would stay."""
    zeros = jnp.zeros(num_coordinates, dtype)
    directions = 0.01 * jr.normal(key, (num_coordinates, rank), dtype)
    return LowRank(zeros, zeros, directions)

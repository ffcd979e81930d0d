"""Distributions of the standard normal coordinates: families q to be fitted, and draws.

The families of variational inference: draws are functions of fixed normal ones and of parameters,
so that gradients pass through them (reparameterisation, Kingma & Welling 2014).
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.arrays import AnyArray, numpy_of
from riesz.errors import RieszError

Draws = Float[Array, "draw coordinate"]


def standard_log_density(
    values: Float[AnyArray, "*batch coordinate"],
) -> Float[AnyArray, "*batch"]:
    """The log-density of the standard normal distribution, along the last axis."""
    xp = numpy_of(values)
    return -0.5 * xp.sum(values**2 + xp.log(2 * xp.pi), axis=-1)


def antithetic(key: PRNGKeyArray, num_draws: int, num_coordinates: int, dtype) -> Draws:
    """Standard normal draws in pairs of opposite sign: their mean is exactly zero."""
    half = jr.normal(key, ((num_draws + 1) // 2, num_coordinates), dtype)
    return jnp.concatenate([half, -half])[:num_draws]


LARGEST_DENSE = 4096
"""Coordinates whose covariance matrix is still formed: 134 MB."""


def check_dense(num_coordinates: int) -> None:
    if num_coordinates > LARGEST_DENSE:
        size = 8 * num_coordinates**2 / 1e9
        raise RieszError(
            f"the covariance matrix of {num_coordinates} coordinates would take {size:.2g} GB: use "
            "posterior.distribution.variances(), its directions and information where it is an "
            "update of the prior, or draws, posterior.sample(key, number)."
        )


class AbstractGaussian(eqx.Module):
    """A Gaussian: its mean plus a linear map, the factor of its covariance, of standard normals.

    It can be drawn from differentiably in its parameters.
    """

    mean: eqx.AbstractVar[Float[Array, " coordinate"]]

    @abstractmethod
    def deviations(self, normals: Draws) -> Draws:
        """The factor times each draw."""

    @abstractmethod
    def whitened_square(self, offset: Float[Array, " coordinate"]) -> Float[Array, ""]:
        """The squared length of an offset from the mean, by the inverse of the covariance."""

    @abstractmethod
    def log_volume(self) -> Float[Array, ""]:
        """The logarithm of the factor's determinant."""

    @abstractmethod
    def variances(self) -> Float[Array, " coordinate"]:
        """The diagonal of the covariance."""

    @property
    def num_coordinates(self) -> int:
        return len(self.mean)

    @property
    def dtype(self) -> np.dtype:
        return self.mean.dtype

    def covariance(self) -> Float[Array, "coordinate coordinate"]:
        """All of it, for few coordinates; `variances` and `deviations` serve any number."""
        check_dense(self.num_coordinates)
        rows = self.deviations(jnp.eye(self.num_coordinates, dtype=self.dtype))
        return rows.T @ rows

    def transform(self, normals: Draws) -> Draws:
        """Draws from q out of standard normal ones."""
        return self.mean[None, :] + self.deviations(normals)

    def sample(self, key: PRNGKeyArray, num_draws: int) -> Draws:
        """Independent draws."""
        return self.transform(jr.normal(key, (num_draws, self.num_coordinates), self.dtype))

    def kl_to_prior(self) -> Float[Array, ""]:
        """The Kullback-Leibler divergence to the standard normal prior."""
        squares = jnp.sum(self.variances() + self.mean**2)
        return 0.5 * (squares - self.num_coordinates) - self.log_volume()

    def log_prob(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, ""]:
        """The log-density at one point."""
        square = self.whitened_square(coordinates - self.mean)
        constant = self.num_coordinates * jnp.log(2 * jnp.pi)
        return -0.5 * (square + constant) - self.log_volume()


class MeanField(AbstractGaussian):
    """Independent coordinates."""

    mean: Float[Array, " coordinate"]
    log_sd: Float[Array, " coordinate"]

    def deviations(self, normals: Draws) -> Draws:
        return normals * jnp.exp(self.log_sd)[None, :]

    def whitened_square(self, offset: Float[Array, " coordinate"]) -> Float[Array, ""]:
        return jnp.sum((offset * jnp.exp(-self.log_sd)) ** 2)

    def log_volume(self) -> Float[Array, ""]:
        return jnp.sum(self.log_sd)

    def variances(self) -> Float[Array, " coordinate"]:
        return jnp.exp(2 * self.log_sd)


class FullRank(AbstractGaussian):
    """Any covariance: the logarithm of the factor's diagonal, and what stands below it."""

    mean: Float[Array, " coordinate"]
    log_diagonal: Float[Array, " coordinate"]
    below: Float[Array, "coordinate coordinate"]  # read strictly below the diagonal

    def factor(self) -> Float[Array, "coordinate coordinate"]:
        """The lower triangular factor of the covariance."""
        return jnp.tril(self.below, -1) + jnp.diag(jnp.exp(self.log_diagonal))

    def deviations(self, normals: Draws) -> Draws:
        return normals @ self.factor().T

    def whitened_square(self, offset: Float[Array, " coordinate"]) -> Float[Array, ""]:
        return jnp.sum(solve_triangular(self.factor(), offset, lower=True) ** 2)

    def log_volume(self) -> Float[Array, ""]:
        return jnp.sum(self.log_diagonal)

    def variances(self) -> Float[Array, " coordinate"]:
        return jnp.sum(self.factor() ** 2, axis=1)


def full_rank(num_coordinates: int, dtype) -> FullRank:
    """The prior itself, to start from."""
    zeros = jnp.zeros(num_coordinates, dtype)
    return FullRank(zeros, zeros, jnp.zeros((num_coordinates, num_coordinates), dtype))


def full_rank_of(
    mean: Float[Array, " coordinate"], factor: Float[Array, "coordinate coordinate"]
) -> FullRank:
    """The Gaussian with this mean and this lower triangular factor of its covariance."""
    return FullRank(mean, jnp.log(jnp.diagonal(factor)), jnp.tril(factor, -1))


class PriorUpdate(AbstractGaussian):
    r"""The prior, moved, and narrowed along a few directions.

    With orthonormal directions $V$ and eigenvalues $\lambda$ of what the data tell,
    $C^{-1} = I + V \Lambda V^\top$: nothing as large as the covariance is formed, so that there
    may be as many coordinates as nodes (Bui-Thanh, Ghattas, Martin & Stadler 2013).
    """

    mean: Float[Array, " coordinate"]
    directions: Float[Array, "coordinate rank"]  # orthonormal
    information: Float[Array, " rank"]  # eigenvalues of the data's part of the precision

    def deviations(self, normals: Draws) -> Draws:
        shrinkage = 1 / jnp.sqrt(1 + self.information) - 1
        return normals + ((normals @ self.directions) * shrinkage[None, :]) @ self.directions.T

    def whitened_square(self, offset: Float[Array, " coordinate"]) -> Float[Array, ""]:
        return jnp.sum(offset**2) + jnp.sum(self.information * (self.directions.T @ offset) ** 2)

    def log_volume(self) -> Float[Array, ""]:
        return -0.5 * jnp.sum(jnp.log1p(self.information))

    def variances(self) -> Float[Array, " coordinate"]:
        shrunk = self.information / (1 + self.information)
        return 1 - self.directions**2 @ shrunk


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

    def variances(self) -> Float[Array, " coordinate"]:
        """The diagonal of the covariance."""
        return jnp.var(self.all(), axis=0, ddof=1)

    def covariance(self) -> Float[Array, "coordinate coordinate"]:
        check_dense(self.num_coordinates)
        return jnp.atleast_2d(jnp.cov(self.all(), rowvar=False))

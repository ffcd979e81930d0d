r"""A Gaussian that differs from the standard normal prior in a few directions.

With orthonormal directions $V$ and eigenvalues $\lambda$ of what the data tell,
$C^{-1} = I + V \Lambda V^\top$: nothing as large as the covariance is formed, so that there may be
as many coordinates as nodes.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.posterior.family import AbstractGaussian, Draws


class PriorUpdate(AbstractGaussian):
    """The prior, moved, and narrowed along some directions."""

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

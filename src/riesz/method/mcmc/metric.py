r"""Whitening coordinates of a posterior: the prior's, reshaped along some directions.

$\xi = c + (I + V (A - I) V^\top) e$ with orthonormal directions $V$: all of them where unknowns are
few, and else those in which data tell something; along all others the posterior is the prior, for
which $e$ is white already. Nothing as large as a covariance of many unknowns is formed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.posterior.family import PriorUpdate
from riesz.problem.problem import Coordinates

Rows = Float[np.ndarray, "draw coordinate"]
Square = Float[np.ndarray, "direction direction"]

LEAST = 1e-12
"""Eigenvalues below it, over the largest, are rounding errors."""


class Metric(eqx.Module):
    """A centre, and how standard normal numbers around it are stretched and turned."""

    centre: Coordinates
    directions: Float[Array, "coordinate direction"]  # orthonormal
    factor: Float[Array, "direction direction"]  # A
    inverse: Float[Array, "direction direction"]

    def deviation(self, whitened: Coordinates) -> Coordinates:
        """Of a place from the centre."""
        along = self.directions.T @ whitened
        return whitened + self.directions @ (self.factor @ along - along)

    def unwhiten(self, whitened: Coordinates) -> Coordinates:
        return self.centre + self.deviation(whitened)

    def whiten(self, point: Coordinates) -> Coordinates:
        """The inverse of `unwhiten`."""
        offset = point - self.centre
        along = self.directions.T @ offset
        return offset + self.directions @ (self.inverse @ along - along)

    def whitened_gradient(self, gradient: Coordinates) -> Coordinates:
        """A gradient by place, as one by whitened coordinates."""
        along = self.directions.T @ gradient
        return gradient + self.directions @ (self.factor.T @ along - along)

    def log_volume(self) -> Float[Array, ""]:
        return jnp.linalg.slogdet(self.factor)[1]

    def log_density(self, point: Coordinates) -> Float[Array, ""]:
        """Of the normal distribution it stands for, up to what all of them share."""
        whitened = self.whiten(point)
        return -0.5 * whitened @ whitened - self.log_volume()

    def gaussian(self) -> PriorUpdate:
        """That normal distribution."""
        variances, axes = jnp.linalg.eigh(self.factor @ self.factor.T)
        return PriorUpdate(self.centre, self.directions @ axes, 1 / variances - 1)


def stack_metrics(metrics: list[Metric]) -> Metric:
    """With a leading axis."""
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *metrics)


def metric_about(
    centre: Coordinates,
    directions: Float[Array, "coordinate direction"],
    information: Float[Array, " direction"],
) -> Metric:
    """From eigenvalues of what data tell, beside the one of the prior."""
    sd = 1 / jnp.sqrt(1 + information)
    return Metric(centre, directions, jnp.diag(sd), jnp.diag(1 / sd))


def refine_metric(metric: Metric, points: Rows, gradients: Rows) -> Metric:
    r"""The metric that draws and their gradients ask for together, by the Fisher divergence.

    Its covariance is the geometric mean of that of draws and the inverse of that of gradients
    (Seyboldt, Carlson & Carpenter 2026). Where the posterior is normal it is exact from as many
    draws as there are directions, however these scatter: each gradient tells what its draw does
    not. Both covariances are drawn towards the metric that is, the more the fewer draws there are.
    """
    axes, factor = np.asarray(metric.directions), np.asarray(metric.factor)
    offsets = points - np.asarray(metric.centre)
    whitened, pulled = offsets @ axes @ np.asarray(metric.inverse).T, gradients @ axes @ factor
    spread, steepness = regularised_covariance(whitened), regularised_covariance(pulled)
    covariance = geometric_mean(spread, np.linalg.inv(steepness))
    shift = whitened.mean(axis=0) + covariance @ pulled.mean(axis=0)
    after = factor @ np.linalg.cholesky(covariance)
    return Metric(
        metric.centre + jnp.asarray(axes @ (factor @ shift)),
        metric.directions,
        jnp.asarray(after),
        jnp.asarray(np.linalg.inv(after)),
    )


def regularised_covariance(rows: Float[np.ndarray, "draw direction"]) -> Square:
    """Their covariance, as if there were as many more draws of variance one as directions."""
    count, size = rows.shape
    centred = rows - rows.mean(axis=0)
    return (centred.T @ centred + size * np.eye(size)) / (count + size)


def geometric_mean(one: Square, other: Square) -> Square:
    """The midpoint of two covariances, the $G$ with $G A^{-1} G = B$."""
    factor = np.linalg.cholesky(one)
    half = np.linalg.solve(factor, np.linalg.solve(factor, other).T)
    values, vectors = np.linalg.eigh((half + half.T) / 2)
    roots = np.sqrt(np.maximum(values, LEAST * values.max()))
    result = factor @ (vectors * roots) @ vectors.T @ factor.T
    return (result + result.T) / 2

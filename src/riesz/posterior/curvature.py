"""The directions in which the curvature of a log-density differs from the prior's, and by how much.

They are few, whatever the number of unknowns: about as many as there are data.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.devices import Devices, over_rows
from riesz.posterior.density import (
    AbstractDensity,
    Directions,
    Linearization,
    hessian_vector_products,
)

OVERSAMPLING = 10
"""Directions beyond those that are wanted, for the random start to hold all of them."""

FEW_UNKNOWNS = 256
"""Up to so many, curvature is looked at in all directions."""

NUM_DIRECTIONS = 50
"""Of more, in as many as there are observations, but no fewer than these and at most four times as
many."""

LEAST_INFORMATION = -0.75
"""Where the log-density bends upwards a normal distribution is at most twice as wide as the
prior."""

Eigenpairs = tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]


def num_directions(size: int, num_data: int) -> int:
    """In how many directions curvature is looked at."""
    if size <= FEW_UNKNOWNS:
        return size
    return min(size, int(np.clip(num_data, NUM_DIRECTIONS, 4 * NUM_DIRECTIONS)))


def curvature_at(
    density: AbstractDensity,
    at: Linearization,
    count: int,
    key: PRNGKeyArray,
    *,
    second: Float[Array, ""] | None = None,
    devices: Devices | None = None,
) -> Eigenpairs:
    """The data's part of the Hessian at a point, by its eigenvalues of largest size."""
    product = eqx.Partial(hessian_vector_products, second=second)

    def action(directions: Directions) -> Directions:
        return over_rows(product, (density, at), directions, devices)

    return leading_eigenpairs(action, len(at.coordinates), count, key)


def leading_eigenpairs(
    action: Callable[[Directions], Directions], size: int, count: int, key: PRNGKeyArray
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """The eigenvalues of largest size of a symmetric operator, by a randomised double pass.

    Halko, Martinsson & Tropp (2011). `action` takes several directions at once.
    """
    rank = min(count + OVERSAMPLING, size)
    # Where directions are all there are, there is no subspace to be found.
    random = rank < size
    basis = orthonormal(action(jr.normal(key, (rank, size)))) if random else jnp.eye(size)
    return eigenpairs_within(basis, action(basis), min(count, rank))


@eqx.filter_jit
def orthonormal(directions: Directions) -> Directions:
    return jnp.linalg.qr(directions.T)[0].T


@eqx.filter_jit
def eigenpairs_within(
    basis: Directions, images: Directions, count: int
) -> tuple[Float[Array, " rank"], Float[Array, "coordinate rank"]]:
    """Of a symmetric operator in the span of an orthonormal basis, whose images are known."""
    inner = basis @ images.T
    values, rotation = jnp.linalg.eigh((inner + inner.T) / 2)
    leading = jnp.argsort(-jnp.abs(values))[:count]
    return values[leading], basis.T @ rotation[:, leading]

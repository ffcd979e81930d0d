"""Functions of the unknowns around a place: linear ones, and a few that bend."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.surrogate.layers import Layers, layers


class LocalFunctions(eqx.Module):
    """Coordinates seen from a centre, in units of a spread, and hyperbolic tangents of them."""

    centre: Float[Array, " coordinate"]
    whitening: Float[Array, "coordinate coordinate"]
    bends: Layers

    def __call__(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " function"]:
        inside = (coordinates - self.centre) @ self.whitening
        return jnp.concatenate([inside, self.bends(inside)])


def local_functions(
    draws: Float[np.ndarray, "draw coordinate"], num_bends: int, key: PRNGKeyArray, dtype: np.dtype
) -> LocalFunctions:
    """For coordinates distributed like these draws."""
    centre, size = draws.mean(axis=0), draws.shape[1]
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(draws, rowvar=False)))
    return LocalFunctions(
        centre=jnp.asarray(centre, dtype),
        whitening=jnp.asarray(np.linalg.inv(factor).T, dtype),
        bends=layers((size, num_bends), key, dtype),
    )

"""The network that all methods train on the checkerboard."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.surrogate.networks import Layers, layers
from riesz_paper.experiments.checkerboard.board import SQUARES

WIDTH, FEATURES = 64, 1024
SCALES = (0.01, 0.1, 0.1)
"""Rough sizes of the state and of the two components of the flux."""


class CuspNetwork(eqx.Module):
    r"""A field that vanishes on the boundary and may have kinks along the lines of the board.

    Beside the coordinates the network reads their distances from the lines between squares: smooth
    inside every square, with slopes that jump between them, as those of the solution do (a
    cusp-capturing network, Tseng et al. 2023). The lines are known, since the diffusivity is. The
    last layer is wide enough for what it spans, with its first weights, to come within a tenth of
    the solution.
    """

    trunk: Layers
    readout: Float[Array, "feature output"]

    def __call__(self, x: Float[Array, " 2"]) -> Float[Array, " output"]:
        num_features, num_outputs = self.readout.shape
        outputs = self.features(x) @ self.readout / np.sqrt(num_features)
        outputs = outputs * np.array(SCALES[:num_outputs])
        # Only the state has boundary values; a flux has none.
        return outputs.at[0].multiply(boundary_factor(x))

    def features(self, x: Float[Array, " 2"]) -> Float[Array, " feature"]:
        lines = np.arange(1, SQUARES) / SQUARES
        distances = jnp.abs(x[:, None] - lines[None, :]).ravel()
        return self.trunk(jnp.concatenate([2 * x - 1, 2 * distances - 0.5]))


def boundary_factor(x: Float[Array, " 2"]) -> Float[Array, ""]:
    return jnp.prod(4 * x * (1 - x))


def cusp_network(
    key: PRNGKeyArray, num_outputs: int, *, width: int = WIDTH, features: int = FEATURES
) -> CuspNetwork:
    """A fresh network for the state alone, or for the state and a flux."""
    trunk_key, readout_key = jr.split(key)
    sizes = (2 * SQUARES, width, features)
    return CuspNetwork(
        layers(sizes, trunk_key, np.dtype(float)),
        jr.normal(readout_key, (features, num_outputs)),
    )


@eqx.filter_jit
def nodal_values(network: CuspNetwork, nodes: Float[Array, "node 2"]) -> Float[Array, " node"]:
    """The state at nodes, some at a time: there may be very many."""
    return jax.lax.map(lambda x: network(x)[0], nodes, batch_size=1024)


@eqx.filter_jit
def nodal_features(
    network: CuspNetwork, nodes: Float[Array, "node 2"]
) -> Float[Array, "node feature"]:
    """What the last layer combines to a state, with its boundary values."""
    return jax.vmap(lambda x: boundary_factor(x) * network.features(x))(nodes)

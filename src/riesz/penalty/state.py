"""States that a penalty can measure: functions of place, with or without arrays on the mesh."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree


class Place(eqx.Module):
    """A point, and the cell of the finest mesh that holds it."""

    x: Float[Array, " dim"]
    corners: Int[Array, " corner"]  # nodes of the cell
    barycentric: Float[Array, " corner"]


class AbstractPlacedState(eqx.Module):
    """A state that reads nodal arrays of the finest mesh beside the coordinates."""

    @abstractmethod
    def at(self, place: Place, z: PyTree) -> Float[Array, ""]:
        """The value at one place; its derivative by `place.x` is the state's gradient."""


StateFunction = Callable[[Float[Array, " dim"], PyTree], Float[Array, ""]] | AbstractPlacedState
"""The state u(x, z) at one place."""


def value_at(u: StateFunction, place: Place, z: PyTree) -> Float[Array, ""]:
    """The state at one place."""
    return u.at(place, z) if isinstance(u, AbstractPlacedState) else u(place.x, z)


def values_at_nodes(
    u: StateFunction, nodes: Int[Array, " node"], x: Float[Array, "node dim"], z: PyTree
) -> Float[Array, " node"]:
    """The state at nodes of the finest mesh, with their coordinates."""
    num_corners = x.shape[1] + 1
    first = jnp.zeros(num_corners, x.dtype).at[0].set(1.0)

    def at(node, place):
        return value_at(u, Place(place, jnp.broadcast_to(node, (num_corners,)), first), z)

    return jax.vmap(at)(nodes, x)

r"""The surrogate $\mu(x, z)$: a network, normalised, with its boundary values built in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from riesz.mesh.mesh import Mesh
from riesz.penalty.state import AbstractPlacedState, Place, values_at_nodes
from riesz.surrogate.boundary import BoundaryValues
from riesz.surrogate.networks import AbstractNetwork

COORDINATES = "riesz:coordinates"
"""The entry of `z` that holds the standard normal coordinates which a surrogate reads."""


class Frame(eqx.Module):
    """Where the domain lies and how large the state is: inputs and outputs of size one."""

    centre: Float[Array, " dim"]
    half_width: Float[Array, ""]
    output_scale: Float[Array, ""]

    def inside(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Coordinates between minus one and one."""
        return (x - self.centre) / self.half_width


class Surrogate(AbstractPlacedState):
    """A state for every value of the unknowns."""

    network: AbstractNetwork
    boundary: BoundaryValues
    frame: Frame

    def at(self, place: Place, z: PyTree) -> Float[Array, ""]:
        coordinates = z[COORDINATES]
        inner = self.network(self.frame.inside(place.x), coordinates)
        return self.shaped(place, coordinates, inner)

    def shaped(
        self, place: Place, coordinates: Float[Array, " coordinate"], inner: Float[Array, ""]
    ) -> Float[Array, ""]:
        """A network's value in physical units, with the boundary values built in."""
        factor, lifting = self.boundary.at(place, coordinates)
        return lifting + self.frame.output_scale * factor * inner


def frame_of(mesh: Mesh, output_scale: float, dtype: np.dtype) -> Frame:
    """The frame of a mesh: aspect ratio kept, so that all directions look alike."""
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
    return Frame(
        jnp.asarray((low + high) / 2, dtype),
        jnp.asarray((high - low).max() / 2, dtype),
        jnp.asarray(output_scale, dtype),
    )


def nodal_states(
    surrogate: Surrogate,
    nodes: Float[Array, "node dim"],
    coordinates: Float[Array, "draw coordinate"],
) -> Float[Array, "draw node"]:
    """The surrogate's values at all nodes, for several values of the unknowns."""
    indices = jnp.arange(len(nodes))
    return jax.vmap(lambda c: values_at_nodes(surrogate, indices, nodes, {COORDINATES: c}))(
        coordinates
    )

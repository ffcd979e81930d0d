"""Functions given at the nodes of the finest mesh, smooth enough to be differentiated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.fem.recovery import recovered_gradients
from riesz.mesh.mesh import Mesh
from riesz.penalty.state import Place


class NodalFunctions(eqx.Module):
    """Several functions at once, with gradients recovered at the nodes.

    On coarse levels a penalty differentiates at a few points of large cells. The gradient inside
    one fine cell would be a rough sample there; the recovered one is accurate to second order.
    """

    values: Float[Array, "node column"]
    gradients: Float[Array, "node dim column"]

    def at(self, place: Place) -> Float[Array, " column"]:
        """Values at one place, with the recovered gradient as derivative by the coordinates."""
        weights = place.barycentric
        values = jnp.einsum("c,cf->f", weights, self.values[place.corners])
        slopes = jnp.einsum("c,cdf->df", weights, self.gradients[place.corners])
        step = place.x - jax.lax.stop_gradient(place.x)
        return values + step @ slopes


def nodal_functions(
    mesh: Mesh, values: Float[np.ndarray, "node column"], dtype: np.dtype
) -> NodalFunctions:
    """Functions from their nodal values, one a column."""
    gradients = recovered_gradients(mesh, values)
    return NodalFunctions(jnp.asarray(values, dtype), jnp.asarray(gradients, dtype))

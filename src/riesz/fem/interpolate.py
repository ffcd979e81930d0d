"""Finite-element functions at arbitrary points, as a sparse linear operator."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from riesz.errors import FormError
from riesz.fem.elements.space import Space
from riesz.mesh.locate import locate


class PointOperator(eqx.Module):
    """Values at points from the unknowns of a space; differentiable, and transposable."""

    cells: Int[Array, " point"]
    dofs: Int[Array, "local point"]
    weights: Float[Array, "local point"]
    num_dofs: int = eqx.field(static=True)

    def __matmul__(self, state: Float[Array, " dof"]) -> Float[Array, " point"]:
        if state.shape != (self.num_dofs,):
            raise FormError(
                f"the state has shape {state.shape}, but the space has {self.num_dofs} unknowns."
            )
        return jnp.sum(self.weights * state[self.dofs], axis=0)

    def transposed(self, rates: Float[Array, " point"]) -> Float[Array, " dof"]:
        """Point loads: the shape functions at each point times its rate, summed."""
        loads = self.weights * rates[None, :]
        return jnp.zeros(self.num_dofs, loads.dtype).at[self.dofs].add(loads)

    def to_scipy(self) -> sp.csr_array:
        local, num_points = self.dofs.shape
        rows = np.tile(np.arange(num_points), local)
        entries = (np.asarray(self.weights).ravel(), (rows, np.asarray(self.dofs).ravel()))
        return sp.coo_array(entries, shape=(num_points, self.num_dofs)).tocsr()


def point_operator(
    space: Space,
    points: ArrayLike,
    *,
    dtype: np.dtype | None = None,
    tolerance: float | None = None,
) -> PointOperator:
    """Evaluate functions of a space at points, given by one row of coordinates each.

    Raises where a point lies outside the mesh by more than `tolerance` (a length; within it, the
    nearest point of the boundary is taken).
    """
    found = locate(
        space.mesh, np.asarray(points, dtype=float), tolerance=tolerance, outside="raise"
    )
    weights = np.stack(space.element.values(list(found.barycentric.T)))
    return PointOperator(
        cells=jnp.asarray(found.cell, dtype=jnp.int32),
        dofs=jnp.asarray(space.cell_dofs[found.cell].T, dtype=jnp.int32),
        weights=jnp.asarray(weights, dtype=dtype),
        num_dofs=space.num_dofs,
    )

r"""A surrogate without a network: one value a node, affine in the coordinates of the unknowns.

A reference for small meshes. Nodal values themselves would be slow to train, since the penalty sees
rough changes of them far more than smooth ones; so they are written as
$u = G(0) + G'(0)\,\xi + \epsilon L^{-1} F\,W\,(1, \xi)$ with $F F^\top = A$, where the penalty
of $W$ is the unit matrix, at the origin of the coordinates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.fem.assembly import jacobian, with_dirichlet
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.solve import solve
from riesz.latent.space import LatentSpace

LARGEST = 4000
"""Free nodes up to which the dense matrix of modes is formed."""

Coordinates = Float[Array, " coordinate"]


class NodalSurrogate(eqx.Module):
    """Nodal values from the solution linearised at the origin, and from trained weights."""

    weights: Float[Array, "free coordinate_plus_one"]  # what is trained
    start: Float[Array, "free coordinate_plus_one"]
    modes: Float[Array, "free free"]

    def state(
        self, problem: BoundaryValueProblem, latents: LatentSpace, coordinates: Coordinates
    ) -> Float[Array, " node"]:
        """All nodal values, with the prescribed ones put in."""
        affine = jnp.concatenate([jnp.ones(1, coordinates.dtype), coordinates])
        # Modes by weights first: draws of the coordinates outnumber the columns of the weights.
        free = (self.start + self.modes @ self.weights) @ affine
        return with_dirichlet(problem, free, latents.z(coordinates))


def nodal_surrogate(
    problem: BoundaryValueProblem,
    latents: LatentSpace,
    gram: SparseMatrix,
    epsilon: Float[Array, ""],
) -> NodalSurrogate:
    """The surrogate for a problem, with the Gram matrix of its norm and a scale of errors."""
    if problem.num_free > LARGEST:
        raise RieszError(
            f"a nodal surrogate on {problem.num_free} free nodes needs too large a matrix (at most "
            f"{LARGEST} nodes): use the network."
        )
    origin = jnp.zeros(latents.num_coordinates, problem.dtype)
    state, slopes, matrix = linearised(problem, latents, origin)
    factor = np.linalg.cholesky(np.asarray(gram.to_dense()))
    modes = np.linalg.solve(np.asarray(matrix.to_dense()), factor)
    start = jnp.column_stack([state, slopes])[problem.free]
    return NodalSurrogate(jnp.zeros_like(start), start, epsilon * jnp.asarray(modes))


@eqx.filter_jit
def linearised(
    problem: BoundaryValueProblem, latents: LatentSpace, coordinates: Coordinates
) -> tuple[Float[Array, " node"], Float[Array, "node coordinate"], SparseMatrix]:
    """The solution, its derivatives by the coordinates, and the matrix there."""

    def solution(coordinates: Coordinates) -> Float[Array, " node"]:
        return solve(problem, latents.z(coordinates))

    state = solution(coordinates)
    matrix = jacobian(problem, state, latents.z(coordinates))
    return state, jax.jacfwd(solution)(coordinates), matrix

"""The dual norm of a weak-form residual, exactly: that of its Riesz representer."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.assembly import jacobian
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem, with_form
from riesz.penalty.gram import Gram


class DualNorm(eqx.Module):
    r"""Discrete $H^{-1}$ norm of a weak-form residual, $\|r\|_{-1}^2 = r^\top A^{-1} r$.

    $A$ is the Gram matrix of the test functions on the free unknowns, by default the Poisson
    stiffness matrix. The paper writes $\|r\|_A^2$ (eq. 13); we name the space, since
    $\|r\|_A^2$ elsewhere means $r^\top A r$.
    """

    gram: SparseMatrix
    solver: AbstractLinearSolver

    def riesz(self, residual: Float[Array, " free"]) -> Float[Array, " free"]:
        r"""The representer $A^{-1} r$: the function whose inner products with all test functions
        are the residual."""
        return self.solver(self.gram, residual)

    def squared(self, residual: Float[Array, " free"]) -> Float[Array, ""]:
        """The norm squared, differentiable to any order."""
        return residual @ self.riesz(residual)


def dual_norm(
    problem: BoundaryValueProblem,
    gram: Gram | None = None,
    *,
    linear_solver: AbstractLinearSolver | None = None,
) -> DualNorm:
    r"""The dual norm for residuals of a problem.

    `gram` is the inner product whose matrix is $A$, `Gram()` by default. A reference diffusivity,
    `Gram(a)`, suits rough coefficients; `Gram(reaction=k)` domains without Dirichlet conditions;
    `Gram(0.0, 1.0)` measures the residual as white noise.
    """
    form = (Gram() if gram is None else gram).form(problem.space.mesh)
    nowhere = jnp.zeros(problem.space.num_dofs, problem.dtype)
    matrix = jacobian(with_form(problem, form), nowhere)
    return DualNorm(matrix, SparseLU() if linear_solver is None else linear_solver)

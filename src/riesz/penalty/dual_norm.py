"""The dual norm of a weak-form residual, exactly."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.assembly import jacobian
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem, with_form
from riesz.fem.terms.weakform import WeakForm, diffusion


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
    gram: WeakForm | None = None,
    *,
    linear_solver: AbstractLinearSolver | None = None,
) -> DualNorm:
    r"""The dual norm for residuals of a problem.

    `gram` is the symmetric positive form whose matrix is $A$: `diffusion(1.0)` by default. A
    reference diffusivity, `diffusion(a)`, suits rough or anisotropic coefficients;
    `diffusion(1.0) + reaction(k)` domains without Dirichlet conditions; `reaction(1.0)` measures
    the residual as white noise, $r^\top M^{-1} r$ with the mass matrix.
    """
    form = diffusion(1.0) if gram is None else gram
    nowhere = jnp.zeros(problem.space.num_dofs, problem.dtype)
    matrix = jacobian(with_form(problem, form), nowhere)
    return DualNorm(matrix, SparseLU() if linear_solver is None else linear_solver)

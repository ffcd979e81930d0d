"""The inner product of test functions, and the dual norm of a residual that it makes, exactly."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.fem.assembly import jacobian
from riesz.fem.default_solver import choose_solver
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem, with_form
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.weakform import WeakForm, diffusion, reaction
from riesz.mesh.mesh import Mesh

MANY = 100
"""Residuals that a norm measures, at least: its matrix never changes."""


class Gram(eqx.Module):
    r"""The inner product of test functions, $\int a\,\nabla v\cdot\nabla w + k\,v\,w$.

    The diffusivity is a number, or one a cell of the finest mesh for rough coefficients; coarse
    cells take the mean of the cells inside. A reaction makes up for missing Dirichlet conditions.
    Without diffusivity, `Gram(0.0, 1.0)`, residuals count as white noise, $r^\top M^{-1} r$ with
    the mass matrix: for exact norms only.
    """

    diffusivity: float | Float[np.ndarray, " cell"] = 1.0
    reaction: float = 0.0

    def form(self, mesh: Mesh) -> WeakForm:
        """The inner product as a form, whose Jacobian is the Gram matrix."""
        values = cell_diffusivity(self, mesh, white=self.reaction > 0)
        size = per_cell(values) if values.ndim else float(values)
        form = diffusion(size) if values.any() else WeakForm()
        return form + reaction(self.reaction) if self.reaction else form


def check_energy(problem: BoundaryValueProblem, gram: Gram | None) -> None:
    """Raise where constants have no energy: the Gram matrix is singular, and there is no norm."""
    if not len(problem.fixed) and (gram is None or gram.reaction == 0):
        raise RieszError(
            "no value is prescribed anywhere, so that constants have no energy and the Gram matrix "
            "is singular: prescribe values on a part of the boundary, or add a reaction, as in "
            "gram=Gram(reaction=1.0), in a problem file gram = {reaction = 1.0}."
        )


def cell_diffusivity(gram: Gram, mesh: Mesh, *, white: bool = False) -> Float[np.ndarray, " *cell"]:
    """A number or one a cell, checked; `white` lets it be zero."""
    values = np.asarray(gram.diffusivity, dtype=float)
    if values.ndim and values.shape != (mesh.num_cells,):
        raise RieszError(
            f"the Gram diffusivity has shape {values.shape}, but the mesh has {mesh.num_cells} "
            "cells: give a number, or one value a cell."
        )
    is_large_enough = (values >= 0 if white else values > 0).all()
    if not (np.isfinite(values).all() and is_large_enough and 0 <= gram.reaction < np.inf):
        raise RieszError(
            f"the Gram form has diffusivity from {values.min()} on and reaction {gram.reaction}: "
            "a norm needs a positive finite diffusivity and a finite reaction, not negative."
        )
    return values


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
    energy = with_form(problem, form)
    solver = choose_solver(energy, linear_solver, num_rhs=MANY)
    return DualNorm(jacobian(energy, nowhere), solver)

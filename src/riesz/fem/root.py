"""The root of the residual: the exact forward map from latents z, with all its derivatives.

Newton's iteration finds the root of the residual; a linear equation takes one step. Its
derivatives are those of the implicit function theorem, by one more linear solve each, in forward
and in reverse mode and to any order: the iteration itself is never differentiated.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, PyTree

from riesz.errors import SolveError
from riesz.fem.assembly import free_residual, with_dirichlet
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.newton import Solution, newton_iteration, prepare_jacobian
from riesz.fem.problem import BoundaryValueProblem

ROOT = "root"
"""The name of solutions where a gradient chooses what to keep and what to compute anew."""


def require_float64(problem: BoundaryValueProblem) -> None:
    """Raise where a problem was built in single precision."""
    if problem.dtype != jnp.float64:
        raise SolveError(
            "exact solves need float64, but this problem was built in float32: add "
            'jax.config.update("jax_enable_x64", True) at the top of the program and build the '
            "problem without dtype=jnp.float32."
        )


@eqx.filter_jit
def find_root(
    problem: BoundaryValueProblem, z: PyTree, linear_solver: AbstractLinearSolver
) -> Solution:
    """The root of the residual, differentiable in whatever `problem` and `z` hold."""
    return implicit_root((problem, z), linear_solver, newton_guess(problem)).solution


def newton_guess(problem: BoundaryValueProblem) -> Float[Array, " free"]:
    """Where the iteration starts: where the problem says, or at zero."""
    if problem.start is None:
        return jnp.zeros(problem.num_free, problem.dtype)
    return jax.lax.stop_gradient(problem.start[problem.free])


@eqx.filter_custom_jvp
def implicit_root(problem_and_z, linear_solver, start):
    """The root from `start`."""
    problem, z = problem_and_z
    return newton_iteration(problem, z, linear_solver, start)


@implicit_root.def_jvp
def implicit_root_jvp(primals, tangents):
    r"""$\dot u = -J^{-1}\,(\partial r/\partial z)\,\dot z$ at the root."""
    problem_and_z, linear_solver, start = primals
    root = implicit_root(problem_and_z, linear_solver, start)
    # Named, so that who computes much anew to save memory need not solve once more.
    values = checkpoint_name(root.solution.free_values, ROOT)
    root = eqx.tree_at(lambda r: r.solution.free_values, root, values)

    def residual_of(inputs, free_values):
        problem, z = inputs
        return free_residual(problem, with_dirichlet(problem, free_values, z), z)

    def product(direction):
        return jax.jvp(partial(residual_of, problem_and_z), (values,), (direction,))[1]

    _, change = eqx.filter_jvp(
        lambda inputs: residual_of(inputs, values), (problem_and_z,), (tangents[0],)
    )
    # None stands for a tangent of zero: that of all but the solution, and of this as well where
    # nothing that was moved enters the equation, or only by a comparison.
    no_change = jax.tree.map(lambda _: None, root)
    if change is None:
        return root, no_change
    problem, z = problem_and_z
    there = root.jacobian or prepare_jacobian(problem, z, values, linear_solver)
    matrix, prepared = jax.lax.stop_gradient(there)
    answer = linear_solver.with_product(product, matrix, prepared, -change)
    return root, eqx.tree_at(
        lambda r: r.solution.free_values, no_change, answer, is_leaf=lambda leaf: leaf is None
    )

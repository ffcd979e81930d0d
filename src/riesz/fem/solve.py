"""The exact forward map: latents z -> the finite-element solution u, with all its derivatives.

Newton's iteration finds the root of the residual; a linear equation takes one step. Its
derivatives are those of the implicit function theorem, by one more linear solve each, in forward
and in reverse mode and to any order: the iteration itself is never differentiated.
"""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, PyTree

from riesz.errors import SolveError
from riesz.fem.assembly import free_residual, source_rates, with_dirichlet
from riesz.fem.default_solver import choose_solver
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.newton import Solution, newton_iteration, prepare_jacobian
from riesz.fem.problem import BoundaryValueProblem, Newton, check_coefficients, start_values
from riesz.fem.terms.coefficient import is_traced

ROOT = "root"
"""The name of solutions where a gradient chooses what to keep and what to compute anew."""


def solve(
    problem: BoundaryValueProblem,
    z: Any = None,
    *,
    linear_solver: AbstractLinearSolver | None = None,
    newton: Newton | None = None,
    initial: Any = None,
) -> Float[Array, " dof"]:
    """All unknowns of the solution; raises `SolveError` where there is none to be found.

    An equation that is not linear is solved by Newton's iteration, with the settings and from the
    start that are given here or to the problem; where that fails, from others.

    Inside jit and vmap they are all NaN then: a sampler rejects a proposal without a solution, and
    goes on. Whether coefficients are finite and positive is not checked there either.
    """
    require_float64(problem)
    z = jax.tree.map(to_array, z)
    if not is_traced((problem, z)):
        check_coefficients(problem, {} if z is None else z)
        for source, _ in problem.point_sources:
            source_rates(source, z)
    if newton is not None:
        problem = dataclasses.replace(problem, newton=newton)
    if initial is not None:
        start = start_values(problem.space, initial, problem.dtype)
        problem = dataclasses.replace(problem, start=start)
    solution = find_root(problem, z, choose_solver(problem, linear_solver, z=z))
    return with_dirichlet(problem, raise_if_failed(problem, solution), z)


def to_array(leaf: Any) -> Any:
    """Python's numbers as arrays: compiled code is made for one value of theirs, and no other."""
    is_number = isinstance(leaf, float | int | np.number) and not isinstance(leaf, bool)
    return jnp.asarray(leaf) if is_number else leaf


def require_float64(problem: BoundaryValueProblem) -> None:
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
    return implicit_root(
        (problem, z), linear_solver, problem.newton, newton_guess(problem)
    ).solution


def newton_guess(problem: BoundaryValueProblem) -> Float[Array, " free"]:
    """Where the iteration starts: where the problem says, or at zero."""
    if problem.start is None:
        return jnp.zeros(problem.num_free, problem.dtype)
    return jax.lax.stop_gradient(problem.start[problem.free])


@eqx.filter_custom_jvp
def implicit_root(problem_and_z, linear_solver, newton, start):
    """The root from `start`."""
    problem, z = problem_and_z
    return newton_iteration(problem, z, linear_solver, newton, start)


@implicit_root.def_jvp
def implicit_root_jvp(primals, tangents):
    r"""$\dot u = -J^{-1}\,(\partial r/\partial z)\,\dot z$ at the root."""
    problem_and_z, linear_solver, newton, start = primals
    root = implicit_root(problem_and_z, linear_solver, newton, start)
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


def raise_if_failed(problem: BoundaryValueProblem, solution: Solution) -> Float[Array, " free"]:
    """The solution's free unknowns, or an error that says what went wrong; NaN when compiled."""
    if is_traced(solution.converged):
        return jnp.where(solution.converged, solution.free_values, jnp.nan)
    if bool(jnp.all(solution.converged)):
        return solution.free_values
    if not bool(jnp.all(jnp.isfinite(solution.relative_residual))):
        raise SolveError(
            "the equations are NaN or infinite at the start: look for a coefficient, a rate or a "
            "prescribed value that is not finite there, or pass initial=..."
        )
    if bool(jnp.any(solution.unsolved)):
        raise SolveError(singular_advice(problem))
    advice, left = advice_on_stall(problem, problem.newton), solution.relative_residual
    raise SolveError(f"{advice} (Relative residual reached: {float(jnp.max(left)):.2g}.)")


def singular_advice(problem: BoundaryValueProblem) -> str:
    reason = (
        "every part of the domain needs a condition that fixes u there"
        if len(problem.fixed)
        else "without a Dirichlet condition u may be fixed only up to a constant: prescribe u on a "
        "part of the boundary, or add reaction(...) or robin(...)"
    )
    return (
        f"the equations have no unique solution, since their matrix is singular: {reason}. "
        "(Conjugate gradients also need the matrix to be symmetric and positive.)"
    )


def advice_on_stall(problem: BoundaryValueProblem, newton: Newton) -> str:
    first = "zero" if problem.start is None else "the start that was given"
    level = "the mean of the prescribed values" if len(problem.fixed) else "the level of balance"
    return (
        f"Newton's iteration did not converge in at most {newton.max_steps} steps, neither from "
        f"{first} nor, where the equation is not linear, from {level}, by pseudo-time from there, "
        "or with prescribed values that go from it to their own: check the coefficients, pass "
        "initial=... closer to the solution, or allow more steps with newton=Newton(max_steps=...)."
    )

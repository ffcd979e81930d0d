"""Exact solutions, of steady states and in time: latents z -> the finite-element solution u."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from riesz.arrays import on_device
from riesz.errors import SolveError
from riesz.fem.assembly import DofValues, source_rates, with_dirichlet
from riesz.fem.default_solver import choose_solver
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.newton import Solution
from riesz.fem.problem import BoundaryValueProblem, Newton, check_coefficients, start_values
from riesz.fem.root import find_root, require_float64
from riesz.fem.terms.coefficient import is_traced
from riesz.fem.time.fixed import has_fixed_matrix
from riesz.fem.time.problem import TransientProblem, at_time
from riesz.fem.time.scheme import num_stages
from riesz.fem.time.time_stepping import Record, TimeSteppingResult, integrate_in_time


def solve(
    problem: BoundaryValueProblem | TransientProblem,
    z: Any = None,
    *,
    linear_solver: AbstractLinearSolver | None = None,
    newton: Newton | None = None,
    initial: Any = None,
    record: Record | None = None,
) -> Any:
    """All unknowns of a steady state; in time those of all times, a row each, the first included.

    Raises `SolveError` where there is no solution to be found. An equation that is not linear is
    solved by Newton's iteration, with the settings and from the start that are given here or to the
    problem; where that fails, from others. `record(state, z)` says what to keep instead of a whole
    state: of many steps on a large mesh no more than is asked for. In time `z["t"]` is the time.

    Inside jit and vmap they are all NaN then: a sampler rejects a proposal without a solution, and
    goes on. Whether coefficients are finite and positive is not checked there either.
    """
    z, record = jax.tree.map(to_array, z), whole_state if record is None else record
    if isinstance(problem, TransientProblem):
        if initial is not None:
            raise SolveError(
                "initial=... was given for a problem in time, which has its own: give it to "
                "rz.transient_problem(..., initial=...)."
            )
        step = problem.step if newton is None else dataclasses.replace(problem.step, newton=newton)
        return solve_in_time(dataclasses.replace(problem, step=step), record, z, linear_solver)
    if newton is not None:
        problem = dataclasses.replace(problem, newton=newton)
    if initial is not None:
        start = start_values(problem.space, initial, problem.dtype)
        problem = dataclasses.replace(problem, start=start)
    return record(solve_steady(problem, z, linear_solver), z)


def whole_state(state: DofValues, z: PyTree) -> DofValues:
    return state


def to_array(leaf: Any) -> Any:
    """Python's numbers as arrays: compiled code is made for one value of theirs, and no other."""
    is_number = isinstance(leaf, float | int | np.number) and not isinstance(leaf, bool)
    return jnp.asarray(leaf) if is_number else leaf


def solve_steady(
    problem: BoundaryValueProblem, z: PyTree, linear_solver: AbstractLinearSolver | None
) -> DofValues:
    require_float64(problem)
    if not is_traced((problem, z)):
        check_inputs(problem, {} if z is None else z)
    solution = find_root(problem, z, choose_solver(problem, linear_solver, z=z))
    return with_dirichlet(problem, raise_if_failed(problem, solution), z)


def check_inputs(problem: BoundaryValueProblem, z: PyTree) -> None:
    """Raise where coefficients and rates are not what they should be."""
    check_coefficients(problem, z)
    for source, _ in problem.point_sources:
        source_rates(source, z)


def solve_in_time(
    problem: TransientProblem,
    record: Record,
    z: PyTree,
    linear_solver: AbstractLinearSolver | None,
) -> PyTree[Array]:
    require_float64(problem.step)
    axis = problem.axis
    if not is_traced((problem, z)):
        for time in axis.times[[0, -1]]:
            check_inputs(problem.step, at_time(z, on_device(time)))
    num_matrices = axis.num_kinds if has_fixed_matrix(problem, z) else axis.num_steps
    num_rhs = axis.num_steps * num_stages(problem.scheme) // num_matrices
    solver = choose_solver(
        problem.step,
        linear_solver,
        num_rhs=num_rhs,
        num_matrices=num_matrices,
        z=at_time(z, on_device(axis.times[0])),
    )
    return raise_where_halted(problem, integrate_in_time(problem, z, solver, record))


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
    advice, left = advice_on_stall(problem), solution.relative_residual
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


def advice_on_stall(problem: BoundaryValueProblem) -> str:
    first = "zero" if problem.start is None else "the start that was given"
    level = "the mean of the prescribed values" if len(problem.fixed) else "the level of balance"
    return (
        f"Newton's iteration did not converge in at most {problem.newton.max_steps} steps, neither "
        f"from {first} nor, where the equation is not linear, from {level}, by pseudo-time from "
        "there, or with prescribed values that go from it to their own: check the coefficients, "
        "pass initial=... closer to the solution, or allow more steps with "
        "newton=Newton(max_steps=...)."
    )


def raise_where_halted(problem: TransientProblem, result: TimeSteppingResult) -> PyTree[Array]:
    """What was recorded, or an error that says when the march came to a halt; NaN when compiled."""
    if is_traced(result.solved):
        return jax.tree.map(
            lambda own: jnp.where(jnp.all(result.solved), own, jnp.nan), result.recorded
        )
    bad = np.flatnonzero(~np.asarray(result.solved))
    if not bad.size:
        return result.recorded
    when = problem.axis.dates(problem.axis.times[[bad[0]]])[0]
    if bad[0] == 0 and problem.initial is None:
        raise SolveError(f"there is no steady state to begin with: {singular_advice(problem.step)}")
    raise SolveError(
        f"no solution was found at time {when}, step {bad[0]} of {problem.axis.num_steps}: "
        f"{advice_on_stall(problem.step)} Or take shorter steps."
    )

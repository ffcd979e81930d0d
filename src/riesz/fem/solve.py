"""The exact forward map: latents z -> the finite-element solution u, with all its derivatives.

A damped Newton iteration finds the root of the residual; a linear equation takes one step. Its
derivatives are those of the implicit function theorem, by one more linear solve each, in forward
and in reverse mode and to any order: the iteration itself is never differentiated.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from riesz.errors import SolveError
from riesz.fem.assembly import free_residual, jacobian, with_dirichlet
from riesz.fem.coefficient import is_traced
from riesz.fem.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.problem import BoundaryValueProblem, check_coefficients
from riesz.fem.sparse import SparseMatrix

ROUNDING_UNITS = 4
"""How many units of rounding error a residual may have and still count as zero."""


class Newton(eqx.Module):
    """Settings of the iteration: stop at a relative residual, halve steps that do not reduce it."""

    tolerance: float = eqx.field(static=True, default=1e-9)
    max_steps: int = eqx.field(static=True, default=30)
    max_halvings: int = eqx.field(static=True, default=10)


class Iterate(eqx.Module):
    """Where the iteration stands."""

    free_values: Float[Array, " free"]
    residual: Float[Array, " free"]
    rounding: Float[Array, ""]  # a residual that small may be rounding error alone
    step: Int[Array, ""]
    stuck: Bool[Array, ""]  # a linear solve failed, or no step length reduced the residual


class Solution(eqx.Module):
    """The free unknowns, and how far the iteration came."""

    free_values: Float[Array, " free"]
    relative_residual: Float[Array, ""]
    num_steps: Int[Array, ""]
    converged: Bool[Array, ""]


def solve(
    problem: BoundaryValueProblem,
    z: PyTree = None,
    *,
    linear_solver: AbstractLinearSolver | None = None,
    newton: Newton | None = None,
    initial: Float[Array, " dof"] | None = None,
) -> Float[Array, " dof"]:
    """All unknowns of the solution; raises `SolveError` where there is none to be found.

    Inside jit the same checks run with the compiled code, and raise when it does.
    """
    require_float64(problem)
    if not is_traced((problem, z)):
        check_coefficients(problem, {} if z is None else z)
    linear_solver = SparseLU() if linear_solver is None else linear_solver
    newton = Newton() if newton is None else newton
    start = None if initial is None else initial[problem.free]
    solution = find_root(problem, z, linear_solver, newton, start)
    free_values = raise_if_failed(problem, solution, newton)
    return with_dirichlet(problem, free_values, z)


def require_float64(problem: BoundaryValueProblem) -> None:
    if problem.dtype != jnp.float64:
        raise SolveError(
            "exact solves need float64, but this problem was built in float32: add "
            'jax.config.update("jax_enable_x64", True) at the top of the program and build the '
            "problem without dtype=jnp.float32."
        )


@eqx.filter_jit
def find_root(
    problem: BoundaryValueProblem,
    z: PyTree,
    linear_solver: AbstractLinearSolver,
    newton: Newton,
    start: Float[Array, " free"] | None,
) -> Solution:
    """The root of the residual, differentiable in whatever `problem` and `z` hold."""
    start = jnp.zeros(problem.num_free, problem.dtype) if start is None else start
    return implicit_root((problem, z), linear_solver, newton, jax.lax.stop_gradient(start))


@eqx.filter_custom_jvp
def implicit_root(problem_and_z, linear_solver, newton, start):
    problem, z = problem_and_z
    return newton_iteration(problem, z, linear_solver, newton, start)


@implicit_root.def_jvp
def implicit_root_jvp(primals, tangents):
    r"""$\dot u = -J^{-1}\,(\partial r/\partial z)\,\dot z$ at the root."""
    problem_and_z, linear_solver, newton, start = primals
    solution = implicit_root(problem_and_z, linear_solver, newton, start)
    values = solution.free_values

    def residual_of(inputs):
        problem, z = inputs
        return free_residual(problem, with_dirichlet(problem, values, z), z)

    _, change = eqx.filter_jvp(residual_of, (problem_and_z,), (tangents[0],))
    problem, z = problem_and_z
    matrix = jacobian(problem, with_dirichlet(problem, values, z), z)
    answer = linear_solver(matrix, -change)
    # None stands for a tangent of zero.
    no_change = jax.tree.map(lambda _: None, solution)
    return solution, eqx.tree_at(
        lambda s: s.free_values, no_change, answer, is_leaf=lambda leaf: leaf is None
    )


def newton_iteration(
    problem: BoundaryValueProblem,
    z: PyTree,
    linear_solver: AbstractLinearSolver,
    newton: Newton,
    start: Float[Array, " free"],
) -> Solution:
    """Newton steps until the residual has fallen by the tolerance, or nothing helps any more."""

    def residual_at(free_values):
        return free_residual(problem, with_dirichlet(problem, free_values, z), z)

    def close(iterate: Iterate):
        return jnp.linalg.norm(iterate.residual) <= jnp.maximum(goal, iterate.rounding)

    def unfinished(iterate: Iterate):
        return ~close(iterate) & (iterate.step < newton.max_steps) & ~iterate.stuck

    def advance(iterate: Iterate) -> Iterate:
        matrix = jacobian(problem, with_dirichlet(problem, iterate.free_values, z), z)
        direction = -linear_solver(matrix, iterate.residual)
        moved = damped_step(residual_at, iterate, direction, newton.max_halvings)
        noise = rounding_error(matrix, moved.free_values)
        return eqx.tree_at(lambda it: it.rounding, moved, noise)

    residual = residual_at(start)
    first = jnp.linalg.norm(residual)
    goal = newton.tolerance * first
    begin = Iterate(
        free_values=start,
        residual=residual,
        rounding=jnp.zeros_like(first),
        step=jnp.zeros((), jnp.int32),
        stuck=~jnp.isfinite(first),
    )
    end = jax.lax.while_loop(unfinished, advance, begin)
    last = jnp.linalg.norm(end.residual)
    return Solution(
        free_values=end.free_values,
        relative_residual=jnp.where(first > 0, last / first, 0.0),
        num_steps=end.step,
        converged=close(end),
    )


def rounding_error(matrix: SparseMatrix, values: Float[Array, " free"]) -> Float[Array, ""]:
    r"""How much of $A u$ may be rounding error: a few units of $\epsilon\,\||A|\,|u|\|$."""
    magnitudes = SparseMatrix(matrix.pattern, abs(matrix.values)) @ abs(values)
    return ROUNDING_UNITS * jnp.finfo(values.dtype).eps * jnp.linalg.norm(magnitudes)


def damped_step(
    residual_at: Callable[[Float[Array, " free"]], Float[Array, " free"]],
    iterate: Iterate,
    direction: Float[Array, " free"],
    max_halvings: int,
) -> Iterate:
    """The longest of the steps 1, 1/2, 1/4, ... that reduces the residual."""
    norm = jnp.linalg.norm(iterate.residual)

    def too_long(trial):
        length, residual = trial
        return ~(jnp.linalg.norm(residual) < norm) & (length > 0.5**max_halvings)

    def halve(trial):
        length = trial[0] / 2
        return length, residual_at(iterate.free_values + length * direction)

    beyond = (jnp.full((), 2.0, direction.dtype), jnp.full_like(iterate.residual, jnp.inf))
    length, residual = jax.lax.while_loop(too_long, halve, beyond)
    stuck = ~(jnp.linalg.norm(residual) < norm)
    moved = iterate.free_values + length * direction
    return Iterate(
        free_values=jnp.where(stuck, iterate.free_values, moved),
        residual=jnp.where(stuck, iterate.residual, residual),
        rounding=iterate.rounding,
        step=iterate.step + 1,
        stuck=stuck,
    )


def raise_if_failed(
    problem: BoundaryValueProblem, solution: Solution, newton: Newton
) -> Float[Array, " free"]:
    """The solution's free unknowns, or an error that says what went wrong."""
    message = failure_message(problem, newton)
    if is_traced(solution):
        return eqx.error_if(solution.free_values, ~solution.converged, message)
    if not bool(jnp.all(solution.converged)):
        reached = float(jnp.max(solution.relative_residual))
        raise SolveError(f"{message} (Relative residual reached: {reached:.2g}.)")
    return solution.free_values


def failure_message(problem: BoundaryValueProblem, newton: Newton) -> str:
    if not len(problem.fixed):
        return (
            "the equations have no unique solution: without a Dirichlet condition u is fixed only "
            "up to a constant. Prescribe u on a part of the boundary, or add reaction(...) or "
            "robin(...)."
        )
    return (
        f"Newton's iteration did not converge in {newton.max_steps} steps: the matrix is singular, "
        "a coefficient is NaN, or the start is too far away. Check the coefficients, pass "
        "initial=..., or allow more steps with newton=Newton(max_steps=...)."
    )

"""The exact forward map: latents z -> the finite-element solution u, with all its derivatives.

A damped Newton iteration finds the root of the residual; a linear equation takes one step. Its
derivatives are those of the implicit function theorem, by one more linear solve each, in forward
and in reverse mode and to any order: the iteration itself is never differentiated.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int, PyTree

from riesz.errors import SolveError
from riesz.fem.assembly import check_state, free_residual, jacobian, source_rates, with_dirichlet
from riesz.fem.choice import chosen
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem, check_coefficients
from riesz.fem.terms.coefficient import is_traced, reads_state, resolve
from riesz.fem.terms.weakform import LINEAR

ROOT = "root"
"""The name of solutions where a gradient chooses what to keep and what to compute anew."""

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
    stuck: Bool[Array, ""]  # no step length reduced the residual
    unsolved: Bool[Array, ""]  # because the linear solve failed


class Solution(eqx.Module):
    """The free unknowns, and how far the iteration came."""

    free_values: Float[Array, " free"]
    relative_residual: Float[Array, ""]
    num_steps: Int[Array, ""]
    converged: Bool[Array, ""]
    unsolved: Bool[Array, ""]  # a linear solve failed


class PreparedJacobian(NamedTuple):
    """A matrix, and what a solver needs to know of it."""

    matrix: SparseMatrix
    prepared: PyTree[Array]


class Root(eqx.Module):
    """Where the iteration ended, with the matrix if it is the same everywhere."""

    solution: Solution
    jacobian: PreparedJacobian | None


def solve(
    problem: BoundaryValueProblem,
    z: Any = None,
    *,
    linear_solver: AbstractLinearSolver | None = None,
    newton: Newton | None = None,
    initial: Float[Array, " dof"] | None = None,
) -> Float[Array, " dof"]:
    """All unknowns of the solution; raises `SolveError` where there is none to be found.

    Inside jit a solve that fails raises too, when the compiled code runs. That coefficients are
    finite and positive can only be checked outside of it.
    """
    require_float64(problem)
    z = jax.tree.map(as_array, z)
    if not is_traced((problem, z)):
        check_coefficients(problem, {} if z is None else z)
        for source, _ in problem.point_sources:
            source_rates(source, z)
    if initial is not None:
        check_state(problem, initial)
    linear_solver = chosen(problem, linear_solver)
    newton = Newton() if newton is None else newton
    start = None if initial is None else initial[problem.free]
    solution = find_root(problem, z, linear_solver, newton, start)
    free_values = raise_if_failed(problem, solution, newton)
    return with_dirichlet(problem, free_values, z)


def as_array(leaf: Any) -> Any:
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
    problem: BoundaryValueProblem,
    z: PyTree,
    linear_solver: AbstractLinearSolver,
    newton: Newton,
    start: Float[Array, " free"] | None,
) -> Solution:
    """The root of the residual, differentiable in whatever `problem` and `z` hold."""
    start = jnp.zeros(problem.num_free, problem.dtype) if start is None else start
    start = jax.lax.stop_gradient(start)
    return implicit_root((problem, z), linear_solver, newton, start, None).solution


@eqx.filter_custom_jvp
def implicit_root(problem_and_z, linear_solver, newton, start, known):
    """The root from `start`; the matrix may be `known` where it is the same everywhere."""
    problem, z = problem_and_z
    return newton_iteration(problem, z, linear_solver, newton, start, known)


@implicit_root.def_jvp
def implicit_root_jvp(primals, tangents):
    r"""$\dot u = -J^{-1}\,(\partial r/\partial z)\,\dot z$ at the root."""
    problem_and_z, linear_solver, newton, start, known = primals
    root = implicit_root(problem_and_z, linear_solver, newton, start, known)
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
    problem, z = problem_and_z
    there = root.jacobian or prepared_jacobian(problem, z, values, linear_solver)
    matrix, prepared = jax.lax.stop_gradient(there)
    answer = linear_solver.with_product(product, matrix, prepared, -change)
    # None stands for a tangent of zero.
    no_change = jax.tree.map(lambda _: None, root)
    return root, eqx.tree_at(
        lambda r: r.solution.free_values, no_change, answer, is_leaf=lambda leaf: leaf is None
    )


def prepared_jacobian(
    problem: BoundaryValueProblem,
    z: PyTree,
    free_values: Float[Array, " free"],
    linear_solver: AbstractLinearSolver,
) -> PreparedJacobian:
    matrix = jacobian(problem, with_dirichlet(problem, free_values, z), z)
    return PreparedJacobian(matrix, linear_solver.prepared(matrix))


def is_linear(problem: BoundaryValueProblem, z: PyTree) -> bool:
    """Whether the equation is known to be: its matrix is then the same for all states."""
    return all(
        term.integrand in LINEAR
        and term.crosswind is None
        and not any(reads_state(resolve(c, z, name)) for name, c in term.coefficients.items())
        for term in problem.form.terms
    )


def newton_iteration(
    problem: BoundaryValueProblem,
    z: PyTree,
    linear_solver: AbstractLinearSolver,
    newton: Newton,
    start: Float[Array, " free"],
    known: PreparedJacobian | None = None,
) -> Root:
    """Newton steps until the residual has fallen by the tolerance, or nothing helps any more."""
    constant = known
    if constant is None and is_linear(problem, z):
        constant = prepared_jacobian(problem, z, start, linear_solver)

    def residual_at(free_values):
        return free_residual(problem, with_dirichlet(problem, free_values, z), z)

    def close(iterate: Iterate):
        return jnp.linalg.norm(iterate.residual) <= jnp.maximum(goal, iterate.rounding)

    def unfinished(iterate: Iterate):
        # Rounding alone is no reason to stop: an ill-conditioned matrix wants refinement.
        far = jnp.linalg.norm(iterate.residual) > goal
        return far & (iterate.step < newton.max_steps) & ~iterate.stuck

    def advance(iterate: Iterate) -> Iterate:
        matrix, prepared = constant or prepared_jacobian(
            problem, z, iterate.free_values, linear_solver
        )
        direction = -linear_solver.raw_solve(
            matrix, iterate.residual, transposed=False, prepared=prepared
        )
        moved = damped_step(residual_at, iterate, direction, newton.max_halvings)
        noise = rounding_error(matrix, moved.free_values)
        unsolved = ~jnp.all(jnp.isfinite(direction))
        return eqx.tree_at(lambda it: (it.rounding, it.unsolved), moved, (noise, unsolved))

    residual = residual_at(start)
    first = jnp.linalg.norm(residual)
    goal = newton.tolerance * first
    begin = Iterate(
        free_values=start,
        residual=residual,
        rounding=jnp.zeros_like(first),
        step=jnp.zeros((), jnp.int32),
        stuck=~jnp.isfinite(first),
        unsolved=jnp.zeros((), bool),
    )
    end = jax.lax.while_loop(unfinished, advance, begin)
    last = jnp.linalg.norm(end.residual)
    solution = Solution(
        free_values=end.free_values,
        relative_residual=jnp.where(first == 0, 0.0, last / first),
        num_steps=end.step,
        converged=close(end),
        unsolved=end.unsolved,
    )
    return Root(solution, constant)


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
        unsolved=iterate.unsolved,
    )


def raise_if_failed(
    problem: BoundaryValueProblem, solution: Solution, newton: Newton
) -> Float[Array, " free"]:
    """The solution's free unknowns, or an error that says what went wrong."""
    if is_traced(solution):
        message = f"no solution was found: {singular_advice(problem)} Or: {stalled_advice(newton)}"
        return eqx.error_if(solution.free_values, ~solution.converged, message)
    if bool(jnp.all(solution.converged)):
        return solution.free_values
    if not bool(jnp.all(jnp.isfinite(solution.relative_residual))):
        raise SolveError(
            "the equations are NaN or infinite at the start: look for a coefficient, a rate or a "
            "prescribed value that is not finite there, or pass initial=..."
        )
    if bool(jnp.any(solution.unsolved)):
        raise SolveError(singular_advice(problem))
    reached = float(jnp.max(solution.relative_residual))
    raise SolveError(f"{stalled_advice(newton)} (Relative residual reached: {reached:.2g}.)")


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


def stalled_advice(newton: Newton) -> str:
    return (
        f"Newton's iteration did not converge in at most {newton.max_steps} steps: check the "
        "coefficients, pass initial=... closer to the solution, or allow more steps with "
        "newton=Newton(max_steps=...)."
    )

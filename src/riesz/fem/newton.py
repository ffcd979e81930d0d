r"""Newton's iteration for the root of a residual, from one start after the other.

A linear equation takes one step. Of others some are singular where they start: of
$-\nabla\cdot(u \nabla u) = f$ nothing is left at $u = 0$. Until one converges these are tried:

1. the start that is given, or zero;
2. a level: the mean of the prescribed values, or, where none are, that at which what flows in and
   out of the whole domain would balance;
3. pseudo-time from that level: $(J + \sigma M)\,d = -r$ with the lumped mass $M$ and a rate
   $\sigma$ that falls while residuals stay small (pseudo-transient continuation, Kelley & Keyes
   1998);
4. continuation: the prescribed values go from that level to their own, by strides that are halved
   where Newton fails and doubled where it does not; each begins at the state before it.

All go through the same steps, so that no program grows by them.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from riesz.fem.assembly import dirichlet_values, free_residual, jacobian, with_dirichlet
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem, Newton
from riesz.fem.terms.coefficient import reads_state, resolve
from riesz.fem.terms.integrands import LINEAR

FreeValues = Float[Array, " free"]

GIVEN, LEVEL, PSEUDO_TIME, CONTINUATION = range(4)
"""Starts, in the order in which they are tried; all after these are strides of the last one."""

ROUNDING_UNITS = 4
"""How many units of rounding error a residual may have and still count as zero."""

PSEUDO_STEPS = 4
"""Times as many steps as Newton's iteration may take."""

GROWTH = 2.0
"""A residual may grow so much over the first one in pseudo-time."""

FASTEST, FASTER, SLOWER, SLOWEST = 0.1, 0.5, 8.0, 1e6
"""What the rate is multiplied by: at the least, after a step that left the residual as it was, and
after one that may not be taken; and how large it may become, over the first."""

SETTLED = 1e-3
"""The last step to a solution is shorter, over the state: where a conductivity vanishes for ever
lower values, residuals fall on a way that never ends."""

STRIDE_STEPS, MOST_STRIDES, SHORTEST_STRIDE = 10, 100, 2.0**-12
"""Of continuation: Newton steps in a stride, and how many and how short they may become."""


class NewtonIterate(eqx.Module):
    """Where the iteration stands."""

    free_values: FreeValues
    residual: FreeValues
    rounding: Float[Array, ""]  # a residual that small may be rounding error alone
    rate: Float[Array, ""]  # of pseudo-time; zero for Newton's own steps
    step: Int[Array, ""]
    stuck: Bool[Array, ""]  # no step length reduced the residual
    unsolved: Bool[Array, ""]  # because the linear solve failed
    settled: Bool[Array, ""]  # the step before was short


class Solution(eqx.Module):
    """The free unknowns, and how far the iteration came."""

    free_values: FreeValues
    relative_residual: Float[Array, ""]
    converged: Bool[Array, ""]
    unsolved: Bool[Array, ""]  # linear solves failed from all starts


class PreparedJacobian(NamedTuple):
    """A matrix, and what a solver needs to know of it."""

    matrix: SparseMatrix
    prepared: PyTree[Array]


class Root(eqx.Module):
    """Where the iteration ended, with the matrix if it is the same everywhere."""

    solution: Solution
    jacobian: PreparedJacobian | None


def prepare_jacobian(
    problem: BoundaryValueProblem,
    z: PyTree,
    free_values: FreeValues,
    linear_solver: AbstractLinearSolver,
) -> PreparedJacobian:
    matrix = jacobian(problem, with_dirichlet(problem, free_values, z), z)
    return PreparedJacobian(matrix, linear_solver.prepare(matrix))


def is_linear(problem: BoundaryValueProblem, z: PyTree) -> bool:
    """Whether the equation is known to be: its matrix is then the same for all states."""
    return all(
        term.integrand in LINEAR
        and term.crosswind is None
        and not any(reads_state(resolve(c, z, name)) for name, c in term.coefficients.items())
        for term in problem.form.terms
    )


class Attempt(eqx.Module):
    """From which start the iteration came last, and how far."""

    number: Int[Array, ""]
    end: NewtonIterate
    goal: Float[Array, ""]  # of the residual
    unsolved: Bool[Array, ""]  # linear solves failed from all starts until now
    reached: FreeValues  # where the prescribed values have gone the share of their way
    share: Float[Array, ""]
    stride: Float[Array, ""]


def level_of(
    problem: BoundaryValueProblem, z: PyTree, start: FreeValues
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The mean and range of prescribed values, or where there are none, the level of balance."""
    if len(problem.fixed):
        values = dirichlet_values(problem, z)
        return jnp.mean(values), jnp.ptp(values)
    empty, full = (jnp.sum(free_residual(problem, jnp.full_like(start, u), z)) for u in (0.0, 1.0))
    balance = empty / (empty - full)
    return jnp.where(jnp.isfinite(balance), balance, jnp.mean(start)), jnp.zeros(())


def lumped_mass(problem: BoundaryValueProblem) -> FreeValues:
    """The volume that each free unknown has of the cells around it."""
    domain = problem.cells.domain
    total = jnp.zeros(problem.space.num_dofs, problem.dtype)
    for dofs in domain.dofs:
        total = total.at[dofs].add(domain.measure / len(domain.dofs))
    return total[problem.free]


def with_diagonal(matrix: SparseMatrix, added: FreeValues) -> SparseMatrix:
    rows, columns = matrix.pattern.rows, matrix.pattern.columns
    shift = jnp.where(rows == columns, added[rows], 0.0)
    return SparseMatrix(matrix.pattern, matrix.values + shift)


def newton_iteration(
    problem: BoundaryValueProblem,
    z: PyTree,
    linear_solver: AbstractLinearSolver,
    start: FreeValues,
) -> Root:
    """Newton steps until the residual has fallen by the tolerance, or nothing helps any more."""
    if is_linear(problem, z):
        return linear_iteration(problem, z, linear_solver, start)
    newton = problem.newton
    (level, contrast), mass = level_of(problem, z, start), lumped_mass(problem)

    def attempt(last: Attempt) -> Attempt:
        number = last.number + 1
        in_time, is_stride = number == PSEUDO_TIME, number >= CONTINUATION
        share = jnp.where(is_stride, jnp.minimum(last.share + last.stride, 1.0), 1.0)

        def state_at(free_values: FreeValues) -> Float[Array, " dof"]:
            state = with_dirichlet(problem, free_values, z)
            return state.at[problem.fixed].add((1 - share) * (level - state[problem.fixed]))

        def residual_at(free_values: FreeValues) -> FreeValues:
            return free_residual(problem, state_at(free_values), z)

        values = jnp.where(number == GIVEN, start, last.reached)
        begin = iterate_at(values, residual_at(values))
        first = jnp.linalg.norm(begin.residual)
        # The smallest of all: far away a large residual would pass for a small one. A stride has
        # its own, but for the last one: close to its start all residuals are small.
        smallest = jnp.fmin(last.goal, newton.tolerance * jnp.where(is_stride, jnp.inf, first))
        goal = jnp.where(share < 1, newton.tolerance * first, smallest)
        first_rate = first / (jnp.linalg.norm(mass) * jnp.maximum(1.0, abs(level)))
        begin = eqx.tree_at(lambda own: own.rate, begin, jnp.where(in_time, first_rate, 0.0))

        def step(it: NewtonIterate) -> NewtonIterate:
            matrix = jacobian(problem, state_at(it.free_values), z)
            own = with_diagonal(matrix, it.rate * mass)
            prepared = linear_solver.prepare(own)
            result = linear_solver.raw_solve(own, it.residual, transposed=False, prepared=prepared)
            is_timed, before = it.rate > 0, jnp.linalg.norm(it.residual)
            largest = jnp.where(is_timed, GROWTH * first, before)
            halvings = jnp.where(is_timed, 0, newton.max_halvings)
            after = backtrack(residual_at, it, -result, matrix, largest, halvings)
            left = jnp.linalg.norm(after.residual)
            change = jnp.clip(FASTER * (left / before) ** 2, FASTEST, SLOWER)
            rate = it.rate * jnp.where(after.stuck, SLOWER, change)
            stuck = jnp.where(is_timed, rate > SLOWEST * first_rate, after.stuck)
            scale = jnp.linalg.norm(state_at(values)) + jnp.linalg.norm(state_at(after.free_values))
            # The last one must be Newton's own: a step that pseudo-time cuts short says nothing.
            settled = ~is_timed & (jnp.linalg.norm(result) <= SETTLED * scale)
            changed = (jnp.where(left <= goal, 0.0, rate), stuck, settled)
            return eqx.tree_at(lambda own: (own.rate, own.stuck, own.settled), after, changed)

        max_steps = newton.max_steps * jnp.where(in_time, PSEUDO_STEPS, 1)
        end = iterate_newton(step, begin, goal, jnp.where(is_stride, STRIDE_STEPS, max_steps))
        unsolved = last.unsolved & (end.unsolved | (number >= PSEUDO_TIME))
        has_moved = is_stride & is_close(end, goal)
        stride = last.stride * jnp.where(is_stride, jnp.where(has_moved, 2.0, 0.5), 1.0)
        reached = jnp.where(has_moved, end.free_values, last.reached)
        # What solves the equation with other values prescribed is no end.
        end = jax.tree.map(lambda new, old: jnp.where(share < 1, old, new), end, last.end)
        share = jnp.where(has_moved, share, last.share)
        return Attempt(number, end, smallest, unsolved, reached, share, stride)

    def goes_on(last: Attempt) -> Bool[Array, ""]:
        may_stride = (last.stride >= SHORTEST_STRIDE) & (last.number < CONTINUATION + MOST_STRIDES)
        is_left = (last.number < PSEUDO_TIME) | (may_stride & (contrast > 0))
        return ~is_close(last.end, last.goal) & is_left

    nothing, flat = iterate_at(start, jnp.full_like(start, jnp.nan)), jnp.full_like(start, level)
    goal, share, stride = jnp.asarray([jnp.inf, 0.0, 0.5], start.dtype)
    none = Attempt(jnp.asarray(GIVEN - 1), nothing, goal, jnp.ones((), bool), flat, share, stride)
    last = jax.lax.while_loop(goes_on, attempt, none)
    end = eqx.tree_at(lambda own: own.unsolved, last.end, last.unsolved)
    return Root(solution_of(end, last.goal, newton), None)


def linear_iteration(
    problem: BoundaryValueProblem,
    z: PyTree,
    linear_solver: AbstractLinearSolver,
    start: FreeValues,
) -> Root:
    """With one matrix, which is prepared once: a step, and others where it is ill-conditioned."""
    newton, (matrix, prepared) = problem.newton, prepare_jacobian(problem, z, start, linear_solver)

    def residual_at(free_values: FreeValues) -> FreeValues:
        return free_residual(problem, with_dirichlet(problem, free_values, z), z)

    def step(it: NewtonIterate) -> NewtonIterate:
        rhs = it.residual
        result = linear_solver.raw_solve(matrix, rhs, transposed=False, prepared=prepared)
        largest = jnp.linalg.norm(rhs)
        return backtrack(residual_at, it, -result, matrix, largest, newton.max_halvings)

    begin = iterate_at(start, residual_at(start))
    goal = newton.tolerance * jnp.linalg.norm(begin.residual)
    end = iterate_newton(step, begin, goal, newton.max_steps)
    return Root(solution_of(end, goal, newton), PreparedJacobian(matrix, prepared))


def solution_of(end: NewtonIterate, goal: Float[Array, ""], newton: Newton) -> Solution:
    ratio = newton.tolerance * jnp.linalg.norm(end.residual) / goal
    return Solution(
        free_values=end.free_values,
        relative_residual=jnp.where(goal == 0, 0.0, ratio),
        converged=is_close(end, goal),
        unsolved=end.unsolved,
    )


def is_close(iterate: NewtonIterate, goal: Float[Array, ""]) -> Bool[Array, ""]:
    norm = jnp.linalg.norm(iterate.residual)
    is_small = jnp.isfinite(norm) & (norm <= jnp.maximum(goal, iterate.rounding))
    return is_small & iterate.settled


def iterate_at(values: FreeValues, residual: FreeValues) -> NewtonIterate:
    zero, no = jnp.zeros((), values.dtype), jnp.zeros((), bool)
    is_lost = ~jnp.all(jnp.isfinite(residual))
    return NewtonIterate(values, residual, zero, zero, jnp.zeros((), jnp.int32), is_lost, no, ~no)


def iterate_newton(
    step: Callable[[NewtonIterate], NewtonIterate],
    begin: NewtonIterate,
    goal: Float[Array, ""],
    max_steps: int | Int[Array, ""],
) -> NewtonIterate:
    def is_unfinished(it: NewtonIterate) -> Bool[Array, ""]:
        # Rounding alone is no reason to stop: an ill-conditioned matrix wants refinement.
        far = (jnp.linalg.norm(it.residual) > goal) | ~it.settled
        return far & (it.step < max_steps) & ~it.stuck

    return jax.lax.while_loop(is_unfinished, step, begin)


def rounding_error(matrix: SparseMatrix, values: FreeValues) -> Float[Array, ""]:
    r"""How much of $A u$ may be rounding error: a few units of $\epsilon\,\||A|\,|u|\|$."""
    magnitudes = SparseMatrix(matrix.pattern, abs(matrix.values)) @ abs(values)
    return ROUNDING_UNITS * jnp.finfo(values.dtype).eps * jnp.linalg.norm(magnitudes)


def backtrack(
    residual_at: Callable[[FreeValues], FreeValues],
    iterate: NewtonIterate,
    direction: FreeValues,
    matrix: SparseMatrix,
    largest: Float[Array, ""],
    max_halvings: int | Int[Array, ""],
) -> NewtonIterate:
    """The longest of the steps 1, 1/2, 1/4, ... after which the residual is below the largest."""

    def is_small(residual: FreeValues) -> Bool[Array, ""]:
        return jnp.linalg.norm(residual) < largest

    def too_long(trial):
        length, residual = trial
        return ~is_small(residual) & (length > 0.5**max_halvings)

    def halve(trial):
        length = trial[0] / 2
        return length, residual_at(iterate.free_values + length * direction)

    beyond = (jnp.full((), 2.0, direction.dtype), jnp.full_like(iterate.residual, jnp.inf))
    length, residual = jax.lax.while_loop(too_long, halve, beyond)
    stuck = ~is_small(residual)
    values = jnp.where(stuck, iterate.free_values, iterate.free_values + length * direction)
    return NewtonIterate(
        free_values=values,
        residual=jnp.where(stuck, iterate.residual, residual),
        rounding=rounding_error(matrix, values),
        rate=iterate.rate,
        step=iterate.step + 1,
        stuck=stuck,
        unsolved=~jnp.all(jnp.isfinite(direction)),
        settled=iterate.settled,
    )

"""Solutions in time: one implicit step after the other, with all derivatives.

Derivatives go through the loop by those of each step, forwards and backwards. For a gradient all
states are kept where they fit into memory. Else loops are nested: only where parts of the axis
begin states are kept, and those in between are computed anew, a part after the other, so that
memory grows as the square or the cube root of the number of steps.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.fem.assembly import DofValues, free_residual, with_dirichlet
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.newton import is_linear, prepare_jacobian, rounding_error
from riesz.fem.problem import BoundaryValueProblem, DirichletPiece, Newton
from riesz.fem.root import ROOT, implicit_root, newton_guess
from riesz.fem.time.all_at_once import fits_all_at_once, solve_all_steps
from riesz.fem.time.fixed import (
    FixedMatrices,
    assemble_constant_matrices,
    residual_of_prescribed,
    solve_constant_step,
)
from riesz.fem.time.problem import TransientProblem, at_time, initial_values, with_history
from riesz.fem.time.scheme import Weights, num_stages, stage_times, weights_of

Record = Callable[[DofValues, Any], Any]
"""What is kept of a state, with what the equation reads at that time."""

KEPT_NUMBERS = 1 << 27
"""Numbers, a gigabyte of them, that a gradient may keep instead of solving anew."""

KEPT_STATES = 4
"""Of each step of a loop: those of its stages, and the two that go before."""

MOST_LOOPS = 3
"""One in another: each but the first costs a gradient one more march."""

ROUNDING = 1e-9
"""Of roots of whole numbers."""


class TimeSteppingResult(eqx.Module):
    """What was recorded at all times, and where the march came to a halt."""

    recorded: PyTree[Array]  # with a leading axis of times, the first of all included
    solved: Bool[Array, " time"]


class StepData(eqx.Module):
    """What is known beforehand of a step."""

    stages: tuple[Float[Array, "*step stage"], Weights]  # when they end, and their formulas
    kind: Int[Array, " *step"]
    counts: Bool[Array, " *step"]  # others fill up the last part of the axis


@eqx.filter_jit
def integrate_in_time(
    problem: TransientProblem,
    z: PyTree,
    solver: AbstractLinearSolver,
    newton: Newton,
    record: Record,
) -> TimeSteppingResult:
    """Along the whole axis; differentiable in whatever `problem` and `z` hold."""
    axis, dtype = problem.axis, problem.dtype
    times = stage_times(on_device(axis.times, dtype), problem.scheme)
    each, weights = num_stages(problem.scheme), weights_of(axis, problem.scheme, dtype)
    fixed = assemble_constant_matrices(problem, z, solver, weights.now[::each])
    first, solved = first_state(problem, at_time(z, times[0]), solver, newton, fixed)
    if fixed is not None and fits_all_at_once(solver, len(times) * problem.space.num_dofs):
        states = solve_all_steps(problem.step, z, fixed, first, times[1:], weights)
        ends = jnp.concatenate([first[None], states])[::each]
        rows = jax.vmap(lambda own, when: record(own, at_time(z, when)))(ends, times[::each])
        return TimeSteppingResult(rows, jnp.isfinite(ends).all(axis=1).at[0].set(solved))
    shape, stages = loop_lengths(axis.num_steps, problem.space.num_dofs), (times[1:], weights)
    steps = StepData(
        stages=jax.tree.map(lambda row: row.reshape(axis.num_steps, -1), stages),
        kind=jnp.asarray(axis.kinds),
        counts=jnp.ones(axis.num_steps, bool),
    )
    nested = jax.tree.map(lambda row: reshape_in_parts(row, shape), steps)
    policies = jax.checkpoint_policies
    kept = policies.save_from_both_policies(policies.save_only_these_names(ROOT), keeps_solutions)

    def one(carry, step: StepData):
        return jax.lax.cond(step.counts, forward, idle, carry, step)

    def forward(carry, step: StepData):
        (state, last), converged = jax.lax.scan(partial(of_stage, step.kind), carry, step.stages)
        return (state, last), (record(state, at_time(z, step.stages[0][-1])), jnp.all(converged))

    def of_stage(kind: Int[Array, ""], carry, stage):
        (last, before), (time, weights) = carry, stage
        then = at_time(z, time)
        past = weights.last * last + weights.before * before
        if fixed is None:
            now = with_history(problem.step, weights.now, past)
            values, converged = root_from(now, then, solver, newton, last[problem.step.free])
        else:
            values, converged = solve_constant_step(
                problem.step, then, fixed, kind, weights, past, solver
            )
        return (with_dirichlet(problem.step, values, then), last), converged

    def idle(carry, step: StepData):
        shapes = jax.eval_shape(forward, carry, step)[1]
        return carry, jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)

    is_full = math.prod(shape) == axis.num_steps
    along = jax.checkpoint(forward if is_full else one, policy=kept, prevent_cse=False)
    for number in range(len(shape)):
        along = scan_over(along, anew=number + 1 < len(shape))
    _, rows = along((first, first), nested)
    every = len(shape)
    rows = jax.tree.map(lambda row: row.reshape(-1, *row.shape[every:])[: axis.num_steps], rows)
    begun = (record(first, at_time(z, times[0])), solved)
    both = jax.tree.map(lambda row, later: jnp.concatenate([row[None], later]), begun, rows)
    return TimeSteppingResult(*both)


def scan_over(along: Callable, *, anew: bool) -> Callable:
    """A loop over what goes `along` one part, computed anew for a gradient or not."""

    def whole(carry, parts):
        return jax.lax.scan(along, carry, parts)

    return jax.checkpoint(whole, prevent_cse=False) if anew else whole


def loop_lengths(num_steps: int, num_dofs: int) -> tuple[int, ...]:
    """How long nested loops are: as few of them as leave a gradient with memory enough."""
    depth, length = 1, num_steps
    while depth < MOST_LOOPS and depth * length * KEPT_STATES * num_dofs > KEPT_NUMBERS:
        depth += 1
        length = math.ceil(num_steps ** (1 / depth) - ROUNDING)
    inner = (length,) * (depth - 1)
    return (-(-num_steps // math.prod(inner)), *inner)


def reshape_in_parts(row: Array, shape: tuple[int, ...]) -> Array:
    """Steps by parts; what is left of the last ones repeats the last step, or false."""
    filling = [(0, math.prod(shape) - len(row))] + [(0, 0)] * (row.ndim - 1)
    mode = "constant" if row.dtype == bool else "edge"
    return jnp.pad(row, filling, mode=mode).reshape(*shape, *row.shape[1:])


def first_state(
    problem: TransientProblem,
    z: PyTree,
    solver: AbstractLinearSolver,
    newton: Newton,
    fixed: FixedMatrices | None = None,
) -> tuple[DofValues, Bool[Array, ""]]:
    """The initial state, with what is prescribed at that time."""
    step = problem.step
    if problem.initial is not None:
        return evaluate_initial_state(step, problem.initial, z), jnp.ones((), bool)
    if fixed is not None:
        values = solver(fixed.flow, -residual_of_prescribed(step, z))
        converged = jnp.all(jnp.isfinite(jax.lax.stop_gradient(values)))
    else:
        values, converged = root_from(step, z, solver, newton, newton_guess(step))
    return with_dirichlet(step, values, z), converged


def evaluate_initial_state(
    step: BoundaryValueProblem, initial: DirichletPiece, z: PyTree
) -> DofValues:
    """An initial state that is known, or that unknowns make."""
    values = initial_values(initial, z).astype(step.dtype)
    return with_dirichlet(step, values[step.free], z)


def root_from(
    step: BoundaryValueProblem,
    z: PyTree,
    solver: AbstractLinearSolver,
    newton: Newton,
    start: Float[Array, " free"],
) -> tuple[Float[Array, " free"], Bool[Array, ""]]:
    """The solution of one step, from a state that is near if the equation is not linear."""
    if is_linear(step, z):
        return linear_root(step, z, solver, newton)
    root = implicit_root((step, z), solver, newton, jax.lax.stop_gradient(start))
    return root.solution.free_values, root.solution.converged


def linear_root(
    step: BoundaryValueProblem,
    z: PyTree,
    solver: AbstractLinearSolver,
    newton: Newton,
) -> tuple[Float[Array, " free"], Bool[Array, ""]]:
    """The same by one solve, with derivatives to any order.

    A loop forgets the rules of functions with derivatives of their own once it was differentiated;
    those of an operation, such as the solution of a linear system, stay.
    """
    nothing = jnp.zeros(step.num_free, step.dtype)

    def residual_at(values, step, z):
        return free_residual(step, with_dirichlet(step, values, z), z)

    def product(direction):
        return jax.jvp(lambda own: residual_at(own, step, z), (nothing,), (direction,))[1]

    fixed_step, fixed_z = without_gradient((step, z))
    matrix, prepared = prepare_jacobian(fixed_step, fixed_z, nothing, solver)
    rhs = residual_at(nothing, step, z)
    values = solver.with_product(product, matrix, prepared, -rhs)
    result = jax.lax.stop_gradient(values)
    left = jnp.linalg.norm(residual_at(result, fixed_step, fixed_z))
    goal = newton.tolerance * jnp.linalg.norm(jax.lax.stop_gradient(rhs))
    return values, left <= jnp.maximum(goal, rounding_error(matrix, result))


def without_gradient(tree: PyTree) -> PyTree:
    """The same without derivatives; there may be functions in it."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def keeps_solutions(operation: Any, *_: Any, **__: Any) -> bool:
    """What a gradient keeps of a linear step."""
    return operation.name == "custom_linear_solve"

r"""Solutions in time: one implicit step after the other, with all derivatives.

Derivatives go through the loop by those of each step, forwards and backwards. For a gradient all
states are kept where they fit into memory. Else loops are nested: only where parts of the axis
begin states are kept, and those in between are computed anew, a part after the other, so that
memory grows as the square or the cube root of the number of steps.

Where the matrix is fixed, all steps are one operation of the host. Right-hand sides of all stages
are known before the march begins, but for what each stage takes over from the two before it: they
are assembled together. The rest is one linear system $L u = b$ with a block $\alpha S + K$ for each
stage on its diagonal, solved forwards by substitution, and backwards for derivatives. NumPy does
that with a factor for each length of steps: a solve that is called from a compiled loop takes ten
times as long on a mesh of some hundred nodes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Int, PyTree
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.deadline import check_clock
from riesz.fem.assembly import DofValues, free_residual, with_dirichlet
from riesz.fem.linear.host_lu import Pattern, solver_of
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic, SparseLU, host_operation
from riesz.fem.newton import is_linear, prepare_jacobian, rounding_error
from riesz.fem.problem import BoundaryValueProblem, DirichletPiece
from riesz.fem.root import ROOT, implicit_root, newton_guess
from riesz.fem.time.fixed import (
    FixedMatrices,
    assemble_constant_matrices,
    residual_of_prescribed,
    rhs_of,
    solve_constant_step,
)
from riesz.fem.time.problem import TransientProblem, at_time, initial_values, with_history
from riesz.fem.time.scheme import Weights, num_stages, stage_times, weights_of

MOST_NUMBERS = 1 << 19
"""In the states of all stages: four megabytes for each right-hand side that is marched for."""

States = Float[Array, "stage free"]


def substitute_on_host(
    *operands: ArrayLike, transposed: bool
) -> Float[np.ndarray, "*batch stage free"]:
    """Solve L u = b, or with L transposed; NaN where a block is singular.

    Operands are the entries of S and K, their columns and where rows start, weights one after the
    other, and sides. Leading axes are a batch: sides with matrices in common are solved together.
    """
    *parts, own = map(np.asarray, operands)
    batch = np.broadcast_shapes(own.shape[:-2], *(part.shape[:-1] for part in parts))
    storage, flow = (
        np.broadcast_to(part, (*batch, part.shape[-1])).reshape(-1, part.shape[-1])
        for part in parts[:2]
    )
    pattern, weights = Pattern(*map(first_row, parts[2:4])), first_row(parts[4]).reshape(3, -1)
    is_one = all(part.size == part.shape[-1] for part in parts[:2])
    all_rhs = np.broadcast_to(own, (*batch, *own.shape[-2:]))
    groups = all_rhs.reshape(*((1, -1) if is_one else (-1, 1)), *own.shape[-2:])
    result = [
        substitute_blocks(s, k, pattern, weights, np.moveaxis(group, 0, -1), transposed=transposed)
        for s, k, group in zip(storage, flow, groups, strict=False)
    ]
    return np.moveaxis(np.stack(result), -1, 1).reshape(all_rhs.shape).astype(own.dtype)


def first_row(part: np.ndarray) -> np.ndarray:
    """Of what does not vary along a batch."""
    return part.reshape(-1, part.shape[-1])[0]


def substitute_blocks(
    storage: Float[np.ndarray, " entry"],
    flow: Float[np.ndarray, " entry"],
    pattern: Pattern,
    weights: Float[np.ndarray, "3 stage"],
    all_rhs: Float[np.ndarray, "stage free side"],
    *,
    transposed: bool,
) -> Float[np.ndarray, "stage free side"]:
    (now, last, before), count = weights, len(all_rhs)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that answer with NaN
        matrices = {rate: rate * storage + flow for rate in np.unique(now)}
    solve = {rate: solver_of(own, pattern, transposed=transposed) for rate, own in matrices.items()}
    stored = sp.csr_array((storage, *pattern), shape=(all_rhs.shape[1],) * 2)
    stages, ahead = range(count), -1
    if transposed:
        stored, stages, ahead = sp.csr_array(stored.T), reversed(stages), 1
        last, before = np.append(last[1:], 0.0), np.append(before[2:], [0.0, 0.0])
    # Two rows of zeros at the end, which stages at either end take over: -1 is the last one.
    states = np.zeros((count + 2, *all_rhs.shape[1:]))
    for stage in stages:
        check_clock()
        past = last[stage] * states[stage + ahead] + before[stage] * states[stage + 2 * ahead]
        states[stage] = solve[now[stage]](all_rhs[stage] + stored @ past)
    return states[:count]


host_substitution_p = host_operation("host_substitution", substitute_on_host, num_axes=2)


def fits_all_at_once(solver: AbstractLinearSolver, numbers: int) -> bool:
    """Whether states of so many numbers are found in this way."""
    return isinstance(solver, SparseLU | Automatic) and numbers <= MOST_NUMBERS


def solve_all_steps(
    step: BoundaryValueProblem,
    z: PyTree,
    fixed: FixedMatrices,
    first: DofValues,
    times: Float[Array, " stage"],
    weights: Weights,
) -> Float[Array, "stage dof"]:
    """States when stages end; differentiable in whatever the equation reads."""
    nothing = jnp.zeros(step.num_free, step.dtype)
    prescribed = jax.vmap(lambda when: with_dirichlet(step, nothing, at_time(z, when)))(times)
    before = jnp.concatenate([jnp.stack([first, first]).at[:, step.free].set(0.0), prescribed])
    past = weights.last[:, None] * before[1:-1] + weights.before[:, None] * before[:-2]

    def rhs(when: Float[Array, ""], rate: Float[Array, ""], past: DofValues) -> Array:
        return -rhs_of(step, at_time(z, when), fixed, rate, past)

    all_rhs = jax.vmap(rhs)(times, weights.now, past)
    # The first state is both of those before the first stage, and one before the second.
    shares = weights.before[:2].at[0].add(weights.last[0])
    all_rhs = all_rhs.at[:2].add(jnp.outer(shares, fixed.storage @ first[step.free]))
    values = solve_block_triangular(fixed, weights, all_rhs)
    return prescribed.at[:, step.free].set(values)


def solve_block_triangular(fixed: FixedMatrices, weights: Weights, all_rhs: States) -> States:
    """$L^{-1} b$, with derivatives to any order."""
    storage, flow = fixed.storage, fixed.flow
    now, last, before = weights.now, weights.last, weights.before

    def product(states: States) -> States:
        padded = jnp.pad(states, ((2, 0), (0, 0)))
        own = now[:, None] * states - last[:, None] * padded[1:-1] - before[:, None] * padded[:-2]
        return jax.vmap(storage.__matmul__)(own) + jax.vmap(flow.__matmul__)(states)

    pattern = storage.pattern
    held = jax.lax.stop_gradient((storage.values, flow.values))
    parts = (*held, pattern.columns, pattern.row_starts, jnp.concatenate([now, last, before]))

    solve = partial(host_substitution_p.bind, *parts)
    return jax.lax.custom_linear_solve(
        product,
        all_rhs,
        solve=lambda _, all_rhs: solve(all_rhs, transposed=False),
        transpose_solve=lambda _, all_rhs: solve(all_rhs, transposed=True),
    )


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
    record: Record,
) -> TimeSteppingResult:
    """Along the whole axis; differentiable in whatever `problem` and `z` hold."""
    axis, dtype = problem.axis, problem.dtype
    times = stage_times(on_device(axis.times, dtype), problem.scheme)
    each, weights = num_stages(problem.scheme), weights_of(axis, problem.scheme, dtype)
    fixed = assemble_constant_matrices(problem, z, solver, weights.now[::each])
    first, solved = first_state(problem, at_time(z, times[0]), solver, fixed)
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
            values, converged = root_from(now, then, solver, last[problem.step.free])
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
    fixed: FixedMatrices | None,
) -> tuple[DofValues, Bool[Array, ""]]:
    """The initial state, with what is prescribed at that time."""
    step = problem.step
    if problem.initial is not None:
        return evaluate_initial_state(step, problem.initial, z), jnp.ones((), bool)
    if fixed is not None:
        values = solver(fixed.flow, -residual_of_prescribed(step, z))
        converged = jnp.all(jnp.isfinite(jax.lax.stop_gradient(values)))
    else:
        values, converged = root_from(step, z, solver, newton_guess(step))
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
    start: Float[Array, " free"],
) -> tuple[Float[Array, " free"], Bool[Array, ""]]:
    """The solution of one step, from a state that is near if the equation is not linear."""
    if is_linear(step, z):
        return linear_root(step, z, solver)
    root = implicit_root((step, z), solver, jax.lax.stop_gradient(start))
    return root.solution.free_values, root.solution.converged


def linear_root(
    step: BoundaryValueProblem, z: PyTree, solver: AbstractLinearSolver
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
    goal = step.newton.tolerance * jnp.linalg.norm(jax.lax.stop_gradient(rhs))
    return values, left <= jnp.maximum(goal, rounding_error(matrix, result))


def without_gradient(tree: PyTree) -> PyTree:
    """The same without derivatives; there may be functions in it."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def keeps_solutions(operation: Any, *_: Any, **__: Any) -> bool:
    """What a gradient keeps of a linear step."""
    return operation.name == "custom_linear_solve"

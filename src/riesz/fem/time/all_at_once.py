r"""All steps of a march by one operation of the host, where their matrix is fixed.

Right-hand sides of all stages are known before the march begins, but for what each stage takes over
from the two before it: they are assembled together. The rest is one linear system $L u = b$ with a
block $\alpha S + K$ for each stage on its diagonal, solved forwards by substitution, and backwards
for derivatives. NumPy does that with a factor for each length of steps: a solve that is called from
a compiled loop takes ten times as long on a mesh of some hundred nodes.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from riesz.deadline import check_clock
from riesz.fem.assembly import DofValues, with_dirichlet
from riesz.fem.linear.host_lu import Pattern, solver_of
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic, SparseLU, host_operation
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.time.fixed import FixedMatrices, rhs_of
from riesz.fem.time.problem import at_time
from riesz.fem.time.scheme import Weights

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

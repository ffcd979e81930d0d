r"""All steps of a march by one operation of the host, where their matrix is fixed.

Right-hand sides of all stages are known before the march begins, but for what each stage takes over
from the two before it: they are assembled together. The rest is one linear system $L u = b$ with a
block $\alpha S + K$ for each stage on its diagonal, solved forwards by substitution, and backwards
for derivatives. NumPy does that with a factor for each length of steps: a solve that is called from
a compiled loop takes ten times as long on a mesh of some hundred nodes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from riesz.deadline import check_clock
from riesz.fem.assembly import DofValues, with_dirichlet
from riesz.fem.linear.host_lu import Pattern, solver_of
from riesz.fem.linear.linear_solve import (
    AbstractLinearSolver,
    Automatic,
    SparseLU,
    host_operation,
)
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.time.fixed import FixedMatrices, side_of
from riesz.fem.time.problem import at_time
from riesz.fem.time.scheme import Weights

MOST_NUMBERS = 1 << 19
"""In the states of all stages: four megabytes for each right-hand side that is marched for."""

States = Float[Array, "stage free"]


def march_on_host(
    storage: ArrayLike,
    flow: ArrayLike,
    columns: ArrayLike,
    row_starts: ArrayLike,
    now: ArrayLike,
    last: ArrayLike,
    before: ArrayLike,
    sides: ArrayLike,
    *,
    transposed: bool,
) -> Float[np.ndarray, "*batch stage free"]:
    """Solve L u = b, or with L transposed; NaN where a block is singular.

    Leading axes are a batch. Sides that have the matrices in common are solved for together.
    """
    *parts, own = map(np.asarray, (storage, flow, columns, row_starts, now, last, before, sides))
    num_stages, size = own.shape[-2:]
    batch = np.broadcast_shapes(own.shape[:-2], *(part.shape[:-1] for part in parts))
    stored, flowing = parts[:2]
    pattern, weights = Pattern(*map(first_row, parts[2:4])), list(map(first_row, parts[4:]))
    if stored.size == stored.shape[-1] and flowing.size == flowing.shape[-1]:
        together = np.moveaxis(own.reshape(-1, num_stages, size), 0, -1)
        matrices = (first_row(stored), first_row(flowing))
        found = substituted(matrices, pattern, weights, together, transposed=transposed)
        return np.moveaxis(found, -1, 0).reshape(*batch, num_stages, size).astype(own.dtype)
    found = np.empty((*batch, num_stages, size), own.dtype)
    stored, flowing = (np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts[:2])
    own = np.broadcast_to(own, found.shape)
    for place in np.ndindex(batch):
        matrices = (stored[place], flowing[place])
        found[place] = substituted(
            matrices, pattern, weights, own[place][..., None], transposed=transposed
        )[..., 0]
    return found


def first_row(part: np.ndarray) -> np.ndarray:
    """Of operands that do not vary along a batch."""
    return part.reshape(-1, part.shape[-1])[0]


def substituted(
    matrices: tuple[Float[np.ndarray, " entry"], Float[np.ndarray, " entry"]],
    pattern: Pattern,
    weights: list[Float[np.ndarray, " stage"]],
    sides: Float[np.ndarray, "stage free side"],
    *,
    transposed: bool,
) -> Float[np.ndarray, "stage free side"]:
    (storage, flow), (now, last, before) = matrices, weights
    solvers = {
        rate: solver_of(rate * storage + flow, pattern, transposed=transposed)
        for rate in np.unique(now)
    }
    stored = sp.csr_array((storage, *pattern), shape=(sides.shape[1],) * 2)
    stored = sp.csr_array(stored.T) if transposed else stored
    count, states = len(sides), np.zeros((len(sides) + 2, *sides.shape[1:]))
    # What a stage takes over stands in rows of its own: that of none of them is zero.
    ahead = 1 if transposed else -1
    by_one, by_two = (
        (np.append(last[1:], 0.0), np.append(before[2:], [0.0, 0.0]))
        if transposed
        else (last, before)
    )
    for stage in reversed(range(count)) if transposed else range(count):
        check_clock()
        past = by_one[stage] * states[stage + ahead] + by_two[stage] * states[stage + 2 * ahead]
        states[stage] = solvers[now[stage]](sides[stage] + stored @ past)
    return states[:count]


host_march_p = host_operation("host_march", march_on_host, num_axes=2)


def goes_whole(solver: AbstractLinearSolver, numbers: int) -> bool:
    """Whether states of so many numbers are found in this way."""
    return isinstance(solver, SparseLU | Automatic) and numbers <= MOST_NUMBERS


def whole_march(
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

    def side(when: Float[Array, ""], rate: Float[Array, ""], past: DofValues) -> Array:
        return -side_of(step, at_time(z, when), fixed, rate, past)

    sides = jax.vmap(side)(times, weights.now, past)
    # The first state is both of those before the first stage, and one before the second.
    shares = weights.before[:2].at[0].add(weights.last[0])
    sides = sides.at[:2].add(jnp.outer(shares, fixed.storage @ first[step.free]))
    values = solved_together(fixed, weights, sides)
    return prescribed.at[:, step.free].set(values)


def solved_together(fixed: FixedMatrices, weights: Weights, sides: States) -> States:
    """$L^{-1} b$, with derivatives to any order."""
    storage, flow = fixed.storage, fixed.flow
    now, last, before = weights.now, weights.last, weights.before

    def product(states: States) -> States:
        padded = jnp.pad(states, ((2, 0), (0, 0)))
        own = now[:, None] * states - last[:, None] * padded[1:-1] - before[:, None] * padded[:-2]
        return jax.vmap(storage.__matmul__)(own) + jax.vmap(flow.__matmul__)(states)

    pattern = storage.pattern
    held = jax.lax.stop_gradient((storage.values, flow.values))

    def solve(sides: States, *, transposed: bool) -> States:
        parts = (*held, pattern.columns, pattern.row_starts, now, last, before)
        return host_march_p.bind(*parts, sides, transposed=transposed)

    return jax.lax.custom_linear_solve(
        product,
        sides,
        solve=lambda _, sides: solve(sides, transposed=False),
        transpose_solve=lambda _, sides: solve(sides, transposed=True),
    )

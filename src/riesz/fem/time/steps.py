r"""All steps of a linear equation in time as one matrix, and solves with it forwards and backwards.

$L$ has a block for each step on its diagonal, $\alpha S + K$, and below it what a step takes over
from the two before it. A march backwards, with the transpose, tells of one reading what all steps
do to it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from riesz.arrays import on_device
from riesz.fem.default_solver import map_in_parts
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix, SparsePattern
from riesz.fem.time.fixed import has_fixed_matrix, storage_and_flow
from riesz.fem.time.problem import TransientProblem, at_time
from riesz.fem.time.scheme import Weights, stage_times, weights_of

RightHandSides = Float[Array, "step side free"]


class Steps(eqx.Module):
    """The matrix L of all steps: what is stored in each, what flows, and the formula of its rate.

    Where coefficients do not change there is one row of matrices for all steps.
    """

    pattern: SparsePattern
    storage: Float[Array, "matrix entry"]
    flow: Float[Array, "matrix entry"]
    weights: Weights

    def row(self, number: Array) -> tuple[SparseMatrix, SparseMatrix, Weights]:
        """Storage, flow and weights of a step."""
        own = jnp.minimum(number, len(self.storage) - 1)
        weights = jax.tree.map(lambda rows: rows[number], self.weights)
        storage, flow = (
            SparseMatrix(self.pattern, values[own]) for values in (self.storage, self.flow)
        )
        return storage, flow, weights

    def matrix(self, number: Array) -> SparseMatrix:
        """Of the equation of one step for its own state."""
        storage, flow, weights = self.row(number)
        return SparseMatrix(self.pattern, weights.now * storage.values + flow.values)

    def numbers(self) -> Array:
        return jnp.arange(len(self.weights.now))


def steps_of(problem: TransientProblem, z: PyTree) -> Steps:
    """Of a linear equation; a steady state to begin with is the first step."""
    times = stage_times(on_device(problem.axis.times, problem.dtype), problem.scheme)
    weights = weights_of(problem.axis, problem.scheme, problem.dtype)
    if problem.initial is None:
        weights = jax.tree.map(lambda row: jnp.append(jnp.zeros_like(row[:1]), row), weights)
    else:
        times = times[1:]

    def at(when: Float[Array, ""]) -> tuple[Array, Array]:
        storage, flow = storage_and_flow(problem.step, at_time(z, when))
        return storage.values, flow.values

    storage, flow = jax.lax.map(at, times[:1] if has_fixed_matrix(problem, z) else times)
    return Steps(problem.step.pattern, storage, flow, weights)


def solve_forwards(
    steps: Steps, all_rhs: RightHandSides, solver: AbstractLinearSolver
) -> RightHandSides:
    """Columns of L^-1, for right-hand sides of all steps."""
    nothing = jnp.zeros_like(all_rhs[0])

    def one(carry, given):
        (last, before), (number, rhs) = carry, given
        storage, _, weights = steps.row(number)
        past = weights.last * last + weights.before * before
        rhs = rhs + jax.vmap(storage.__matmul__)(past)
        result = solve_each(steps.matrix(number), rhs, solver, transposed=False)
        return (result, last), result

    return jax.lax.scan(one, (nothing, nothing), (steps.numbers(), all_rhs))[1]


def solve_backwards(
    steps: Steps, all_rhs: RightHandSides, solver: AbstractLinearSolver
) -> RightHandSides:
    """Columns of L^-T: each state is in the equation of its own step and of two later ones."""
    nothing = jnp.zeros_like(all_rhs[0])

    def one(carry, given):
        (later, latest), (number, rhs) = carry, given
        result = solve_each(steps.matrix(number), rhs + later, solver, transposed=True)
        storage, _, weights = steps.row(number)
        back = jax.vmap(storage.transpose_product)(result)
        return (latest + weights.last * back, weights.before * back), result

    given = (steps.numbers(), all_rhs)
    return jax.lax.scan(one, (nothing, nothing), given, reverse=True)[1]


def solve_each(
    matrix: SparseMatrix, all_rhs: Array, solver: AbstractLinearSolver, *, transposed: bool
) -> Float[Array, "side free"]:
    prepared = solver.prepare(matrix)

    def one(rhs: Float[Array, " free"]) -> Float[Array, " free"]:
        return solver.raw_solve(matrix, rhs, transposed=transposed, prepared=prepared)

    return map_in_parts(one, all_rhs, all_rhs.shape[1])

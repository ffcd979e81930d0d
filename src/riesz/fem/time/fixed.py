r"""Steps whose matrix does not change in time, but by their length: it is assembled once.

What is stored in a step and what flows are two matrices, S and K: that of a step is the rate of
its scheme times S, plus K. Each step then takes a product and a solve. Derivatives by what the
equation reads go through the entries of S and K, once for the whole march.

All steps of a linear equation are also one matrix $L$, with a block for each step on its diagonal,
$\alpha S + K$, and below it what a step takes over from the two before it. A march backwards, with
the transpose, tells of one reading what all steps do to it.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.fem.assembly import free_residual, jacobian, residual_of_wells, with_dirichlet
from riesz.fem.default_solver import map_in_parts
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix, SparsePattern
from riesz.fem.newton import is_linear
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import AbstractCoefficient, Function, parts_of
from riesz.fem.terms.series import TIME
from riesz.fem.terms.weakform import Term
from riesz.fem.time.problem import RIGHT_HAND, TransientProblem, at_time, with_history
from riesz.fem.time.scheme import Weights, stage_times, weights_of

FreeValues = Float[Array, " free"]

KEPT_NUMBERS = 1 << 27
"""Of what a solver makes of the matrices of all kinds of steps: a gigabyte."""


class FixedMatrices(eqx.Module):
    """What all steps of a march have in common."""

    storage: SparseMatrix
    flow: SparseMatrix
    rhs: FreeValues | None  # of what does not change in time; nothing where all may
    changing: BoundaryValueProblem | None  # terms that do, wells left out
    prepared: PyTree[Array] | None  # for each kind of step

    def of_step(self, rate: Float[Array, ""]) -> SparseMatrix:
        return SparseMatrix(self.flow.pattern, rate * self.storage.values + self.flow.values)

    def of_kind(self, kind: Int[Array, ""]) -> PyTree[Array] | None:
        return jax.tree.map(lambda rows: rows[kind], self.prepared)


def assemble_constant_matrices(
    problem: TransientProblem,
    z: PyTree,
    solver: AbstractLinearSolver,
    rates: Float[Array, " step"],
) -> FixedMatrices | None:
    """Nothing where there are none."""
    if not has_fixed_matrix(problem, z):
        return None
    step, then = problem.step, at_time(z, on_device(problem.axis.times[0], problem.dtype))
    storage, flow = storage_and_flow(step, then)
    still, changing = split_by_time_dependence(step, then)
    rhs = None if still is None else residual_of_prescribed(still, then)
    bare = FixedMatrices(storage, flow, None, None, None)
    prepared = prepare_by_kind(bare, solver, problem.axis.kinds, rates)
    return FixedMatrices(storage, flow, rhs, changing, prepared)


def storage_and_flow(step: BoundaryValueProblem, z: PyTree) -> tuple[SparseMatrix, SparseMatrix]:
    """The matrices S and K of a linear equation, at the time in `z`."""
    nothing = jnp.zeros(step.space.num_dofs, step.dtype)

    def assemble(rate: Float[Array, ""]) -> SparseMatrix:
        return jacobian(with_history(step, rate, nothing), nothing, z)

    zero, one = jnp.zeros((), step.dtype), jnp.ones((), step.dtype)
    # By its derivative: the difference of two matrices would lose digits of the smaller part.
    flow, storage = eqx.filter_jvp(assemble, (zero,), (one,))
    return SparseMatrix(flow.pattern, storage.values), flow


def prepare_by_kind(
    fixed: FixedMatrices,
    solver: AbstractLinearSolver,
    kinds: tuple[int, ...],
    rates: Float[Array, " step"],
) -> PyTree[Array] | None:
    """What the solver makes of each matrix, by one program; nothing where that is too much."""
    held = jax.lax.stop_gradient(fixed)
    _, first = np.unique(kinds, return_index=True)

    def prepare(rate: Float[Array, ""]) -> PyTree[Array]:
        return solver.prepare(held.of_step(rate))

    shapes = jax.tree.leaves(eqx.filter_eval_shape(prepare, rates[0]))
    if len(first) * sum(shape.size for shape in shapes) > KEPT_NUMBERS:
        return None
    return jax.lax.map(prepare, jax.lax.stop_gradient(rates)[first])


def has_fixed_matrix(problem: TransientProblem, z: PyTree) -> bool:
    """Whether the equation is linear, and its matrix changes by the length of steps alone."""
    then = at_time(z, on_device(problem.axis.times[0], problem.dtype))
    return is_linear(problem.step, then) and not has_changing_matrix(problem.step, then)


def residual_of_prescribed(step: BoundaryValueProblem, z: PyTree) -> FreeValues:
    """The residual of what is prescribed, with nothing stored."""
    return free_residual(step, with_dirichlet(step, jnp.zeros(step.num_free, step.dtype), z), z)


def split_by_time_dependence(
    step: BoundaryValueProblem, z: PyTree
) -> tuple[BoundaryValueProblem | None, BoundaryValueProblem | None]:
    """Terms whose right-hand side never changes, and those where it may, if there are any.

    Steps assemble the latter alone. There is no such division where prescribed values change, which
    all terms read, and where upwinding weighs terms by each other.
    """

    def changes_side(term: Term) -> bool:
        own = term.coefficients
        return any(changes(own[name], step, z) for name in own if name in RIGHT_HAND)

    def only(wanted: bool) -> BoundaryValueProblem:
        cells, *facets = (
            dataclasses.replace(
                group, terms=tuple(term for term in group.terms if changes_side(term) is wanted)
            )
            for group in (step.cells, *step.facets)
        )
        facets = tuple(group for group in facets if group.terms)
        return dataclasses.replace(step, cells=cells, facets=facets, point_sources=())

    still, changing = only(False), only(True)
    if any(changes(piece.value, step, z) for piece in step.dirichlet):
        return None, None
    if not (changing.cells.terms or changing.facets):
        return still, None
    weighed = any(term.streamline for term in step.form.terms)
    is_apart = still.cells.terms and changing.cells.terms and not weighed
    return (still, changing) if is_apart else (None, None)


def solve_constant_step(
    step: BoundaryValueProblem,
    z: PyTree,
    fixed: FixedMatrices,
    kind: Int[Array, ""],
    weights: Weights,
    past: Float[Array, " dof"],
    solver: AbstractLinearSolver,
) -> tuple[FreeValues, Bool[Array, ""]]:
    """The solution of one step, and whether it is one."""
    before = past.at[step.free].set(0.0)
    rhs = rhs_of(step, z, fixed, weights.now, before) - fixed.storage @ past[step.free]
    matrix = fixed.of_step(weights.now)
    held = jax.lax.stop_gradient(matrix)
    prepared = solver.prepare(held) if fixed.prepared is None else fixed.of_kind(kind)
    values = solver.with_product(matrix.__matmul__, held, prepared, -rhs)
    # Solvers look at their residuals themselves, and answer with NaN.
    return values, jnp.all(jnp.isfinite(jax.lax.stop_gradient(values)))


def rhs_of(
    step: BoundaryValueProblem,
    z: PyTree,
    fixed: FixedMatrices,
    rate: Float[Array, ""],
    past: Float[Array, " dof"],
) -> FreeValues:
    """The residual of a step of what is prescribed, now and before: it may have been different."""
    if fixed.rhs is None:
        prescribed = with_dirichlet(step, jnp.zeros(step.num_free, step.dtype), z)
        return free_residual(with_history(step, rate, past), prescribed, z)
    rhs = fixed.rhs + residual_of_wells(step, z)[step.free]
    changing = fixed.changing
    return rhs if changing is None else rhs + residual_of_prescribed(changing, z)


def has_changing_matrix(step: BoundaryValueProblem, z: PyTree) -> bool:
    """Whether a coefficient that the matrix is made of may change in time."""
    return any(
        changes(coefficient, step, z)
        for term in step.form.terms
        for name, coefficient in term.coefficients.items()
        if name not in RIGHT_HAND
    )


def changes(coefficient: AbstractCoefficient, step: BoundaryValueProblem, z: PyTree) -> bool:
    dim = step.space.mesh.dim
    return any(
        reads_time(part, z, dim) if isinstance(part, Function) else TIME in part.names
        for part in parts_of(coefficient)
    )


def reads_time(function: Function, z: PyTree, dim: int) -> bool:
    """Whether a function of (x, z) asks for the time."""
    asked = TimeProbe({**z, **dict.fromkeys(function.fields, jnp.zeros(()))})
    if function.num_arguments == 2:
        jax.eval_shape(lambda: function.function(jnp.zeros(dim), asked))
    return asked.for_time


class TimeProbe(dict):
    """What the equation reads, which notices when it is asked for the time."""

    for_time = False

    def __getitem__(self, name: str) -> Any:
        self.for_time |= name == TIME
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.for_time |= name == TIME
        return super().get(name, default)


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


def single_step(matrix: SparseMatrix) -> Steps:
    """A steady equation, as one step in which nothing is stored."""
    nothing = jnp.zeros(1, matrix.values.dtype)
    values = matrix.values[None]
    return Steps(matrix.pattern, jnp.zeros_like(values), values, Weights(nothing, nothing, nothing))


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

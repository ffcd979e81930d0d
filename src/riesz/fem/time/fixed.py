"""Steps whose matrix does not change in time, but by their length: it is assembled once.

What is stored in a step and what flows are two matrices, S and K: that of a step is the rate of
its scheme times S, plus K. Each step then takes a product and a solve. Derivatives by what the
equation reads go through the entries of S and K, once for the whole march.
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
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.newton import is_linear
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import AbstractCoefficient, Function, parts_of
from riesz.fem.terms.series import TIME
from riesz.fem.terms.weakform import Term
from riesz.fem.time.problem import RIGHT_HAND, TransientProblem, at_time, with_history
from riesz.fem.time.scheme import Weights

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

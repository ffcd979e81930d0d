"""Multigrid as a preconditioner: a linear solver for matrices of one pattern, on any device."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PyTree
from scipy.sparse.csgraph import reverse_cuthill_mckee

from riesz.arrays import on_device
from riesz.errors import SolveError
from riesz.fem.linear.linear_solve import AbstractLinearSolver, host_lu
from riesz.fem.linear.multigrid.cycle import Matrices, Transfer, cycle, matrices
from riesz.fem.linear.multigrid.galerkin import coarse_pattern, galerkin, number_entries
from riesz.fem.linear.multigrid.krylov import KrylovResult, conjugate_gradients, conjugate_residuals
from riesz.fem.linear.multigrid.tables import (
    Layout,
    Rows,
    Table,
    combination,
    gather,
    layout,
    table,
)
from riesz.fem.linear.sparse import SparseMatrix, SparsePattern

Vector = Float[Array, " size"]

LOST_DIGITS = 10
"""By so much the true residual may be above that of the iteration, which drifts away from it."""


class PreparedLevels(eqx.Module):
    """What solves with one matrix have in common."""

    finest: tuple[Float[Array, "_ _"], ...]  # the values of its rows
    levels: Matrices
    size: Float[Array, ""] | None = None  # of the numbers that were scaled by it


class Multigrid(AbstractLinearSolver):
    """Krylov iterations preconditioned by a V-cycle; made by `multigrid` for one pattern.

    The matrices of the coarser levels are made from that of the finest inside compiled code, so
    that the same solver serves all coefficients.
    """

    tables: tuple[Table, ...]  # the finest level first
    transfers: tuple[Transfer, ...]
    order: Int[Array, " padded"]  # unknowns in the order of the finest level
    position: Int[Array, " size"]  # of each unknown in it
    entries: Int[Array, " entry"]  # entries of the matrix in that order
    transposed_entries: Int[Array, " entry"]
    tolerance: float = eqx.field(static=True, default=1e-11)
    max_steps: int = eqx.field(static=True, default=100)
    single_precision: bool = eqx.field(static=True, default=False)  # in the cycle only
    smoothing: int = eqx.field(static=True, default=3)  # steps before and after each correction
    is_symmetric: bool = eqx.field(static=True, default=True)
    fallback: bool = eqx.field(static=True, default=False)  # to sparse LU on the host

    def __check_init__(self):
        if not 0 < self.tolerance < 1:
            raise SolveError(f"the tolerance is {self.tolerance}: it must lie between 0 and 1.")

    def prepare(self, matrix: SparseMatrix) -> PreparedLevels:
        """The matrices of all levels; those of the transpose are the same, or are made for it."""
        self.check_pattern(matrix)
        return self.levels(gather(matrix.values, self.entries))

    def levels(self, values: Float[Array, " entry"]) -> PreparedLevels:
        made = matrices(self.tables, self.transfers, values, is_symmetric=self.is_symmetric)
        finest = self.tables[0].fill(values).values
        if not self.single_precision:
            return PreparedLevels(finest, made)
        # Numbers of any size must fit into single precision.
        size = jnp.max(abs(values))
        scaled = Matrices(
            jax.tree.map(lambda part: part / size, made.values),
            jax.tree.map(lambda part: part * size, made.inverse_diagonals),
            made.coarsest * size,
        )
        return PreparedLevels(finest, scaled.astype(jnp.float32), size)

    def raw_solve(
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        solution = self.outcome(matrix, rhs, transposed=transposed, prepared=prepared).solution
        if not self.fallback:
            return solution

        # A loop instead of a condition: mapped over a batch, the latter would do both.
        def has_failed(solution):
            return jnp.any(jnp.isnan(solution))

        def on_host(at):
            # Seemingly another side each time: what does not change would be computed before the
            # loop, hence always.
            own = jnp.where(at[1], 0.0, rhs)
            return host_lu(matrix, own, transposed=transposed), jnp.ones((), bool)

        start = solution, jnp.zeros((), bool)
        return jax.lax.while_loop(lambda at: has_failed(at[0]) & ~at[1], on_host, start)[0]

    @eqx.filter_jit
    def outcome(
        self,
        matrix: SparseMatrix,
        rhs: Vector,
        *,
        transposed: bool = False,
        prepared: PreparedLevels | None = None,
    ) -> KrylovResult:
        """The solution, NaN where the iteration did not converge, and how it was found."""
        self.check_pattern(matrix)
        if transposed and not self.is_symmetric:
            prepared = self.levels(gather(matrix.values, self.transposed_entries))
        elif prepared is None:
            prepared = self.prepare(matrix)
        rows = Rows(self.tables[0].columns, prepared.finest)
        own = rhs.at[self.order].get(mode="fill", fill_value=0.0)
        iterate = conjugate_gradients if self.is_symmetric else conjugate_residuals
        precondition = self.preconditioner(prepared)
        limits = self.tolerance, self.max_steps
        result = iterate(rows.__matmul__, precondition, own, *limits, gives_up=self.fallback)
        solution = jnp.where(self.is_good(rows, result.solution, own), result.solution, jnp.nan)
        return KrylovResult(
            gather(solution, self.position), result.iterations, result.relative_residual
        )

    def preconditioner(self, prepared: PreparedLevels) -> Callable[[Vector], Vector]:
        approximate = cycle(
            self.tables,
            self.transfers,
            prepared.levels,
            self.smoothing,
            is_symmetric=self.is_symmetric,
        )
        size = prepared.size
        if size is None:
            return approximate

        def in_single_precision(residual: Vector) -> Vector:
            scale = jnp.max(abs(residual))
            scaled = jnp.where(scale > 0, residual / scale, 0.0).astype(jnp.float32)
            return approximate(scaled).astype(residual.dtype) * (scale / size)

        return in_single_precision

    def check_pattern(self, matrix: SparseMatrix) -> None:
        if matrix.pattern.size != len(self.position) or len(matrix.values) != len(self.entries):
            raise SolveError(
                f"the multigrid solver was made for {len(self.position)} unknowns and "
                f"{len(self.entries)} entries, but the matrix has {matrix.pattern.size} and "
                f"{len(matrix.values)}: make one for this problem, rz.solvers.multigrid(problem)."
            )

    def is_good(self, rows, solution, rhs):
        # What did not converge (an unsymmetric matrix, say) must not pass for a solution.
        left = jnp.linalg.norm(rhs - rows @ solution)
        rounding = jnp.finfo(rhs.dtype).eps * jnp.max(abs(solution)) * rows.magnitudes()
        goal = LOST_DIGITS * self.tolerance * jnp.linalg.norm(rhs)
        converged = left <= jnp.maximum(goal, jnp.linalg.norm(rounding))
        # Constants in the null space leave the solution undetermined, and the iteration does not
        # mind.
        ones = jnp.ones_like(rhs)
        undetermined = jnp.max(abs(rows @ ones)) < 1e-13 * jnp.max(rows.magnitudes())
        return converged & ~undetermined


def from_prolongations(
    pattern: SparsePattern, prolongations: Sequence[sp.csr_array], **settings
) -> Multigrid:
    """The solver for a pattern and prolongations between its levels, that to the finest first."""
    size = pattern.size
    numbers = np.arange(len(pattern.columns), dtype=np.int32)
    places = np.asarray(pattern.columns), np.asarray(pattern.row_starts)
    original = sp.csr_array((numbers, *places), shape=(size, size))
    finest = finer = level_layout(original)
    fine = finest.reorder(original)
    entries = fine.data
    transposed_entries = entries[transpose_entries(fine)]
    tables, transfers = [table(fine, finest)], []
    for prolongation in prolongations:
        own = finer.rows_of(prolongation)
        unordered = coarse_pattern(fine, own)
        coarser = level_layout(unordered)
        own = sp.csr_array(coarser.rows_of(sp.csr_array(own.T)).T)
        own.sort_indices()
        coarse = coarser.reorder(unordered)
        transfers.append(
            Transfer(
                galerkin=galerkin(fine, own, coarse),
                prolong=combination(own),
                restrict=combination(sp.csr_array(own.T)),
                mirrored=on_device(transpose_entries(coarse), np.int32),
            )
        )
        tables.append(table(coarse, coarser))
        fine, finer = coarse, coarser
    return Multigrid(
        tables=tuple(tables),
        transfers=tuple(transfers),
        order=on_device(finest.order, np.int32),
        position=on_device(finest.position, np.int32),
        entries=on_device(entries, np.int32),
        transposed_entries=on_device(transposed_entries, np.int32),
        **settings,
    )


def level_layout(pattern: sp.csr_array) -> Layout:
    """Neighbours close to one another: what they read is then still in a processor's cache."""
    return layout(pattern, reverse_cuthill_mckee(sp.csr_matrix(pattern), symmetric_mode=True))


def transpose_entries(pattern: sp.csr_array) -> Int[np.ndarray, " entry"]:
    """For each entry that across the diagonal, in a symmetric pattern with sorted indices."""
    return sp.csr_array(number_entries(pattern).T).data

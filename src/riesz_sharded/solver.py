"""Multigrid on several devices: fine levels by their owners, coarse ones by each for itself.

Conjugate gradients, smoothing, transfers between fine levels and the matrices of coarser ones
exchange what lies along the borders with neighbours. From a level on that is small, each device
gathers all of it and does the same as the others: the plain cycle.

Sparse products go by rows, of which each device has those that it owns. Tables have an axis of
devices before the others, along which they are sharded; within `shard_map` each device sees its
own.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from riesz.errors import SolveError
from riesz.fem import BoundaryValueProblem
from riesz.mesh import Hierarchy
from riesz.solvers import AbstractLinearSolver, Multigrid, SparseMatrix, SparsePattern
from riesz.solvers.blocks import (
    AXIS,
    LOST_DIGITS,
    Cycle,
    KrylovResult,
    Measures,
    PreparedLevels,
    chebyshev,
    coarse_pattern,
    conjugate_gradients,
    diagonal_first,
    from_prolongations,
    galerkin_products,
    gather,
    mesh_of,
    on_device,
    prolongations_of,
    resolve_settings,
    round_width,
    rows_of,
    slots,
    weighted_sum,
)
from riesz_sharded.partition import AnyArray, Exchange, Shares, bisect_points, plan_exchange, shares

Vector = Float[Array, " size"]

DevicesLike = int | Literal["all"] | Sequence[Any]
"""How many of this process, all of them, or JAX's own."""

FEWEST = 4096
"""Unknowns of a level for each device, below which the exchange takes longer than the work."""


class SharedCombination(eqx.Module):
    """Fixed linear combinations of numbers that devices own: a sparse matrix of known values."""

    exchange: Exchange
    places: Int[AnyArray, "*device slot row"]
    weights: Float[AnyArray, "*device slot row"]

    def __call__(self, own: Float[Array, " place"]) -> Float[Array, " row"]:
        weights, places = jnp.asarray(self.weights, own.dtype), jnp.asarray(self.places)
        return weighted_sum(weights, places, self.exchange(own))


class SharedTable(eqx.Module):
    """Where the entries of a square matrix stand; the diagonal has the first slot."""

    exchange: Exchange
    columns: Int[AnyArray, "*device slot row"]
    entries: Int[AnyArray, "*device slot row"]  # among the device's own; past the end: none

    def fill(self, values: Float[Array, " entry"]) -> "SharedRows":
        result = values.at[self.entries].get(
            mode="fill", fill_value=0.0, wrap_negative_indices=False
        )
        return SharedRows(self.exchange, jnp.asarray(self.columns), result)


class SharedRows(eqx.Module):
    """The rows of a square matrix that a device owns."""

    exchange: Exchange
    columns: Int[Array, "slot row"]
    values: Float[Array, "slot row"]

    def __matmul__(self, own: Float[Array, " row"]) -> Float[Array, " row"]:
        return weighted_sum(self.values, self.columns, self.exchange(own))

    def magnitudes(self) -> Float[Array, " row"]:
        """The sum of the sizes of the entries of each row."""
        return jnp.sum(abs(self.values), axis=0)

    def inverse_diagonal(self) -> Float[Array, " row"]:
        """Divided by a bound of the eigenvalues of the scaled matrix (Gershgorin); zero where a row
        only fills up."""
        diagonal = self.values[0]
        shares = jnp.where(diagonal == 0, 0.0, self.magnitudes() / abs(diagonal))
        bound = jax.lax.pmax(jnp.max(shares), AXIS)
        return jnp.where(diagonal == 0, 0.0, 1 / (bound * diagonal))


def shard_combination(matrix: sp.csr_array, rows: Shares, columns: Shares) -> SharedCombination:
    """A sparse matrix by the owners of its rows, for vectors by the owners of its columns."""
    entries = row_slots(matrix, rows)
    plan, places = plan_exchange(
        columns, [matrix.indices[own[own < matrix.nnz]] for own in entries]
    )
    result = entries < matrix.nnz
    kept = np.minimum(entries, matrix.nnz - 1)
    stands = np.stack([at[matrix.indices[own]] for at, own in zip(places, kept, strict=True)])
    weights = np.where(result, matrix.data[kept], 0.0)
    return SharedCombination(plan, np.where(result, stands, 0).astype(np.int32), weights)


def shard_table(pattern: sp.csr_array, rows: Shares, of_entries: Shares) -> SharedTable:
    """The tables of a square pattern by the owners of its rows and, alike, of its entries."""
    ordered, entries = diagonal_first(pattern), row_slots(pattern, rows)
    result = entries < pattern.nnz
    kept = ordered[np.minimum(entries, pattern.nnz - 1)]
    plan, places = plan_exchange(
        rows, [pattern.indices[own[is_one]] for own, is_one in zip(kept, result, strict=True)]
    )
    stands = np.stack([at[pattern.indices[own]] for at, own in zip(places, kept, strict=True)])
    first = (np.arange(rows.num_devices) * of_entries.num_places)[:, None, None]
    own = np.where(result, of_entries.position[kept] - first, of_entries.num_places)
    return SharedTable(plan, np.where(result, stands, 0).astype(np.int32), own.astype(np.int32))


def row_slots(matrix: sp.csr_array, rows: Shares) -> Int[np.ndarray, "device slot row"]:
    """Entries of the rows of each device, slot by slot; the number of all entries for none."""
    width = round_width(int(np.diff(matrix.indptr).max()))
    size = len(matrix.indptr) - 1
    own = np.where(rows.order == size, -1, rows.order)
    return np.stack([slots(matrix.indptr, one, width) for one in own])


class SharedTransfer(eqx.Module):
    """From a level to the next coarser one and back, and that one's matrix."""

    right: SharedCombination
    left: SharedCombination
    prolong: SharedCombination
    restrict: SharedCombination


class OwnedLevel(eqx.Module):
    """A level's matrix on one device, ready for smoothing."""

    rows: SharedRows
    inverse_diagonal: Vector


class CoarseInverse(eqx.Module):
    """The inverse of the first level that every device has whole."""

    inner: Multigrid
    prepared: PreparedLevels
    order: Int[Array, "device place"]  # the level's unknowns by device
    position: Int[Array, " unknown"]

    def __matmul__(self, own: Vector) -> Vector:
        rhs = gather(jax.lax.all_gather(own, AXIS).ravel(), self.position)
        ordered = rhs.at[self.inner.order].get(mode="fill", fill_value=0.0)
        solution = gather(self.inner.preconditioner(self.prepared)(ordered), self.inner.position)
        mine = self.order[jax.lax.axis_index(AXIS)]
        return solution.at[mine].get(mode="fill", fill_value=0.0)


class Tables(eqx.Module):
    """Sharded along their first axis."""

    levels: tuple[SharedTable, ...]  # the finest first
    transfers: tuple[SharedTransfer, ...]


class ShardedMultigrid(AbstractLinearSolver):
    """Conjugate gradients preconditioned by a V-cycle, with unknowns and rows on several devices.

    Made by `sharded_multigrid` for one pattern of symmetric matrices.
    """

    tables: Tables
    order: Int[Array, "device place"]  # unknowns by device
    position: Int[Array, " size"]
    entries: Int[Array, "device entry"]  # entries of the finest matrix by device
    coarse_entries: Int[Array, " entry"]  # where those of the first whole level stand
    coarse_order: Int[Array, "device place"]
    coarse_position: Int[Array, " unknown"]
    inner: Multigrid
    mesh: Mesh = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, default=1e-11)
    max_steps: int = eqx.field(static=True, default=100)
    smoothing: int = eqx.field(static=True, default=3)

    def raw_solve(
        self, matrix: SparseMatrix, rhs: Vector, *, transposed: bool, prepared: PyTree = None
    ) -> Vector:
        return self.outcome(matrix, rhs).solution

    @eqx.filter_jit
    def outcome(self, matrix: SparseMatrix, rhs: Vector) -> KrylovResult:
        """The solution, NaN where the iteration did not converge, and how it was found."""
        if matrix.pattern.size != len(self.position):
            raise SolveError(
                f"the solver was made for {len(self.position)} unknowns, but the matrix has "
                f"{matrix.pattern.size}: make one for it, riesz_sharded.sharded_multigrid(problem)."
            )
        values = matrix.values.at[self.entries].get(mode="fill", fill_value=0.0)
        own = rhs.at[self.order].get(mode="fill", fill_value=0.0)
        shared, whole = PartitionSpec(AXIS), PartitionSpec()
        arrays, still = eqx.partition(self.coarse(), eqx.is_array)

        def part(tables: Tables, arrays: PyTree, values: Array, own: Array):
            tables, values, own = jax.tree.map(lambda leaf: leaf[0], (tables, values, own))
            result, left = self.of_device(tables, values, own, eqx.combine(arrays, still))
            return result.solution[None], result.iterations, left

        solution, iterations, left = jax.shard_map(
            part,
            mesh=self.mesh,
            in_specs=(shared, whole, shared, shared),
            out_specs=(shared, whole, whole),
            check_vma=False,
        )(self.tables, arrays, values, own)
        return KrylovResult(gather(solution.ravel(), self.position), iterations, left)

    def coarse(self) -> tuple[Multigrid, Array, Array, Array]:
        """What is whole on every device."""
        return self.inner, self.coarse_entries, self.coarse_order, self.coarse_position

    def of_device(
        self, tables: Tables, values: Float[Array, " entry"], rhs: Vector, coarse: PyTree
    ) -> tuple[KrylovResult, Float[Array, ""]]:
        """What one device does, with its rows and its part of the right-hand side."""
        levels = []
        for table, transfer in zip(tables.levels, tables.transfers, strict=True):
            rows = table.fill(values)
            levels.append(OwnedLevel(rows, rows.inverse_diagonal()))
            values = transfer.left(transfer.right(values))
        inner, entries, order, position = coarse
        every = gather(jax.lax.all_gather(values, AXIS).ravel(), entries)
        prepared = inner.levels(gather(every, inner.entries))
        rows, coarsest = levels[0].rows, CoarseInverse(inner, prepared, order, position)
        cycle = Cycle(tuple(levels), tables.transfers, coarsest, chebyshev(self.smoothing))
        measures = Measures(global_dot, lambda own: jnp.sqrt(global_dot(own, own)))
        limits = self.tolerance, self.max_steps
        result = conjugate_gradients(rows.__matmul__, cycle, rhs, *limits, measures)
        size = measures.norm(rhs)
        left = measures.norm(rhs - rows @ result.solution)
        largest = jax.lax.pmax(jnp.max(abs(result.solution)), AXIS)
        rounding = measures.norm(jnp.finfo(rhs.dtype).eps * largest * rows.magnitudes())
        # Constants in the null space leave the solution undetermined.
        sums = jax.lax.pmax(jnp.max(abs(rows @ jnp.where(rows.values[0] == 0, 0.0, 1.0))), AXIS)
        steady = sums >= 1e-13 * jax.lax.pmax(jnp.max(rows.magnitudes()), AXIS)
        good = (left <= jnp.maximum(LOST_DIGITS * self.tolerance * size, rounding)) & steady
        solution = jnp.where(good, result.solution, jnp.nan)
        return KrylovResult(solution, result.iterations, left), result.relative_residual


def global_dot(one: Vector, other: Vector) -> Float[Array, ""]:
    return jax.lax.psum(jnp.vdot(one, other), AXIS)


def sharded_multigrid(
    problem: BoundaryValueProblem,
    devices: DevicesLike = "all",
    hierarchy: Hierarchy | None = None,
    *,
    fewest: int = FEWEST,
    tolerance: float = 1e-11,
    max_steps: int = 100,
) -> ShardedMultigrid:
    """A linear solver for the symmetric matrices of a problem, with its unknowns on `devices`.

    Levels with fewer unknowns a device than `fewest`, but the finest, are solved for by every
    device for itself. All of the devices must be those of this process.
    """
    settings = resolve_settings(problem, {})
    if not settings["is_symmetric"]:
        raise SolveError(
            "the sharded solver takes symmetric equations, and this one has transport: use "
            "rz.solvers.multigrid."
        )
    prolongations = prolongations_of(problem, hierarchy)
    if not prolongations:
        raise SolveError(
            f"{problem.num_free} unknowns are too few to share: use rz.solvers.SparseLU()."
        )
    mesh = mesh_of(devices)
    owner = bisect_points(np.asarray(problem.space.points), mesh.size)[np.asarray(problem.free)]
    levels = shard_levels(problem.pattern, prolongations, owner, mesh.size, fewest)
    inner = from_prolongations(
        pattern_of(levels.coarse), prolongations[len(levels.transfers) :],
        is_symmetric=True, smoothing=settings["smoothing"],
    )  # fmt: skip
    sharded = NamedSharding(mesh, PartitionSpec(AXIS))
    tables = jax.device_put(Tables(levels.tables, levels.transfers), sharded)
    return ShardedMultigrid(
        tables=tables,
        order=jax.device_put(levels.finest.order.astype(np.int32), sharded),
        position=on_device(levels.finest.position, np.int32),
        entries=jax.device_put(levels.entries.order.astype(np.int32), sharded),
        coarse_entries=on_device(levels.coarse_entries.position, np.int32),
        coarse_order=on_device(levels.coarsest.order, np.int32),
        coarse_position=on_device(levels.coarsest.position, np.int32),
        inner=inner,
        mesh=mesh,
        tolerance=tolerance,
        max_steps=max_steps,
        smoothing=settings["smoothing"],
    )


class SharedLevels(NamedTuple):
    """Levels that are shared, and the first that is not."""

    tables: tuple[SharedTable, ...]
    transfers: tuple[SharedTransfer, ...]
    finest: Shares
    entries: Shares
    coarsest: Shares
    coarse_entries: Shares
    coarse: sp.csr_array


def shard_levels(
    pattern: SparsePattern,
    prolongations: Sequence[sp.csr_array],
    owner: Int[np.ndarray, " unknown"],
    count: int,
    fewest: int,
) -> SharedLevels:
    places = np.asarray(pattern.columns), np.asarray(pattern.row_starts)
    fine = sp.csr_array((np.ones(len(places[0])), *places), shape=(pattern.size,) * 2)
    finest = own = shares(owner, count)
    entries = of_entries = shares(own.owner[rows_of(fine)], count)
    tables, transfers = [], []
    for between in prolongations:
        if tables and len(fine.indptr) - 1 < fewest * count:
            break
        coarse = coarse_pattern(fine, between)
        products = galerkin_products(fine, between, coarse)
        # A coarse unknown belongs to who owns the fine one that it says most of.
        backwards = sp.csr_array(between.T)
        next_own = shares(own.owner[heaviest(backwards)], count)
        next_entries = shares(next_own.owner[rows_of(coarse)], count)
        halves = shares(own.owner[rows_of(products.half)], count)
        tables.append(shard_table(fine, own, of_entries))
        transfers.append(
            SharedTransfer(
                right=shard_combination(products.right, halves, of_entries),
                left=shard_combination(products.left, next_entries, halves),
                prolong=shard_combination(between, own, next_own),
                restrict=shard_combination(backwards, next_own, own),
            )
        )
        fine, own, of_entries = coarse, next_own, next_entries
    return SharedLevels(tuple(tables), tuple(transfers), finest, entries, own, of_entries, fine)


def heaviest(matrix: sp.csr_array) -> Int[np.ndarray, " row"]:
    """The column of the largest entry of each row."""
    rows = rows_of(matrix)
    order = np.lexsort((np.negative(np.abs(matrix.data)), rows))
    return matrix.indices[order[matrix.indptr[:-1]]]


def pattern_of(matrix: sp.csr_array) -> SparsePattern:
    parts = (rows_of(matrix), matrix.indices, matrix.indptr)
    return SparsePattern(*(on_device(part, np.int32) for part in parts))

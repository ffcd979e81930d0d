"""Sparse matrices with a fixed pattern and traced values."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device
from riesz.mesh.rows import RowGroups, group_by_key, row_groups


class SparsePattern(eqx.Module):
    """Rows and columns of the entries of a square matrix, sorted by row (CSR)."""

    rows: Int[Array, " entry"]
    columns: Int[Array, " entry"]
    row_starts: Int[Array, " size_plus_one"]

    @property
    def size(self) -> int:
        return len(self.row_starts) - 1


class SparseMatrix(eqx.Module):
    """A square matrix on a pattern; products are differentiable, solves live in `solve`."""

    pattern: SparsePattern
    values: Float[Array, " entry"]

    def __matmul__(self, vector: Float[Array, " size"]) -> Float[Array, " size"]:
        products = self.values * vector[self.pattern.columns]
        return jax.ops.segment_sum(
            products, self.pattern.rows, self.pattern.size, indices_are_sorted=True
        )

    def transpose_product(self, vector: Float[Array, " size"]) -> Float[Array, " size"]:
        """The product of the transpose."""
        products = self.values * vector[self.pattern.rows]
        return jax.ops.segment_sum(products, self.pattern.columns, self.pattern.size)

    def to_dense(self) -> Float[Array, "size size"]:
        size = self.pattern.size
        zeros = jnp.zeros((size, size), self.values.dtype)
        return zeros.at[self.pattern.rows, self.pattern.columns].add(self.values)

    def to_scipy(self) -> sp.csr_array:
        pattern = self.pattern
        parts = (self.values, pattern.columns, pattern.row_starts)
        return sp.csr_array(tuple(map(np.asarray, parts)), shape=(pattern.size,) * 2)


class PatternTables(NamedTuple):
    """A pattern as arrays of the host, and the entry of each pair of unknowns of a cell in it.

    Pairs with a fixed unknown have the number of entries, one past the end: scatter-adds drop them.
    """

    rows: Int[np.ndarray, " entry"]
    columns: Int[np.ndarray, " entry"]
    row_starts: Int[np.ndarray, " size_plus_one"]
    entries: Int[np.ndarray, "local local cell"]

    def on_device(self) -> SparsePattern:
        return SparsePattern(*map(on_device, (self.rows, self.columns, self.row_starts)))


def cell_pairs(dofs: Int[np.ndarray, "local cell"], num_dofs: int) -> RowGroups:
    """All pairs of different unknowns of a cell, the lower one first; cells vary fastest.

    A pattern is symmetric: pairs are looked for once, which halves the memory of the search.
    """
    first, second = np.triu_indices(len(dofs), 1)
    one, other = dofs[first].ravel(), dofs[second].ravel()
    return row_groups(np.stack([np.minimum(one, other), np.maximum(one, other)]), num_dofs)


def pattern_tables(
    pairs: RowGroups,
    dofs: Int[np.ndarray, "local cell"],
    free: Int[np.ndarray, " free"],
    num_dofs: int,
) -> PatternTables:
    """The pattern of those pairs of unknowns that are free; `free` is in ascending order."""
    number = np.full(num_dofs, len(free), dtype=np.int32)
    number[free] = np.arange(len(free), dtype=np.int32)
    low, high = (number.take(half) for half in pairs.distinct)
    is_free = (low < len(free)) & (high < len(free))
    layout = row_layout(low[is_free], high[is_free], len(free))
    past_end = np.int32(len(layout.columns))
    # Both entries of a pair move as one number.
    entry = np.full((len(is_free), 2), past_end).view(np.int64)[:, 0]
    entry[is_free] = np.stack([layout.above, layout.below], axis=1).view(np.int64)[:, 0]
    of_pair = np.empty(len(pairs.order), dtype=np.int64)
    of_pair[pairs.order] = np.repeat(entry, pairs.counts)
    above, below = of_pair.view(np.int32).reshape(-1, dofs.shape[1], 2).transpose(2, 0, 1)
    entries = np.empty((len(dofs), *dofs.shape), dtype=np.int32)
    on_diagonal = np.append(layout.diagonal, past_end).take(number)
    for i, own in enumerate(dofs):
        entries[i, i] = on_diagonal.take(own)
    first, second = np.triu_indices(len(dofs), 1)
    for i, j, upper, lower in zip(first, second, above, below, strict=True):
        falls = dofs[i] > dofs[j]
        entries[i, j], entries[j, i] = np.where(falls, lower, upper), np.where(falls, upper, lower)
    rows = np.repeat(np.arange(len(free), dtype=np.int32), np.diff(layout.starts))
    return PatternTables(rows, layout.columns, layout.starts, entries)


class RowLayout(NamedTuple):
    """Where entries stand, row by row: those left of the diagonal, then it, then those right of it.

    A pair (low, high) has one entry above the diagonal, (low, high), and one below, (high, low).
    """

    starts: Int[np.ndarray, " size_plus_one"]
    diagonal: Int[np.ndarray, " size"]
    above: Int[np.ndarray, " pair"]
    below: Int[np.ndarray, " pair"]
    columns: Int[np.ndarray, " entry"]


def row_layout(
    low: Int[np.ndarray, " pair"], high: Int[np.ndarray, " pair"], size: int
) -> RowLayout:
    """The layout of the diagonal and of pairs, which are in ascending order."""
    num_below, num_above = (
        np.bincount(half, minlength=size).astype(np.int32) for half in (high, low)
    )
    starts = np.zeros(size + 1, dtype=np.int32)
    np.cumsum(1 + num_below + num_above, out=starts[1:])
    diagonal = starts[:-1] + num_below
    pair = np.arange(len(low), dtype=np.int32)
    before = np.cumsum(num_above, dtype=np.int32) - num_above
    above = pair + np.repeat(diagonal + 1 - before, num_above)
    by_row, below_starts, lows = group_by_key(high, size, low)
    sorted_below = pair + np.repeat(starts[:-1] - below_starts[:-1], num_below)
    below = np.empty_like(pair)
    below[by_row] = sorted_below
    columns = np.empty(starts[-1], dtype=np.int32)
    columns[diagonal], columns[above], columns[sorted_below] = np.arange(size), high, lows
    return RowLayout(starts, diagonal, above, below, columns)

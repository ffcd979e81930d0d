"""Sparse matrices with a fixed pattern and traced values."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device
from riesz.mesh.rows import grouped, row_groups, sorted_columns


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

    def to_dense(self) -> Float[Array, "size size"]:
        size = self.pattern.size
        zeros = jnp.zeros((size, size), self.values.dtype)
        return zeros.at[self.pattern.rows, self.pattern.columns].add(self.values)

    def to_scipy(self) -> sp.csr_array:
        pattern = self.pattern
        parts = (self.values, pattern.columns, pattern.row_starts)
        return sp.csr_array(tuple(map(np.asarray, parts)), shape=(pattern.size,) * 2)


def sparse_pattern(
    dofs: Int[np.ndarray, "local cell"], num_dofs: int
) -> tuple[SparsePattern, Int[np.ndarray, "local local cell"]]:
    """The pattern of all pairs of unknowns (index below `num_dofs`) that share a cell.

    Returns also the entry of each pair of a cell; pairs with an index `num_dofs` get the number of
    entries, one past the end, which scatter-adds drop.
    """
    first, second = np.triu_indices(len(dofs), 1)
    # The pattern is symmetric: pairs are looked for once, which halves the memory of the search.
    ends = sorted_columns(np.stack([dofs[first].ravel(), dofs[second].ravel()]))
    pairs = row_groups(ends, num_dofs + 1)
    low, high = pairs.distinct
    kept = high < num_dofs
    layout = row_layout(low[kept], high[kept], num_dofs)
    entry = np.full((len(kept), 2), len(layout.columns), dtype=np.int32)
    entry[kept, 0], entry[kept, 1] = layout.above, layout.below
    # Both entries of a pair move as one number.
    of_pair = np.empty(ends.shape[1], dtype=np.int64)
    of_pair[pairs.order] = np.repeat(entry.view(np.int64)[:, 0], pairs.counts)
    above, below = of_pair.view(np.int32).reshape(len(first), -1, 2).transpose(2, 0, 1)
    entries = np.empty((len(dofs), *dofs.shape), dtype=np.int32)
    on_diagonal = np.append(layout.diagonal, len(layout.columns)).astype(np.int32)
    for i, own in enumerate(dofs):
        entries[i, i] = on_diagonal[own]
    for i, j, upper, lower in zip(first, second, above, below, strict=True):
        falls = dofs[i] > dofs[j]
        entries[i, j], entries[j, i] = np.where(falls, lower, upper), np.where(falls, upper, lower)
    rows = np.repeat(np.arange(num_dofs, dtype=np.int32), np.diff(layout.starts))
    pattern = SparsePattern(
        *(on_device(a, np.int32) for a in (rows, layout.columns, layout.starts))
    )
    return pattern, entries


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
    num_below, num_above = (np.bincount(half, minlength=size) for half in (high, low))
    starts = np.concatenate([[0], np.cumsum(1 + num_below + num_above)])
    diagonal = starts[:-1] + num_below
    pair = np.arange(len(low), dtype=np.int32)
    above = pair + np.repeat(diagonal + 1 - (np.cumsum(num_above) - num_above), num_above)
    by_row, below_starts, lows = grouped(high, size, low)
    sorted_below = pair + np.repeat(starts[:-1] - below_starts[:-1], num_below)
    below = np.empty_like(pair)
    below[by_row] = sorted_below
    columns = np.empty(starts[-1], dtype=np.int32)
    columns[diagonal], columns[above], columns[sorted_below] = np.arange(size), high, lows
    return RowLayout(starts, diagonal, above, below, columns)

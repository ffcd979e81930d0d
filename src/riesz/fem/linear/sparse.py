"""Sparse matrices with a fixed pattern and traced values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device


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
    dofs: Int[np.ndarray, "cell local"], num_dofs: int
) -> tuple[SparsePattern, Int[np.ndarray, "cell local local"]]:
    """The pattern of all pairs of unknowns (index below `num_dofs`) that share a cell.

    Returns also the entry of each pair of a cell; pairs with an index `num_dofs` or above get the
    number of entries, one past the end, which scatter-adds drop.
    """
    local = dofs.shape[1]
    first, second = np.triu_indices(local, 1)
    # The pattern is symmetric: pairs are looked for once, which halves the memory of the search.
    one, other = dofs[:, first], dofs[:, second]
    low, high = np.minimum(one, other), np.maximum(one, other)
    kept = high < num_dofs
    keys, found = np.unique(low[kept] * np.int64(num_dofs) + high[kept], return_inverse=True)
    low, high = (half.astype(np.int32) for half in np.divmod(keys, num_dofs))
    diagonal = np.arange(num_dofs, dtype=np.int32)
    rows, columns = np.concatenate([diagonal, low, high]), np.concatenate([diagonal, high, low])
    order = np.argsort(rows * np.int64(num_dofs) + columns)
    place = np.empty(len(order) + 1, dtype=np.int32)
    place[order], place[-1] = np.arange(len(order), dtype=np.int32), len(order)
    above = np.full(kept.shape, len(order), dtype=np.int32)
    below = above.copy()
    above[kept], below[kept] = num_dofs + found, num_dofs + len(keys) + found
    above, below, falls = place[above], place[below], one > other
    entries = np.empty((len(dofs), local, local), dtype=np.int32)
    entries[:, first, second] = np.where(falls, below, above)
    entries[:, second, first] = np.where(falls, above, below)
    itself = np.arange(local)
    entries[:, itself, itself] = place[np.where(dofs < num_dofs, dofs, len(order))]
    rows = rows[order]
    starts = np.searchsorted(rows, np.arange(num_dofs + 1))
    pattern = SparsePattern(*(on_device(a, np.int32) for a in (rows, columns[order], starts)))
    return pattern, entries

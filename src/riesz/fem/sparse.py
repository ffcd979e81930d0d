"""Sparse matrices with a fixed pattern and traced values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int


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
    rows = np.repeat(dofs, local, axis=1).ravel().astype(np.int64)
    columns = np.tile(dofs, (1, local)).ravel()
    kept = (rows < num_dofs) & (columns < num_dofs)
    keys, inverse = np.unique(rows[kept] * num_dofs + columns[kept], return_inverse=True)
    entries = np.full(rows.shape, len(keys), dtype=np.int32)
    entries[kept] = inverse
    entry_rows, entry_columns = np.divmod(keys, num_dofs)
    starts = np.searchsorted(entry_rows, np.arange(num_dofs + 1))
    pattern = SparsePattern(
        *(jnp.asarray(a, dtype=jnp.int32) for a in (entry_rows, entry_columns, starts))
    )
    return pattern, entries.reshape(len(dofs), local, local)

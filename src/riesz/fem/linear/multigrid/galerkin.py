r"""The matrix of a coarser level, $P^\top A P$, from the values of a finer one.

Which products of entries of $A$ and $P$ fall on which entry is found out once, on the host; what
is left for compiled code are two fixed linear combinations, $B = A P$ and $P^\top B$.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.fem.linear.multigrid.tables import Combination, combination

Entries = Int[np.ndarray, " entry"]
Places = Int[np.ndarray, " product"]


class Galerkin(eqx.Module):
    """Values of the coarser matrix from those of the finer one, both in the order of CSR."""

    right: Combination
    left: Combination

    def __call__(self, values: Float[Array, " fine_entry"]) -> Float[Array, " entry"]:
        return self.left(self.right(values))


class Products(NamedTuple):
    """Both combinations as matrices from entries to entries, and the pattern in between."""

    right: sp.csr_array
    left: sp.csr_array
    half: sp.csr_array


def galerkin(fine: sp.csr_array, prolongation: sp.csr_array, coarse: sp.csr_array) -> Galerkin:
    """The combinations; `coarse` is the pattern of the result."""
    result = galerkin_products(fine, prolongation, coarse)
    return Galerkin(combination(result.right), combination(result.left))


def galerkin_products(
    fine: sp.csr_array, prolongation: sp.csr_array, coarse: sp.csr_array
) -> Products:
    """The combinations as matrices; `coarse` is the pattern of the result."""
    half = product_pattern(fine, prolongation)
    entry, column, weight = spread(fine.indices, prolongation)
    right = collect_sources(half, rows_of(fine)[entry], column, entry, weight, fine.nnz)
    entry, row, weight = spread(rows_of(half), prolongation)
    left = collect_sources(coarse, row, half.indices[entry], entry, weight, half.nnz)
    return Products(right, left, half)


def coarse_pattern(fine: sp.csr_array, prolongation: sp.csr_array) -> sp.csr_array:
    """Where the coarser matrix has entries, whatever the values of the finer one."""
    half = product_pattern(fine, prolongation)
    return product_pattern(sp.csr_array(prolongation.T), half)


def product_pattern(left: sp.csr_array, right: sp.csr_array) -> sp.csr_array:
    pattern = sp.csr_array(with_ones(left) @ with_ones(right))
    pattern.sort_indices()
    return pattern


def with_ones(matrix: sp.csr_array) -> sp.csr_array:
    ones = np.ones(matrix.nnz, np.float32)  # sums of ones never cancel
    return sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def number_entries(pattern: sp.csr_array) -> sp.csr_array:
    """With the numbers of entries in their places."""
    numbers = np.arange(pattern.nnz, dtype=np.int32)
    return sp.csr_array((numbers, pattern.indices, pattern.indptr), shape=pattern.shape)


def rows_of(pattern: sp.csr_array) -> Entries:
    """The row of each entry."""
    return np.repeat(np.arange(len(pattern.indptr) - 1, dtype=np.int32), np.diff(pattern.indptr))


def spread(
    unknowns: Entries, prolongation: sp.csr_array
) -> tuple[Places, Places, Float[np.ndarray, " product"]]:
    """Each of the unknowns spread over coarser ones: its place in the list, whither, how much."""
    counts = np.diff(prolongation.indptr)[unknowns]
    entry = np.repeat(np.arange(len(unknowns), dtype=np.int32), counts)
    before = np.cumsum(counts, dtype=np.int64) - counts
    position = np.arange(len(entry)) + (prolongation.indptr[unknowns] - before)[entry]
    return entry, prolongation.indices[position], prolongation.data[position]


def collect_sources(
    pattern: sp.csr_array,
    rows: Places,
    columns: Places,
    sources: Places,
    weights: Float[np.ndarray, " product"],
    num_sources: int,
) -> sp.csr_array:
    """Which sources, with which weights, make up each entry of a pattern."""
    places = np.asarray(number_entries(pattern)[rows, columns]).ravel()
    return sp.csr_array((weights, (places, sources)), shape=(pattern.nnz, num_sources))

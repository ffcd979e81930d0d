"""Banded Cholesky factors on the host, for symmetric positive matrices of a small bandwidth.

With unknowns in the order of reverse Cuthill-McKee, matrices of meshes up to about 65 x 65 nodes
have so few diagonals that LAPACK fills and factorises the whole band in half the time that SuperLU
takes for the entries that matter.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.linalg.lapack import (
    dpbtrf,  # pyright: ignore[reportAttributeAccessIssue]
    dpbtrs,  # pyright: ignore[reportAttributeAccessIssue]
)
from scipy.sparse.csgraph import reverse_cuthill_mckee

WIDEST = 64
"""Diagonals below the main one. LAPACK cuts wider bands into blocks for threads, which wait for
each other longer than they work; with one thread wider bands gain little."""

ASYMMETRY = 1e-13
"""Differences across the diagonal, over the largest entry, that are rounding errors of sums."""


@dataclass(frozen=True)
class Band:
    """Where the entries of a pattern stand in the lower band of its matrix."""

    order: Int[np.ndarray, " unknown"]
    entries: Int[np.ndarray, " lower"]  # on the diagonal and below it
    mirrored: Int[np.ndarray, " lower"]  # those across the diagonal
    places: Int[np.ndarray, " lower"]
    width: int

    def factorised(self, values: Float[np.ndarray, " entry"]) -> "BandFactors | None":
        """Nothing where the matrix is not symmetric or not positive."""
        lower = values[self.entries]
        if np.abs(lower - values[self.mirrored]).max() > ASYMMETRY * np.abs(lower).max():
            return None
        rows = np.zeros((len(self.order), self.width + 1))
        rows.ravel()[self.places] = lower
        factor, failed = dpbtrf(rows.T, lower=1, overwrite_ab=1)
        return None if failed else BandFactors(self.order, factor)


@dataclass(frozen=True)
class BandFactors:
    """The Cholesky factor of a matrix whose unknowns were put in another order."""

    order: Int[np.ndarray, " unknown"]
    factor: Float[np.ndarray, "diagonal unknown"]

    @property
    def num_nonzeros(self) -> int:
        return self.factor.size

    def solve(
        self, sides: Float[np.ndarray, " unknown *side"], trans: str = "N"
    ) -> Float[np.ndarray, " unknown *side"]:
        """The matrix is its own transpose."""
        solutions = np.empty(sides.shape)
        solutions[self.order], _ = dpbtrs(self.factor, sides[self.order], lower=1)
        return solutions


def band_of(numbered: sp.csr_array) -> Band | None:
    """The band of a pattern whose entries are numbered; none where it is too wide.

    None either where the pattern is not symmetric, or its rows are not sorted.
    """
    transposed = sp.csr_array(numbered.T)
    transposed.sort_indices()
    if not np.array_equal(transposed.indices, numbered.indices):
        return None
    order = reverse_cuthill_mckee(sp.csr_matrix(numbered), symmetric_mode=True)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    entries = sp.coo_array(numbered)
    row, column = position[entries.row], position[entries.col]
    width = int((row - column).max())
    if width > WIDEST:
        return None
    is_lower = row >= column
    places = column * (width + 1) + row - column
    return Band(order, entries.data[is_lower], transposed.data[is_lower], places[is_lower], width)

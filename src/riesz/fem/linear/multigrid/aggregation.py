"""Coarser levels where no coarser mesh is known: smoothed aggregation.

Unknowns that hang together strongly are gathered in small aggregates, one coarse unknown each; the
function that is one on an aggregate is then smoothed by a Jacobi step. Set up once on the host.
Follows Vaněk, Mandel & Brezina (1996), with aggregates about the points of an independent set of
distance two, which needs no loop over unknowns.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

STRONG = 0.08
"""Entries below this share of their diagonals' geometric mean are weak, on the finest level."""


def smoothed_aggregation(matrix: sp.csr_array, level: int = 0) -> sp.csr_array:
    """The prolongation from aggregates of the unknowns of a symmetric matrix."""
    filtered = strong_part(matrix, STRONG * 0.5**level)
    members = aggregates(filtered)
    joined = members >= 0
    counts = np.bincount(members[joined])
    rows = np.flatnonzero(joined)
    weights = np.ones(len(rows))
    shape = (len(members), len(counts))
    tentative = sp.csr_array((weights, (rows, members[joined])), shape=shape)
    inverse_diagonal = 1 / filtered.diagonal()
    scaled = sp.diags_array(inverse_diagonal) @ filtered
    damping = 4 / 3 / largest_eigenvalue(sp.csr_array(scaled))
    prolongation = sp.csr_array(tentative - damping * (scaled @ tentative))
    prolongation.sort_indices()
    return prolongation


def strong_part(matrix: sp.csr_array, threshold: float) -> sp.csr_array:
    """Without weak entries, which are added to the diagonal: row sums stay."""
    entries = sp.coo_array(matrix)
    rows, columns = entries.row, entries.col
    root = np.sqrt(np.abs(matrix.diagonal()))
    kept = (np.abs(entries.data) >= threshold * root[rows] * root[columns]) | (rows == columns)
    lumped = np.bincount(rows[~kept], entries.data[~kept], minlength=len(root))
    strong = sp.csr_array((entries.data[kept], (rows[kept], columns[kept])), shape=matrix.shape)
    return sp.csr_array(strong + sp.diags_array(lumped))


def largest_eigenvalue(scaled: sp.csr_array) -> float:
    """An upper bound from row sums, which is sharp for matrices of diffusion."""
    return float(abs(scaled).sum(axis=1).max())


def aggregates(graph: sp.csr_array) -> Int[np.ndarray, " unknown"]:
    """The aggregate of each unknown; -1 for those that nothing is joined to."""
    roots = independent_at_distance_two(graph)
    number = np.where(roots, np.cumsum(roots) - 1, -1)
    for _ in range(2):  # neighbours of roots, and theirs
        neighbours = largest_neighbour(graph, number)
        number = np.where(number < 0, neighbours, number)
    return number


def independent_at_distance_two(graph: sp.csr_array) -> Bool[np.ndarray, " unknown"]:
    """Unknowns no two of which are neighbours or have one in common; no more can be added.

    In rounds: an undecided unknown joins where its random number is the largest within distance
    two, and those within that distance of a joined one drop out (Luby 1986).
    """
    size = len(graph.indptr) - 1
    priority = 1 + np.random.default_rng(0).permutation(size)
    undecided, joined = np.ones(size, dtype=bool), np.zeros(size, dtype=bool)
    while undecided.any():
        rank = np.where(undecided, priority, 0)
        reach = largest_neighbour(graph, largest_neighbour(graph, rank))
        new = undecided & (rank == reach)
        joined |= new
        near = largest_neighbour(graph, largest_neighbour(graph, new.astype(np.int64)))
        undecided &= near == 0
    return joined


def largest_neighbour(
    graph: sp.csr_array, numbers: Int[np.ndarray, " unknown"]
) -> Int[np.ndarray, " unknown"]:
    """The largest number of an unknown and its neighbours; every row has its diagonal."""
    return np.maximum.reduceat(numbers[graph.indices], graph.indptr[:-1])

"""Coarser levels where no coarser mesh is known: smoothed aggregation.

Unknowns that hang together strongly are gathered in small aggregates, one coarse unknown each; the
function that is one on an aggregate is then smoothed by a Jacobi step. Set up once on the host.
Follows Vaněk, Mandel & Brezina (1996), with aggregates about the points of an independent set of
distance two, which needs no loop over unknowns.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

STRONG = 0.25
"""Entries below this share of the largest in their row, or their column, are weak; of entries over
the geometric mean of their diagonals. Such shares are the same on all levels and in all units."""

LEAST_DIAGONAL = 0.01
"""The share of a diagonal entry that is left at least when weak entries are added to it, or else
there are no others, and what is left is rounding."""


def smoothed_aggregation(matrix: sp.csr_array) -> sp.csr_array:
    """The prolongation from aggregates of the unknowns of a symmetric matrix."""
    filtered = strong_part(matrix)
    members = with_lonely(matrix, aggregates(filtered))
    rows = np.flatnonzero(members >= 0)
    shape = (len(members), members.max(initial=-1) + 1)
    tentative = sp.csr_array((np.ones(len(rows)), (rows, members[rows])), shape=shape)
    left, diagonal = (np.asarray(one.diagonal(), float) for one in (filtered, matrix))
    inverse_diagonal = 1 / np.where(left / diagonal > LEAST_DIAGONAL, left, diagonal)
    scaled = sp.csr_array(sp.diags_array(inverse_diagonal) @ filtered)
    largest = abs(scaled).sum(axis=1).max()  # of eigenvalues at most; sharp for diffusion
    damping = 4 / 3 / largest
    prolongation = sp.csr_array(tentative - damping * (scaled @ tentative))
    prolongation.sort_indices()
    return prolongation


def strong_part(matrix: sp.csr_array) -> sp.csr_array:
    """Without weak entries, which are added to the diagonal: row sums stay."""
    entries = sp.coo_array(matrix)
    rows, columns, values = entries.row, entries.col, entries.data.copy()
    is_strong = strong(entries)
    diagonal = rows == columns
    weak = ~(is_strong | diagonal)
    values[diagonal] += np.bincount(rows[weak], values[weak], minlength=len(matrix.indptr) - 1)
    is_strong |= diagonal
    starts = np.append(0, np.cumsum(is_strong))[matrix.indptr]
    return sp.csr_array((values[is_strong], columns[is_strong], starts), shape=matrix.shape)


def strong(entries: sp.coo_array) -> Bool[np.ndarray, " entry"]:
    """Which entries beside the diagonal are; rows in ascending order, each with its diagonal."""
    rows, columns = entries.row, entries.col
    root = np.sqrt(np.abs(entries.data[rows == columns]))
    shares = np.abs(entries.data) / (root[rows] * root[columns])
    shares[rows == columns] = 0.0
    largest = np.maximum.reduceat(shares, np.searchsorted(rows, np.arange(len(root))))
    return (shares >= STRONG * np.maximum(largest[rows], largest[columns])) & (shares > 0)


def with_lonely(
    matrix: sp.csr_array, members: Int[np.ndarray, " unknown"]
) -> Int[np.ndarray, " unknown"]:
    """Unknowns without an aggregate in that of the neighbour that they hang together with most."""
    entries = sp.coo_array(matrix)
    wanted = (members[entries.row] < 0) & (members[entries.col] >= 0)
    rows, columns = entries.row[wanted], entries.col[wanted]
    order = np.lexsort((np.abs(entries.data[wanted]), rows))  # the largest of a row last
    members = members.copy()
    members[rows[order]] = members[columns[order]]
    return members


def aggregates(graph: sp.csr_array) -> Int[np.ndarray, " unknown"]:
    """The aggregate of each unknown; -1 for those that nothing is joined to."""
    roots = independent_at_distance_two(graph) & (np.diff(graph.indptr) > 1)
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

"""The order in which a sparse matrix is eliminated: nested dissection (George 1973).

Of the unknowns a thin layer is put last, which cuts the rest in two; each part is treated alike.
SuperLU's own orderings leave as many nonzeros, but elimination trees that it takes ten times as
long to work through on 257 x 257 nodes.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import dijkstra

SMALLEST = 16
"""Unknowns that are not divided any further."""

NEAR_MIDDLE = (0.4, 0.6)
"""A cut may leave a part so small or large if it is thinner there."""


def elimination_order(pattern: sp.sparray) -> Int[np.ndarray, " unknown"]:
    """The unknowns of a square matrix, first eliminated first."""
    square = sp.csr_array(pattern)
    square.data = np.ones(square.nnz, np.int8)
    order = np.empty(len(square.indptr) - 1, dtype=np.int64)
    # Graphs still to be divided, their unknowns, and where in the order these begin.
    waiting = [(square + square.T, np.arange(len(order)), 0)]
    while waiting:
        graph, unknowns, start = waiting.pop()
        parts = [] if len(unknowns) <= SMALLEST else dissected(graph)
        if not parts:
            order[start : start + len(unknowns)] = unknowns
            continue
        *rest, layer = parts
        for part in rest:
            waiting.append((graph[part][:, part], unknowns[part], start))
            start += len(part)
        order[start : start + len(layer)] = unknowns[layer]
    return order


def dissected(graph: sp.csr_array) -> list[Int[np.ndarray, " unknown"]]:
    """Two parts and the layer between them; nothing where there is no such layer.

    Layers are the sets at equal distance from an end of the graph, found as the point farthest
    from any other; parts that hang together in no way need none.
    """
    from_somewhere = hops(graph, 0)
    if not np.isfinite(from_somewhere).all():
        apart = ~np.isfinite(from_somewhere)
        return [np.flatnonzero(~apart), np.flatnonzero(apart), np.zeros(0, dtype=np.int64)]
    distance = hops(graph, int(np.argmax(from_somewhere))).astype(np.int64)
    sizes = np.bincount(distance)
    before, up_to = np.cumsum(sizes) - sizes, np.cumsum(sizes)
    low, high = NEAR_MIDDLE
    middle = np.flatnonzero((up_to > low * len(distance)) & (before < high * len(distance)))
    layer = middle[np.argmin(sizes[middle])]
    parts = [np.flatnonzero(distance < layer), np.flatnonzero(distance > layer)]
    if not all(len(part) for part in parts):
        return []
    return [*parts, np.flatnonzero(distance == layer)]


def hops(graph: sp.csr_array, unknown: int) -> Float[np.ndarray, " unknown"]:
    """How many steps all others are away; infinitely many where no way leads."""
    return dijkstra(graph, directed=False, unweighted=True, indices=unknown)

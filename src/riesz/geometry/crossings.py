"""How points, edges and rings of the plane lie to each other."""

import numpy as np
from jaxtyping import Bool, Float, Int

Points = Float[np.ndarray, "point 2"]
Edges = Int[np.ndarray, "edge 2"]
Ends = Float[np.ndarray, "edge 2"]

PAIRS_AT_ONCE = 4_000_000  # point-edge pairs held in memory together
TOUCHING = 1e-10  # relative to the extent: closer than this, two places are one


def cross_product(u, v):
    """Signed area of the parallelogram that `u` and `v` span, for arrays of any leading shape."""
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def ring_area(ring: Float[np.ndarray, "vertex 2"]) -> float:
    """Signed area inside a ring, positive when it runs counter-clockwise."""
    # Relative to a vertex: large map coordinates would cancel.
    local = ring - ring[0]
    return float(cross_product(local, np.roll(local, -1, axis=0)).sum() / 2)


def ring_edges(num_vertices: int, first: int = 0) -> Int[np.ndarray, "vertex 2"]:
    """Vertex indices of the edges of a ring whose vertices are numbered from `first`."""
    index = np.arange(num_vertices)
    return first + np.stack([index, np.roll(index, -1)], axis=1)


def inside(points: Points, starts: Ends, ends: Ends) -> Bool[np.ndarray, " point"]:
    """Whether each point lies inside the rings that the edges form, by the even-odd rule.

    An edge that two rings share counts twice and so not at all.
    """
    chunk = max(1, PAIRS_AT_ONCE // max(1, len(starts)))
    parts = [even_odd(points[i : i + chunk], starts, ends) for i in range(0, len(points), chunk)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def even_odd(points, starts, ends) -> Bool[np.ndarray, " point"]:
    above_start = points[:, None, 1] < starts[:, 1]
    above_end = points[:, None, 1] < ends[:, 1]
    point, edge = np.nonzero(above_start != above_end)
    along, offset = ends[edge] - starts[edge], points[point] - starts[edge]
    hit = (cross_product(along, offset) > 0) == (along[:, 1] > 0)
    return np.bincount(point[hit], minlength=len(points)) % 2 == 1


def distance_to_edges(points: Points, starts: Ends, ends: Ends) -> Float[np.ndarray, " point"]:
    """Distance from each point to the nearest edge."""
    chunk = max(1, PAIRS_AT_ONCE // max(1, len(starts)))
    nearest = np.full(len(points), np.inf)
    for i in range(0, len(points), chunk):
        offset = points[i : i + chunk, None] - starts
        nearest[i : i + chunk] = offset_from_edge(offset, ends - starts).min(axis=1, initial=np.inf)
    return nearest


def offset_from_edge(offset, along) -> np.ndarray:
    """Distance of `offset` from the segment that runs from the origin to `along`."""
    squared = np.maximum((along**2).sum(-1), np.finfo(float).tiny)
    fraction = np.clip((offset * along).sum(-1) / squared, 0, 1)
    return np.linalg.norm(offset - fraction[..., None] * along, axis=-1)


def close_pairs(points: Points, edges: Edges, margin: float) -> Int[np.ndarray, "pair 2"]:
    """Pairs of edges, the lower index first, whose bounding boxes come within `margin`."""
    corners = points[edges]
    low, high = corners.min(axis=1) - margin, corners.max(axis=1)
    order = np.argsort(low[:, 0], kind="stable")
    # Sweep along x: the partners of an edge are those that start before it ends.
    last = np.searchsorted(low[order, 0], high[order, 0], side="right")
    counts = np.maximum(last - np.arange(len(edges)) - 1, 0)
    first = np.repeat(np.arange(len(edges)), counts)
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    i, j = order[first], order[first + 1 + step]
    overlap = (low[i, 1] <= high[j, 1]) & (low[j, 1] <= high[i, 1])
    return np.sort(np.stack([i[overlap], j[overlap]], axis=1), axis=1)


def proper_crossings(
    points: Points, edges: Edges, tolerance: float
) -> tuple[Int[np.ndarray, "pair 2"], Float[np.ndarray, "pair 2"]]:
    """Pairs of edges that cross away from their ends, in order, and where they do."""
    pairs = close_pairs(points, edges, tolerance)
    pairs = pairs[np.lexsort(pairs.T[::-1])]
    (a, b), (c, d) = (points[edges[pairs[:, k]]].swapaxes(0, 1) for k in (0, 1))
    first, second = b - a, d - c
    length = [np.linalg.norm(u, axis=1) for u in (first, second)]
    sides = [cross_product(first, c - a) / length[0], cross_product(first, d - a) / length[0]]
    sides += [cross_product(second, a - c) / length[1], cross_product(second, b - c) / length[1]]
    clear = np.all(np.abs(sides) > tolerance, axis=0)
    crossing = clear & (sides[0] * sides[1] < 0) & (sides[2] * sides[3] < 0)
    fraction = (sides[2] / np.where(crossing, sides[2] - sides[3], 1))[crossing]
    return pairs[crossing], a[crossing] + fraction[:, None] * first[crossing]


def touches(points: Points, edges: Edges, tolerance: float) -> Int[np.ndarray, "touch 2"]:
    """Pairs (point, edge) where a point that ends some edge lies on an edge it does not end."""
    pairs = close_pairs(points, edges, tolerance)
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    point = edges[pairs[:, 0]].ravel()
    edge = np.repeat(pairs[:, 1], 2)
    foreign = (edges[edge] != point[:, None]).all(axis=1)
    point, edge = point[foreign], edge[foreign]
    start, end = points[edges[edge, 0]], points[edges[edge, 1]]
    near = offset_from_edge(points[point] - start, end - start) <= tolerance
    return np.unique(np.stack([point[near], edge[near]], axis=1), axis=0)

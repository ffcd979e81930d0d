"""Simplification of an outline that keeps it simple and keeps every given point inside."""

import heapq

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import MeshError
from riesz.geometry.crossings import cross, offset_from_edge
from riesz.geometry.outline import Outline

AREA_CHANGE = 0.01  # the largest relative change of area that still is the same domain


def simplify_outline(
    outline: Outline, tolerance: float, keep_inside: Float[np.ndarray, "n 2"]
) -> Outline:
    """The outline with vertices left out, none of them further than `tolerance` from it.

    Vertices go in the order of the triangle each spans with its neighbours, the smallest first
    (after Visvalingam & Whyatt 1993). One stays if that triangle holds another vertex or a point
    of `keep_inside`: so rings never come to cross, and no point changes sides.
    """
    rings = list(outline.rings)
    vertices, counts = np.unique(np.concatenate(rings), axis=0, return_counts=True)
    # Two parts share these, and both must keep or drop them alike.
    shared = {tuple(vertex) for vertex in vertices[counts > 1].tolist()}
    for index, ring in enumerate(rings):
        fixed = np.array([tuple(vertex) in shared for vertex in ring.tolist()])
        others = np.concatenate([*rings[:index], *rings[index + 1 :], keep_inside])
        rings[index] = ring[kept_vertices(ring, fixed, others, tolerance)]
    thinned = iter(rings)
    simple = Outline(tuple(tuple(next(thinned) for _ in part) for part in outline.parts))
    check_same_area(outline, simple, tolerance)
    return simple


def check_same_area(outline: Outline, simple: Outline, tolerance: float) -> None:
    change = simple.area / outline.area - 1
    if abs(change) > AREA_CHANGE:
        raise MeshError(
            f"simplify={tolerance:.6g} changes the area of the domain by {change:+.1%}, more than "
            f"{AREA_CHANGE:.0%}: lower it, it is a length in the outline's unit."
        )


def kept_vertices(
    ring: Float[np.ndarray, "vertex 2"],
    fixed: Bool[np.ndarray, " vertex"],
    others: Float[np.ndarray, "other 2"],
    tolerance: float,
) -> Bool[np.ndarray, " vertex"]:
    """Which vertices stay when no triangle that is cut off may hold a vertex or one of `others`."""
    count = len(ring)
    before, after = np.roll(np.arange(count), 1), np.roll(np.arange(count), -1)
    kept = np.ones(count, dtype=bool)

    def entry(vertex):
        u, v, w = ring[before[vertex]], ring[vertex], ring[after[vertex]]
        return (abs(float(cross(v - u, w - u))), int(vertex))

    queue = [entry(vertex) for vertex in np.flatnonzero(~fixed)]
    heapq.heapify(queue)
    while queue and kept.sum() > 3:
        area, vertex = heapq.heappop(queue)
        stale = not kept[vertex] or area != entry(vertex)[0]
        left, right = before[vertex], after[vertex]
        if stale or not removable(ring, (left, vertex, right), kept, others, tolerance):
            continue
        kept[vertex] = False
        after[left], before[right] = right, left
        for neighbour in (left, right):
            if not fixed[neighbour]:
                heapq.heappush(queue, entry(neighbour))
    return kept


def removable(ring, corner, kept, others, tolerance) -> bool:
    left, vertex, right = corner
    start, end = ring[left], ring[right]
    skipped = ring[(left + 1 + np.arange((right - left - 1) % len(ring))) % len(ring)]
    if (offset_from_edge(skipped - start, end - start) > tolerance).any():
        return False
    standing = kept.copy()
    standing[[left, vertex, right]] = False
    obstacles = np.concatenate([ring[standing], others])
    return not in_triangle(obstacles, start, ring[vertex], end).any()


def in_triangle(points, a, b, c) -> Bool[np.ndarray, " point"]:
    """Whether each point lies in the closed triangle, of either orientation."""
    sides = np.stack([cross(v - u, points - u) for u, v in ((a, b), (b, c), (c, a))])
    return np.all(sides >= 0, axis=0) | np.all(sides <= 0, axis=0)

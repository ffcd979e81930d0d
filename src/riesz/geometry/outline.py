"""Outlines: polygons with holes, read from arrays or GeoJSON and checked before they are meshed."""

import heapq
from collections.abc import Mapping
from itertools import accumulate, combinations
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import MeshError
from riesz.geometry import crossings
from riesz.geometry.lines import as_points, polygons_in

Ring = Float[np.ndarray, "_ 2"]
Part = tuple[Ring, ...]

AREA_CHANGE = 0.01  # the largest relative change of area that still is the same domain


class Outline(eqx.Module):
    """The boundary of a planar domain: one or more parts, each a shell followed by its holes.

    Rings are open (the last vertex is not the first again), shells run counter-clockwise and
    holes clockwise. Rings may touch, so that parts can share a border, but never cross.
    """

    parts: tuple[Part, ...]

    def __check_init__(self):
        for part, rings in enumerate(self.parts):
            for index, ring in enumerate(rings):
                check_ring(ring, -1 if index else 1, ring_name(part, index))
        named = [
            (ring_name(part, index), ring)
            for part, rings in enumerate(self.parts)
            for index, ring in enumerate(rings)
        ]
        check_rings_do_not_cross(named)
        for part, rings in enumerate(self.parts):
            check_holes(part, rings)
        check_parts_are_apart(self.parts)

    @property
    def rings(self) -> list[Ring]:
        return [ring for part in self.parts for ring in part]

    @property
    def area(self) -> float:
        return sum(crossings.ring_area(ring) for ring in self.rings)

    @property
    def extent(self) -> float:
        """The longer side of the box around it."""
        return float(np.ptp(np.concatenate(self.rings), axis=0).max())

    def __repr__(self) -> str:
        vertices = sum(len(ring) for ring in self.rings)
        return f"Outline({len(self.parts)} parts, {len(self.rings)} rings, {vertices} vertices)"


def outline_from(polygon: Any) -> Outline:
    """An outline from a ring of vertices, a GeoJSON-like mapping or a `__geo_interface__`.

    An array of vertices is closed by itself, with or without its first vertex repeated at the end;
    a GeoJSON ring must be closed, since an open one there means lost data. Repeated consecutive
    vertices are dropped, and so are third coordinates.
    """
    if isinstance(polygon, Outline):
        return polygon
    geometry = getattr(polygon, "__geo_interface__", polygon)
    if not isinstance(geometry, Mapping):
        return Outline(((orient(distinct_vertices(as_points(geometry, "polygon")), 1),),))
    return Outline(tuple(part_from(c, i) for i, c in enumerate(polygons_in(geometry))))


def part_from(coordinates, part: int) -> Part:
    rings = []
    for index, positions in enumerate(coordinates):
        name = ring_name(part, index)
        ring = as_points(positions, name)
        if len(ring) and (ring[0] != ring[-1]).any():
            raise MeshError(
                f"the {name} is not closed: it starts at {ring[0].tolist()} and ends at "
                f"{ring[-1].tolist()}; repeat its first vertex at the end, or mend the file."
            )
        rings.append(orient(distinct_vertices(ring), -1 if index else 1))
    return tuple(rings)


def ring_name(part: int, index: int) -> str:
    return f"hole {index - 1} of part {part}" if index else f"shell of part {part}"


def distinct_vertices(ring: Float[np.ndarray, "given 2"]) -> Float[np.ndarray, "vertex 2"]:
    """The ring without vertices that the next one repeats, the closing one included."""
    return ring[(ring != np.roll(ring, -1, axis=0)).any(axis=1)]


def orient(ring: Float[np.ndarray, "vertex 2"], sign: int) -> Float[np.ndarray, "vertex 2"]:
    return ring[::-1].copy() if len(ring) and crossings.ring_area(ring) * sign < 0 else ring


def outline_edges(
    outline: Outline,
) -> tuple[Float[np.ndarray, "edge 2"], Float[np.ndarray, "edge 2"]]:
    """Starts and ends of all edges, ring after ring."""
    ends = [np.roll(ring, -1, axis=0) for ring in outline.rings]
    return np.concatenate(outline.rings), np.concatenate(ends)


def contains(outline: Outline, points: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " n"]:
    """Whether each point lies inside the domain; points on its boundary may be either."""
    return crossings.inside(points, *outline_edges(outline))


def distance_to_outline(
    outline: Outline, points: Float[np.ndarray, "n 2"]
) -> Float[np.ndarray, " n"]:
    """Distance from each point to the nearest edge of the outline, inside or outside."""
    return crossings.distance_to_edges(points, *outline_edges(outline))


def check_points_inside(outline: Outline, points: Float[np.ndarray, "n 2"], name: str) -> None:
    """Raise where a point lies outside; on the outline itself, up to rounding, it is inside."""
    (outside,) = np.nonzero(~contains(outline, points))
    off = distance_to_outline(outline, points[outside]) > crossings.TOUCHING * outline.extent
    outside = outside[off]
    if outside.size:
        raise MeshError(
            f"{outside.size} of {len(points)} points in {name} lie outside the domain, first point "
            f"{outside[0]} at {points[outside[0]].tolist()}: drop them, widen the outline, or see "
            "that both are in the same coordinates."
        )


def tolerance_of(ring: Float[np.ndarray, "vertex 2"]) -> float:
    return crossings.TOUCHING * float(np.ptp(ring, axis=0).max())


def check_ring(ring: Ring, sign: int, name: str) -> None:
    count = len(np.unique(ring, axis=0))
    if count < 3:
        raise MeshError(f"the {name} has {count} distinct vertices: a polygon needs at least 3.")
    # Not the area: a ring in the shape of an eight has none either, but crosses itself.
    length, width = np.linalg.svd(ring - ring.mean(axis=0), compute_uv=False)
    if width <= crossings.TOUCHING * length:
        raise MeshError(
            f"the {name} has zero area: its {count} vertices lie on one line; give vertices around "
            "the domain in order."
        )
    if count < len(ring):
        values, counts = np.unique(ring, axis=0, return_counts=True)
        raise MeshError(
            f"the {name} passes {counts.max()} times through {values[counts.argmax()].tolist()}: "
            "it touches or crosses itself; split it into separate rings there."
        )
    check_ring_is_simple(ring, name)
    if crossings.ring_area(ring) * sign < 0:
        raise MeshError(f"the {name} runs the wrong way round: build outlines by outline_from.")


def check_ring_is_simple(ring: Ring, name: str) -> None:
    edges = crossings.ring_edges(len(ring))
    pairs, places = crossings.proper_crossings(ring, edges, tolerance_of(ring))
    if len(pairs):
        (first, second), place = pairs[0], places[0]
        raise MeshError(
            f"the {name} crosses itself {len(pairs)} times: edge {first} ({span(ring, first)}) and "
            f"edge {second} ({span(ring, second)}) cross at [{place[0]:.6g}, {place[1]:.6g}]; "
            "order the vertices around the domain, or mend the outline there."
        )
    grazing = crossings.touches(ring, edges, tolerance_of(ring))
    if len(grazing):
        vertex, edge = grazing[0]
        raise MeshError(
            f"the {name} touches itself: vertex {vertex} at {ring[vertex].tolist()} lies on edge "
            f"{edge} ({span(ring, edge)}); move it or split the ring there."
        )


def span(ring: Ring, edge) -> str:
    return f"from {ring[edge].tolist()} to {ring[(edge + 1) % len(ring)].tolist()}"


def check_rings_do_not_cross(named: list[tuple[str, Ring]]) -> None:
    if len(named) < 2:
        return
    counts = [len(ring) for _, ring in named]
    owner = np.repeat(np.arange(len(named)), counts)
    first = list(accumulate([0, *counts[:-1]]))
    vertices = np.concatenate([ring for _, ring in named])
    edges = np.concatenate([crossings.ring_edges(n, f) for n, f in zip(counts, first, strict=True)])
    pairs, places = crossings.proper_crossings(vertices, edges, tolerance_of(vertices))
    if len(pairs):
        (one, two), place = pairs[0], places[0]
        i, j = owner[one], owner[two]
        raise MeshError(
            f"the {named[i][0]} and the {named[j][0]} cross {len(pairs)} times: edge "
            f"{one - first[i]} of the first and edge {two - first[j]} of the second at "
            f"[{place[0]:.6g}, {place[1]:.6g}]; rings of an outline may touch but not cross."
        )


def check_holes(part: int, rings: Part) -> None:
    shell, holes = rings[0], rings[1:]
    for index, hole in enumerate(holes):
        if not within(hole, shell):
            raise MeshError(
                f"hole {index} of part {part} lies outside its shell: a hole must be inside; "
                "make it a part of a MultiPolygon if it is land of its own."
            )
    for (i, first), (j, second) in combinations(enumerate(holes), 2):
        if within(first, second) or within(second, first):
            raise MeshError(f"holes {i} and {j} of part {part} overlap: join them into one hole.")


def check_parts_are_apart(parts: tuple[Part, ...]) -> None:
    for (i, first), (j, second) in combinations(enumerate(parts), 2):
        if covers(first, second[0]) or covers(second, first[0]):
            raise MeshError(f"parts {i} and {j} overlap: join them, or cut one out of the other.")


def covers(part: Part, ring: Ring) -> bool:
    return within(ring, part[0]) and not any(within(ring, hole) for hole in part[1:])


def within(ring: Ring, other: Ring) -> bool:
    """Whether a ring that does not cross the other lies inside it; true if they are the same."""
    ends = np.roll(other, -1, axis=0)
    # Where the rings touch, a point says nothing: ask the one furthest from the other ring.
    places = np.concatenate([ring, (ring + np.roll(ring, -1, axis=0)) / 2])
    distance = crossings.distance_to_edges(places, other, ends)
    probe = places[[distance.argmax()]]
    return bool(distance.max() <= tolerance_of(other) or crossings.inside(probe, other, ends)[0])


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
        rings[index] = ring[vertices_to_keep(ring, fixed, others, tolerance)]
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


def vertices_to_keep(
    ring: Float[np.ndarray, "vertex 2"],
    fixed: Bool[np.ndarray, " vertex"],
    others: Float[np.ndarray, "other 2"],
    tolerance: float,
) -> Bool[np.ndarray, " vertex"]:
    """Which vertices stay when no triangle that is cut off may hold a vertex or one of `others`."""
    count = len(ring)
    before, after = np.roll(np.arange(count), 1), np.roll(np.arange(count), -1)
    is_kept = np.ones(count, dtype=bool)

    def entry(vertex):
        u, v, w = ring[before[vertex]], ring[vertex], ring[after[vertex]]
        return (abs(float(crossings.cross_product(v - u, w - u))), int(vertex))

    queue = [entry(vertex) for vertex in np.flatnonzero(~fixed)]
    heapq.heapify(queue)
    while queue and is_kept.sum() > 3:
        area, vertex = heapq.heappop(queue)
        stale = not is_kept[vertex] or area != entry(vertex)[0]
        left, right = before[vertex], after[vertex]
        if stale or not removable(ring, (left, vertex, right), is_kept, others, tolerance):
            continue
        is_kept[vertex] = False
        after[left], before[right] = right, left
        for neighbour in (left, right):
            if not fixed[neighbour]:
                heapq.heappush(queue, entry(neighbour))
    return is_kept


def removable(ring, corner, is_kept, others, tolerance) -> bool:
    left, vertex, right = corner
    start, end = ring[left], ring[right]
    skipped = ring[(left + 1 + np.arange((right - left - 1) % len(ring))) % len(ring)]
    if (crossings.offset_from_edge(skipped - start, end - start) > tolerance).any():
        return False
    standing = is_kept.copy()
    standing[[left, vertex, right]] = False
    obstacles = np.concatenate([ring[standing], others])
    return not in_triangle(obstacles, start, ring[vertex], end).any()


def in_triangle(points, a, b, c) -> Bool[np.ndarray, " point"]:
    """Whether each point lies in the closed triangle, of either orientation."""
    sides = np.stack(
        [crossings.cross_product(v - u, points - u) for u, v in ((a, b), (b, c), (c, a))]
    )
    return np.all(sides >= 0, axis=0) | np.all(sides <= 0, axis=0)

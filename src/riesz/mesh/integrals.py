"""Points and weights in cells of a mesh that integrate over lines, polygons and regions.

Functions that are linear on each cell are integrated exactly: each part of a line or polygon within
one cell has its middle for a point, and its length or area for a weight.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from riesz.errors import MeshError
from riesz.geometry.crossings import distance_to_edges, ring_area
from riesz.geometry.lines import Line, inside_polygon
from riesz.mesh.location import ROUNDING, barycentric_coordinates, locate
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.tags import check_planar, region_cells

COVERED = 1 - 1e-6
"""The share of a line or area that must lie in the mesh, to count as all of it."""

Polygons = Sequence[Sequence[Line]]
"""The rings of each, its outline first."""


class WeightedPoints(NamedTuple):
    """Points of cells; sums of weights times values there are integrals."""

    cell: Int[np.ndarray, " point"]
    barycentric: Float[np.ndarray, "point corner"]
    weights: Float[np.ndarray, " point"]

    def centre(self, mesh: Mesh) -> Float[np.ndarray, " dim"]:
        places = np.einsum("pc,pcd->pd", self.barycentric, mesh.nodes[mesh.cells[self.cell]])
        return self.weights @ places / self.weights.sum()


def in_area(mesh: Mesh, area: Any) -> WeightedPoints:
    """Over a region of cells by its name, the rings of polygons, or a stretch of an interval."""
    if isinstance(area, str):
        cells = region_cells(mesh, area)
        middle = np.full((len(cells), mesh.dim + 1), 1 / (mesh.dim + 1))
        return WeightedPoints(cells, middle, cell_volumes(mesh.nodes, mesh.cells[cells]))
    if mesh.dim == 1:
        return along_line(mesh, np.reshape(np.asarray(area, float), (-1, 1)))
    check_planar(mesh, "a polygon")
    return in_polygons(mesh, area)


def along_line(mesh: Mesh, line: Any) -> WeightedPoints:
    """Over a line by its vertices, in any dimension; raises where it leaves the mesh."""
    vertices = np.asarray(line, float)
    vertices = vertices[:, None] if vertices.ndim == 1 else vertices
    if vertices.ndim != 2 or vertices.shape[1] != mesh.dim or len(vertices) < 2:
        raise MeshError(
            f"a line has vertices of shape {vertices.shape}: give two points at least, with "
            f"{mesh.dim} coordinates each."
        )
    parts = [along_segment(mesh, start, end) for start, end in pairwise(vertices)]
    result = WeightedPoints(*map(np.concatenate, zip(*parts, strict=True)))
    whole = np.linalg.norm(np.diff(vertices, axis=0), axis=1).sum()
    check_covered(result, whole, "line", vertices)
    return result


def along_segment(
    mesh: Mesh, start: Float[np.ndarray, " dim"], end: Float[np.ndarray, " dim"]
) -> WeightedPoints:
    """Middles of the pieces between places where the segment enters or leaves a cell."""
    corners = mesh.nodes[mesh.cells]
    low, high = np.minimum(start, end), np.maximum(start, end)
    (near,) = np.nonzero(((corners.min(axis=1) <= high) & (corners.max(axis=1) >= low)).all(axis=1))
    at_start, at_end = (barycentric_coordinates(corners[near], one) for one in (start, end))
    rise = at_end - at_start
    with np.errstate(divide="ignore", invalid="ignore"):
        zeros = -at_start / rise
    inside = np.where(rise == 0, at_start >= -ROUNDING, True).all(axis=1)
    enter = np.where(rise > 0, zeros, 0.0).max(axis=1, initial=0.0)
    leave = np.where(rise < 0, zeros, 1.0).min(axis=1, initial=1.0)
    passed = inside & (leave > enter)
    cuts = np.unique(np.concatenate([enter[passed], leave[passed]]))
    middles, shares = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    kept = shares > ROUNDING
    result = locate(mesh, start + middles[kept, None] * (end - start))
    weights = shares[kept] * np.linalg.norm(end - start)
    return WeightedPoints(
        result.cell[result.inside], result.barycentric[result.inside], weights[result.inside]
    )


def in_polygons(mesh: Mesh, polygons: Polygons) -> WeightedPoints:
    """Over polygons that do not overlap, the first ring of each around its holes."""
    parts, whole = [], 0.0
    for rings in polygons:
        outer, *holes = (abs(ring_area(ring)) for ring in rings)
        whole += outer - sum(holes)
        parts.append(in_rings(mesh, list(rings)))
    result = WeightedPoints(*map(np.concatenate, zip(*parts, strict=True)))
    check_covered(result, whole, "polygon", np.concatenate(polygons[0]))
    return result


def in_rings(mesh: Mesh, rings: list[Line]) -> WeightedPoints:
    corners = mesh.nodes[mesh.cells]
    middles = corners.mean(axis=1)
    reach = np.linalg.norm(corners - middles[:, None], axis=2).max(axis=1)
    ends = [np.roll(ring, -1, axis=0) for ring in rings]
    away = distance_to_edges(middles, np.concatenate(rings), np.concatenate(ends)) > reach
    (whole,) = np.nonzero(away & inside_polygon(middles, rings))
    cells, places = [whole], [middles[whole]]
    weights = [cell_volumes(mesh.nodes, mesh.cells[whole])]
    for cell in np.flatnonzero(~away):
        area, moment = 0.0, np.zeros(2)
        for number, ring in enumerate(rings):
            part, own = moments(clip_ring(ring, corners[cell]))
            sign = (-1 if number else 1) * np.sign(ring_area(ring))
            area, moment = area + sign * part, moment + sign * own
        if area > ROUNDING * reach[cell] ** 2:
            cells.append(np.array([cell]))
            places.append(moment[None] / area)
            weights.append(np.array([area]))
    cell, points = np.concatenate(cells), np.concatenate(places)
    inside = barycentric_coordinates(mesh.nodes[mesh.cells[cell]], points)
    return WeightedPoints(cell, inside, np.concatenate(weights))


def clip_ring(ring: Line, triangle: Float[np.ndarray, "3 2"]) -> Line:
    """What of a ring lies in a triangle (Sutherland & Hodgman 1974).

    Where the ring leaves the triangle and comes back, it runs to and fro along an edge: areas and
    moments do not see that.
    """
    for start, end in pairwise([*triangle, triangle[0]]):
        if not len(ring):
            break
        edge = end - start
        height = edge[0] * (ring[:, 1] - start[1]) - edge[1] * (ring[:, 0] - start[0])
        kept = []
        for i, vertex in enumerate(ring):
            before = i - 1
            if (height[i] >= 0) != (height[before] >= 0):
                share = height[before] / (height[before] - height[i])
                kept.append(ring[before] + share * (vertex - ring[before]))
            if height[i] >= 0:
                kept.append(vertex)
        ring = np.array(kept).reshape(-1, 2)
    return ring


def moments(ring: Line) -> tuple[float, Float[np.ndarray, " 2"]]:
    """The signed area of a ring, and the integral of the place over it."""
    if len(ring) < 3:
        return 0.0, np.zeros(2)
    origin = ring[0]
    here, there = ring - origin, np.roll(ring, -1, axis=0) - origin
    twice = here[:, 0] * there[:, 1] - here[:, 1] * there[:, 0]
    area = float(twice.sum() / 2)
    return area, ((here + there) * twice[:, None]).sum(axis=0) / 6 + area * origin


def check_covered(found: WeightedPoints, whole: float, what: str, at: np.ndarray) -> None:
    share = found.weights.sum() / whole if whole > 0 else 0.0
    if share < COVERED:
        raise MeshError(
            f"{100 * share:.3g} % of a {what} about {at.mean(axis=0).round(6).tolist()} lies in "
            "the domain: all of it must."
        )

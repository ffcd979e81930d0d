"""Points and weights in cells of a mesh that integrate over lines, polygons and regions, and how
much of a line each cell holds.

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
from riesz.mesh.location import ROUNDING, SizeGroup, barycentric_coordinates, groups_by_size, locate
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.tags import check_planar, region_cells

COVERED = 1 - 1e-6
"""The share of a line or area that must lie in the mesh, to count as all of it."""

Polygons = Sequence[Sequence[Line]]
"""The rings of each, its outline first."""

MOST_STEPS = 1_000_000
"""Of all segments together: a river with more is no finer than its mesh could tell."""

Ends = Float[np.ndarray, "segment 2"]
StepEnds = Float[np.ndarray, "step 2"]
Parts = Int[np.ndarray, " part"]


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
    is_part = shares > ROUNDING
    result = locate(mesh, start + middles[is_part, None] * (end - start))
    weights = shares[is_part] * np.linalg.norm(end - start)
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
        corners = []
        for i, vertex in enumerate(ring):
            before = i - 1
            if (height[i] >= 0) != (height[before] >= 0):
                share = height[before] / (height[before] - height[i])
                corners.append(ring[before] + share * (vertex - ring[before]))
            if height[i] >= 0:
                corners.append(vertex)
        ring = np.array(corners).reshape(-1, 2)
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


def check_covered(points: WeightedPoints, whole: float, what: str, at: np.ndarray) -> None:
    share = points.weights.sum() / whole if whole > 0 else 0.0
    if share < COVERED:
        raise MeshError(
            f"{100 * share:.3g} % of a {what} about {at.mean(axis=0).round(6).tolist()} lies in "
            "the domain: all of it must."
        )


class Stretches(NamedTuple):
    """Parts of segments, each within one cell."""

    segment: Int[np.ndarray, " stretch"]
    cell: Int[np.ndarray, " stretch"]
    length: Float[np.ndarray, " stretch"]


class Passages(NamedTuple):
    """Where steps of segments pass cells, in fractions of the steps."""

    step: Int[np.ndarray, " passage"]
    cell: Int[np.ndarray, " passage"]
    enter: Float[np.ndarray, " passage"]
    leave: Float[np.ndarray, " passage"]


def stretches_in_cells(mesh: Mesh, starts: Ends, ends: Ends) -> Stretches:
    """Straight segments cut at the edges of the cells; what lies outside the mesh is left out.

    What runs along an edge belongs to the cells on both sides in equal parts.
    """
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
    first, last = clip_segments(
        np.concatenate([starts - low, high - starts], axis=1),
        np.concatenate([ends - low, high - ends], axis=1),
    )
    (crossing,) = np.nonzero(first < last)
    along = ends - starts
    corners = mesh.nodes[mesh.cells]
    groups = groups_by_size(corners)
    inside = starts[crossing] + first[crossing, None] * along[crossing]
    reached = starts[crossing] + last[crossing, None] * along[crossing]
    # Steps of the size of most cells have few of them near.
    owner, step_starts, step_ends = divide_segments(inside, reached, 2 * groups[0].reach)
    result = passages(mesh, groups, step_starts, step_ends)
    step, cell, share = shares(result)
    length = share * np.linalg.norm(step_ends - step_starts, axis=1)[step]
    return Stretches(crossing[owner[step]], cell, length)


def clip_segments(
    at_start: Float[np.ndarray, "segment side"], at_end: Float[np.ndarray, "segment side"]
) -> tuple[Float[np.ndarray, " segment"], Float[np.ndarray, " segment"]]:
    """Fractions between which linear functions, given at both ends, are all positive or zero."""
    change = at_end - at_start
    with np.errstate(divide="ignore", invalid="ignore"):
        root = -at_start / change
    enter = np.where(change > 0, root, 0.0).max(axis=1, initial=0.0)
    leave = np.where(change < 0, root, 1.0).min(axis=1, initial=1.0)
    never = ((change == 0) & (at_start < 0)).any(axis=1)
    return np.where(never, 1.0, enter), np.where(never, 0.0, leave)


def divide_segments(
    starts: Ends, ends: Ends, longest: float
) -> tuple[Int[np.ndarray, " step"], StepEnds, StepEnds]:
    """Segments in equal steps: which segment each is of, and its ends."""
    lengths = np.linalg.norm(ends - starts, axis=1)
    longest = max(longest, lengths.sum() / MOST_STEPS)
    count = np.maximum(np.ceil(lengths / longest), 1).astype(int)
    owner = np.repeat(np.arange(len(starts)), count)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    along = (ends - starts)[owner]
    first, last = (number / count[owner])[:, None], ((number + 1) / count[owner])[:, None]
    return owner, starts[owner] + first * along, starts[owner] + last * along


def passages(mesh: Mesh, groups: list[SizeGroup], starts: StepEnds, ends: StepEnds) -> Passages:
    """All cells that steps pass, those that are merely touched left out."""
    reach = np.linalg.norm(ends - starts, axis=1) / 2
    steps, cells = [], []
    for group in groups:
        near = group.centroids.query_ball_point(
            (starts + ends) / 2, (reach + group.reach) * (1 + 1e-9)
        )
        steps.append(np.repeat(np.arange(len(starts)), [len(result) for result in near]))
        cells.append(group.members[np.concatenate([*near, []]).astype(int)])
    step, cell = np.concatenate(steps), np.concatenate(cells)
    corners = mesh.nodes[mesh.cells[cell]]
    enter, leave = clip_segments(
        barycentric_coordinates(corners, starts[step]) + ROUNDING,
        barycentric_coordinates(corners, ends[step]) + ROUNDING,
    )
    passed = leave - enter > ROUNDING
    return Passages(step[passed], cell[passed], enter[passed], leave[passed])


def shares(found: Passages) -> tuple[Parts, Parts, Float[np.ndarray, " part"]]:
    """Steps, cells, and which fraction of the step falls to the cell.

    A step is cut wherever it enters or leaves a cell, so that each part lies in all of the cells
    that its middle lies in, and in equal parts.
    """
    place = np.concatenate([found.enter, found.leave])
    step = np.concatenate([found.step, found.step])
    order = np.lexsort((place, step))
    place, step = place[order], step[order]
    (parts,) = np.nonzero((step[1:] == step[:-1]) & (place[1:] > place[:-1]))
    middle, width, of_step = (
        (place[parts] + place[parts + 1]) / 2,
        place[parts + 1] - place[parts],
        step[parts],
    )
    part, passage = pairs_of_same_step(of_step, found.step)
    holds = (found.enter[passage] <= middle[part]) & (middle[part] <= found.leave[passage])
    part, passage = part[holds], passage[holds]
    sharing = np.bincount(part, minlength=len(parts))
    return of_step[part], found.cell[passage], width[part] / sharing[part]


def pairs_of_same_step(
    of_part: Parts, of_passage: Int[np.ndarray, " passage"]
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """All pairs of a part and a passage that belong to one step."""
    order = np.argsort(of_passage, kind="stable")
    first = np.searchsorted(of_passage[order], of_part, side="left")
    count = np.searchsorted(of_passage[order], of_part, side="right") - first
    part = np.repeat(np.arange(len(of_part)), count)
    number = np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count)
    return part, order[first[part] + number]

"""Delaunay refinement: points are added to a triangulation until all cells are small and round."""

from collections.abc import Callable

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay, KDTree

from riesz.errors import MeshError
from riesz.geometry.crossings import cross_product, inside, offset_from_edge
from riesz.mesh.facets import local_facets
from riesz.mesh.mesh import cell_volumes
from riesz.mesh.rows import pair_keys
from riesz.mesher.sizing import SizeField
from riesz.mesher.skeleton import Rings, Skeleton, split_segments, with_points

Pairs = Int[np.ndarray, "segment 2"]
Points = Float[np.ndarray, "point 2"]
Middles = Float[np.ndarray, "segment 2"]

NUM_GUARDS = 12


MAX_ROUNDS = 400
MAX_POINTS = 5_000_000
SHORTEST = 1e-9  # of the extent of the domain: shorter segments are never halved
ROUNDING = 1e-9  # a point this close (relative) to a circle counts as on it


class Triangulation(eqx.Module):
    """The Delaunay cells of some points and of a few far guards around them.

    Half-edge `3 c + i` is the side of cell `c` opposite to its corner `i`.
    """

    points: Points
    cells: Int[np.ndarray, "cell 3"]
    edge_keys: Int[np.ndarray, " half_edge"]  # sorted, one for each half-edge
    half_edges: Int[np.ndarray, " half_edge"]  # in the order of their keys


def triangulate(points: Points) -> Triangulation:
    points = np.concatenate([points, far_guards(points)])
    # Map coordinates are large beside their differences, and Qhull squares them.
    local = points - points[-NUM_GUARDS:].mean(axis=0)
    cells = Delaunay(local / np.abs(local).max()).simplices.astype(np.int64)
    sides = np.sort(cells[:, local_facets(2)].reshape(-1, 2), axis=1)
    keys = pair_keys(sides, len(points))
    order = np.argsort(keys, kind="stable")
    return Triangulation(points, cells, keys[order], order)


def far_guards(points: Points) -> Float[np.ndarray, "guard 2"]:
    """A circle of points around all others.

    With them no segment is on the hull, where rounding makes flat cells along straight borders.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    turn = 2 * np.pi * (np.arange(NUM_GUARDS) + 0.5) / NUM_GUARDS
    reach = 2 * np.linalg.norm(high - low)
    return (low + high) / 2 + reach * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def segment_sides(mesh: Triangulation, segments: Pairs) -> Pairs:
    """The two half-edges of each segment, or -1 where it is no edge of the triangulation."""
    keys = pair_keys(np.sort(segments, axis=1), len(mesh.points))
    place = np.searchsorted(mesh.edge_keys, keys)
    place = np.minimum(place, len(mesh.edge_keys) - 2)
    result = (mesh.edge_keys[place] == keys) & (mesh.edge_keys[place + 1] == keys)
    sides = np.stack([mesh.half_edges[place], mesh.half_edges[place + 1]], axis=1)
    return np.where(result[:, None], sides, -1)


def apexes(mesh: Triangulation, half_edges: Int[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
    """The corner opposite to each half-edge."""
    return mesh.cells.ravel()[half_edges]


def regions_between(
    mesh: Triangulation, segments: Pairs
) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " region"]]:
    """Number of the region each cell belongs to, and the largest cell of each region.

    Regions are what the segments, all of them edges, separate: a point test for one cell
    settles a whole region.
    """
    keys = pair_keys(np.sort(segments, axis=1), len(mesh.points))
    twins = mesh.edge_keys[1:] == mesh.edge_keys[:-1]
    open_side = twins & ~np.isin(mesh.edge_keys[1:], keys)
    (place,) = np.nonzero(open_side)
    first, second = mesh.half_edges[place] // 3, mesh.half_edges[place + 1] // 3
    count = len(mesh.cells)
    graph = sp.coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(count, count))
    _, region = connected_components(graph, directed=False)
    by_size = np.argsort(-cell_volumes(mesh.points, mesh.cells), kind="stable")
    _, first_seen = np.unique(region[by_size], return_index=True)
    return region.astype(np.int64), by_size[first_seen]


def circumcircles(
    points: Points, cells: Int[np.ndarray, "cell 3"]
) -> tuple[Float[np.ndarray, "cell 2"], Float[np.ndarray, " cell"]]:
    """Centre and radius of the circle through the corners of each cell."""
    a, b, c = points[cells].swapaxes(0, 1)
    u, v = b - a, c - a
    double = 2 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
    uu, vv = (u**2).sum(axis=1), (v**2).sum(axis=1)
    offset = np.stack([v[:, 1] * uu - u[:, 1] * vv, u[:, 0] * vv - v[:, 0] * uu], axis=1)
    offset /= double[:, None]
    return a + offset, np.linalg.norm(offset, axis=1)


def side_lengths(points: Points, cells: Int[np.ndarray, "cell 3"]) -> Float[np.ndarray, "cell 3"]:
    """Lengths of the sides opposite to each corner."""
    corners = points[cells]
    return np.linalg.norm(np.roll(corners, -1, axis=1) - np.roll(corners, 1, axis=1), axis=2)


class Survey(eqx.Module):
    """A triangulation in which every segment is an edge, and what its cells are."""

    mesh: Triangulation
    sides: Pairs  # half-edges
    inside: Bool[np.ndarray, " cell"]
    capped: Bool[np.ndarray, " cell"]  # within the cap of a sharp corner


# From side lengths, circumcentres and circumradii of cells: which ones need another point.
Poor = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def conform(
    skeleton: Skeleton, rings: Rings, longest: SizeField | None = None, slack: float = 1.0
) -> tuple[Skeleton, Survey]:
    """Halve segments until all are edges and no point inside the domain encroaches on one.

    A point encroaches when it lies in the circle that has the segment as diameter. With a size
    field, segments longer than `slack` times what it allows are halved as well.
    """
    for _ in range(MAX_ROUNDS):
        mesh = triangulate(skeleton.points)
        sides = segment_sides(mesh, skeleton.segments)
        unfit = sides[:, 0] < 0
        if not unfit.any():
            survey = survey_cells(skeleton, mesh, sides, rings)
            unfit = is_encroached(survey, skeleton)
            if longest is not None:
                unfit |= too_long(skeleton, longest, slack)
            if not unfit.any():
                return skeleton, survey
        check_progress(skeleton, unfit)
        skeleton = split_segments(skeleton, unfit)
    raise not_settled(skeleton.points[-1])


def survey_cells(skeleton: Skeleton, mesh: Triangulation, sides: Pairs, rings: Rings) -> Survey:
    region, samples = regions_between(mesh, skeleton.segments)
    middles = mesh.points[mesh.cells[samples]].mean(axis=1)
    bases, beside = skeleton.segments[skeleton.is_base], sides[skeleton.is_base]
    start, end = (skeleton.points[bases[:, [k]]] for k in (0, 1))
    left = cross_product(end - start, mesh.points[apexes(mesh, beside)] - start) > 0
    capped = np.isin(region, region[beside[left] // 3])
    return Survey(mesh, sides, inside(middles, *rings)[region], capped)


def is_encroached(survey: Survey, skeleton: Skeleton) -> Bool[np.ndarray, " segment"]:
    """Whether the apex of a cell beside each segment sees it at an obtuse angle."""
    mesh = survey.mesh
    apex = mesh.points[apexes(mesh, survey.sides)]
    start, end = (skeleton.points[skeleton.segments[:, [k]]] for k in (0, 1))
    product = ((start - apex) * (end - apex)).sum(axis=-1)
    obtuse = product < -ROUNDING * ((end - start) ** 2).sum(axis=-1)
    return (obtuse & (survey.inside & ~survey.capped)[survey.sides // 3]).any(axis=1)


def opposite_points(survey: Survey, skeleton: Skeleton) -> tuple[Pairs, Middles]:
    """The apex of the cell on each side of a segment, and its distance.

    The distance is infinite if the cell lies outside the domain or in a cap.
    """
    apex = apexes(survey.mesh, survey.sides)
    start, end = (skeleton.points[skeleton.segments[:, [k]]] for k in (0, 1))
    distance = offset_from_edge(survey.mesh.points[apex] - start, end - start)
    counts = (survey.inside & ~survey.capped)[survey.sides // 3]
    return apex, np.where(counts, distance, np.inf)


def too_long(skeleton: Skeleton, longest: SizeField, slack: float) -> Bool[np.ndarray, " segment"]:
    # Spokes and bases have their lengths from the corner.
    plain = ~skeleton.is_base & (skeleton.bundle < 0)
    middle, length = diameters(skeleton)
    return plain & (length > slack * longest(middle) * (1 + ROUNDING))


def diameters(skeleton: Skeleton) -> tuple[Middles, Float[np.ndarray, " segment"]]:
    """Middle and length of each segment."""
    start, end = (skeleton.points[skeleton.segments[:, k]] for k in (0, 1))
    return (start + end) / 2, np.linalg.norm(end - start, axis=1)


def refine_triangulation(
    skeleton: Skeleton, rings: Rings, poor: Poor, *, split: bool, settle: float = 0.0
) -> tuple[Skeleton, Survey]:
    """Insert circumcentres of poor cells until there are none (Ruppert 1995), many at a time.

    A centre that would encroach on segments is left out; if `split`, they are halved instead.
    Ends early when a round adds no more than the share `settle` of all points.
    """
    for _ in range(MAX_ROUNDS):
        skeleton, survey = conform(skeleton, rings)
        centres = poor_centres(survey, poor)
        middle, length = diameters(skeleton)
        clear, struck = encroaching(centres, middle, length / 2)
        struck &= split
        if clear.sum() + struck.sum() <= settle * len(skeleton.points):
            return skeleton, survey
        check_progress(skeleton, struck)
        points = np.concatenate([skeleton.points, centres[clear]])
        skeleton = split_segments(with_points(skeleton, points), struck)
    raise not_settled(skeleton.points[-1])


def poor_centres(survey: Survey, poor: Poor) -> Float[np.ndarray, "n 2"]:
    """Circumcentres of poor cells, thinned so that one could insert them one by one."""
    free = survey.mesh.cells[survey.inside & ~survey.capped]
    centres, radii = circumcircles(survey.mesh.points, free)
    chosen = poor(side_lengths(survey.mesh.points, free), centres, radii)
    return spread_out(centres[chosen], radii[chosen])


def spread_out(
    centres: Float[np.ndarray, "n 2"], radii: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "chosen 2"]:
    """The centres of the largest circles, none of which lies in a larger one that is chosen."""
    if not len(centres):
        return centres
    tree = KDTree(centres)
    free = np.ones(len(centres), dtype=bool)
    chosen = []
    for index in np.argsort(-radii, kind="stable"):
        if free[index]:
            chosen.append(index)
            free[tree.query_ball_point(centres[index], radii[index])] = False
    return centres[chosen]


def encroaching(
    points: Float[np.ndarray, "n 2"], middle: Middles, radius: Float[np.ndarray, " segment"]
) -> tuple[Bool[np.ndarray, " n"], Bool[np.ndarray, " segment"]]:
    """Which points are in no circle, and which circles hold a point."""
    clear = np.ones(len(points), dtype=bool)
    if not len(points):
        return clear, np.zeros(len(middle), dtype=bool)
    hits = KDTree(points).query_ball_point(middle, radius * (1 - ROUNDING))
    for members in hits:
        clear[members] = False
    return clear, np.array([len(members) > 0 for members in hits])


def check_progress(skeleton: Skeleton, split: Bool[np.ndarray, " segment"]) -> None:
    middle, length = diameters(skeleton)
    shortest = SHORTEST * np.ptp(skeleton.points, axis=0).max()
    (stuck,) = np.nonzero(split & (length < shortest))
    if stuck.size:
        raise not_settled(middle[stuck[0]])
    if len(skeleton.points) > MAX_POINTS:
        raise MeshError(
            f"the mesh would have more than {MAX_POINTS} nodes: raise max_edge or near_edge, or "
            "simplify the outline."
        )


def not_settled(place: Float[np.ndarray, "2"]) -> MeshError:
    return MeshError(
        f"refinement does not come to an end near [{place[0]:.6g}, {place[1]:.6g}]: the outline or "
        "a line has details there far below the size of the domain; pass simplify, or mend it."
    )

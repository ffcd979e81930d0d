"""Which cell holds each point, and where in it; outside, which point of the boundary is nearest."""

from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from riesz.errors import MeshError
from riesz.geometry.lines import Number
from riesz.mesh.facets import boundary_facets
from riesz.mesh.mesh import Mesh

Points = Float[np.ndarray, "point dim"]
Candidates = Int[np.ndarray, "point candidate"]

ROUNDING = 1e-9
"""A point this far outside a cell, relative to the cell's height, counts as inside it."""

PAIRS_AT_ONCE = 400_000
"""Bounds the memory of a search; the answer does not depend on it."""


class SizeGroup(eqx.Module):
    """Simplices of like size: each lies within `reach` of its centroid."""

    members: Int[np.ndarray, " member"]
    centroids: KDTree
    reach: float


def groups_by_size(corners: Float[np.ndarray, "simplex corner dim"]) -> list[SizeGroup]:
    """Simplices apart by powers of two of their size, the largest group first.

    One tree for all would have to be searched as far as the largest simplex reaches, which on a
    graded mesh takes in thousands of small ones.
    """
    centroids = corners.mean(axis=1)
    reach = np.linalg.norm(corners - centroids[:, None], axis=2).max(axis=1)
    # A point has no reach: the floor keeps the logarithm finite.
    level = np.round(np.log2(np.maximum(reach, np.finfo(float).tiny))).astype(int)
    levels, counts = np.unique(level, return_counts=True)
    groups = []
    for one in levels[np.argsort(-counts, kind="stable")]:
        (members,) = np.nonzero(level == one)
        # Unbalanced: three times faster to build, and no slower to ask on evenly spread cells.
        tree = KDTree(centroids[members], balanced_tree=False, compact_nodes=False)
        groups.append(SizeGroup(members, tree, float(reach[members].max())))
    return groups


class BoundaryPoint(eqx.Module):
    """The boundary's nearest point to each of some points."""

    distance: Float[np.ndarray, " point"]
    cell: Int[np.ndarray, " point"]
    barycentric: Float[np.ndarray, "point corner"]


def nearest_on_boundary(mesh: Mesh, points: Points, cutoff: float | int = np.inf) -> BoundaryPoint:
    """Exact projection to the boundary facets; points beyond the cutoff may have none."""
    facets = boundary_facets(mesh)
    corners = mesh.nodes[facets.nodes]
    point, facet = pairs_within_reach(corners, points, cutoff)
    weights = nearest_weights(corners[facet], points[point])
    gaps = distances(corners[facet], weights, points[point])
    order = np.lexsort((gaps, point))
    result, first = np.unique(point[order], return_index=True)
    best = order[first]
    distance, cell = np.full(len(points), np.inf), np.full(len(points), -1)
    barycentric = np.full((len(points), mesh.dim + 1), np.nan)
    distance[result], cell[result] = gaps[best], facets.cell[facet[best]]
    is_corner = mesh.cells[cell[result]][:, :, None] == facets.nodes[facet[best]][:, None, :]
    barycentric[result] = np.einsum("pci,pi->pc", is_corner, weights[best])
    return BoundaryPoint(distance, cell, barycentric)


def pairs_within_reach(
    corners: Float[np.ndarray, "facet corner dim"], points: Points, cutoff: float | int
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Pairs (point, facet), among them for each point the facet nearest to it.

    No facet is nearer than its centroid less its reach, and the nearest corner bounds what counts.
    """
    bound, _ = KDTree(corners.reshape(-1, corners.shape[2])).query(points)
    point, facet = [], []
    for group in groups_by_size(corners):
        radii = (np.minimum(bound, cutoff) + group.reach) * (1 + 1e-9)  # never short by rounding
        near = group.centroids.query_ball_point(points, radii)
        point.append(np.repeat(np.arange(len(points)), [len(result) for result in near]))
        facet.append(group.members[np.concatenate(near).astype(int)])
    return np.concatenate(point), np.concatenate(facet)


def distances(
    corners: Float[np.ndarray, "pair corner dim"],
    weights: Float[np.ndarray, "pair corner"],
    points: Float[np.ndarray, "pair dim"],
) -> Float[np.ndarray, " pair"]:
    """From each point to the weighted mean of its facet's corners."""
    return np.linalg.norm(np.einsum("pi,pid->pd", weights, corners - points[:, None]), axis=1)


def nearest_weights(
    corners: Float[np.ndarray, "pair corner dim"], points: Float[np.ndarray, "pair dim"]
) -> Float[np.ndarray, "pair corner"]:
    """Weights of the corners that give the nearest point of a point, segment or triangle."""
    match corners.shape[1]:
        case 1:
            return np.ones((len(points), 1))
        case 2:
            return weights_on_segment(corners, points)
        case _:
            return weights_on_triangle(corners, points)


def weights_on_segment(
    corners: Float[np.ndarray, "pair 2 dim"], points: Float[np.ndarray, "pair dim"]
) -> Float[np.ndarray, "pair 2"]:
    edges, offsets = corners[:, 1] - corners[:, 0], points - corners[:, 0]
    along = np.einsum("pd,pd->p", edges, offsets) / np.einsum("pd,pd->p", edges, edges)
    along = np.clip(along, 0.0, 1.0)
    return np.stack([1 - along, along], axis=1)


def weights_on_triangle(
    corners: Float[np.ndarray, "pair 3 dim"], points: Float[np.ndarray, "pair dim"]
) -> Float[np.ndarray, "pair 3"]:
    """The foot of the perpendicular where it lies in the triangle, else the nearest on its rim."""
    edges, offsets = corners[:, 1:] - corners[:, :1], points - corners[:, 0]
    gram = np.einsum("pid,pjd->pij", edges, edges)
    others = np.linalg.solve(gram, np.einsum("pid,pd->pi", edges, offsets)[..., None])[..., 0]
    foot = np.concatenate([1 - others.sum(axis=1, keepdims=True), others], axis=1)
    choices, gaps = [foot], [np.where(foot.min(axis=1) < 0, np.inf, 0.0)]
    for ends in ([0, 1], [0, 2], [1, 2]):
        rim = np.zeros_like(foot)
        rim[:, ends] = weights_on_segment(corners[:, ends], points)
        choices.append(rim)
        gaps.append(distances(corners, rim, points))
    best = np.argmin(gaps, axis=0)
    return np.stack(choices)[best, np.arange(len(points))]


class Location(eqx.Module):
    """Where points lie in a mesh; outside points have cell -1 and NaN coordinates."""

    cell: Int[np.ndarray, " point"]
    barycentric: Float[np.ndarray, "point corner"]  # weights of the cell's corners, sum one
    inside: Bool[np.ndarray, " point"]


def locate(
    mesh: Mesh,
    points: ArrayLike,
    *,
    tolerance: float | int | None = None,
    outside: Literal["mask", "raise"] = "mask",
) -> Location:
    """The cell of each point, exactly, on meshes of any grading.

    Rounding is always forgiven. With a `tolerance` (a length), points up to that far outside
    are moved to the nearest point of the boundary. Other outside points are masked, or raise.
    """
    if outside not in ("mask", "raise"):
        raise MeshError(
            f"outside is {outside!r}: points there are dealt with by 'mask' or 'raise'."
        )
    if tolerance is not None and not (isinstance(tolerance, Number) and tolerance >= 0):
        raise MeshError(f"the tolerance is {tolerance!r}: give a length in the mesh's unit, or 0.")
    places = check_points(mesh, points)
    location = locate_within(mesh, places)
    if tolerance is not None:
        location = with_near_points(mesh, places, location, tolerance)
    if outside == "raise" and not location.inside.all():
        raise outside_error(mesh, places, location.inside)
    return location


def locate_within(mesh: Mesh, points: Points) -> Location:
    """Cells that hold the points, up to rounding; no other tolerance."""
    cell = np.full(len(points), -1)
    barycentric = np.full((len(points), mesh.dim + 1), np.nan)
    remaining = np.arange(len(points))
    for group in groups_by_size(mesh.nodes[mesh.cells]):
        result, weights = search_group(mesh, group, points[remaining])
        hit = result >= 0
        cell[remaining[hit]] = result[hit]
        barycentric[remaining[hit]] = weights[hit]
        remaining = remaining[~hit]
    return Location(cell, barycentric, cell >= 0)


def search_group(
    mesh: Mesh, group: SizeGroup, points: Points
) -> tuple[Int[np.ndarray, " point"], Float[np.ndarray, "point corner"]]:
    """Cell (or -1) and barycentric coordinates of each point, among one group of cells.

    Tries the nearest centroids first, then ever more, until all within reach have been tried.
    """
    cell = np.full(len(points), -1)
    barycentric = np.full((len(points), mesh.dim + 1), np.nan)
    remaining, num_tried = np.arange(len(points)), 4
    while remaining.size:
        undecided = []
        for batch in np.array_split(remaining, 1 + remaining.size * num_tried // PAIRS_AT_ONCE):
            candidates = nearest_members(group, points[batch], num_tried)
            best, weights = best_candidate(mesh, candidates, points[batch])
            hit = best >= 0
            cell[batch[hit]] = best[hit]
            barycentric[batch[hit]] = weights[hit]
            undecided.append(batch[~hit & (candidates[:, -1] >= 0)])
        remaining, num_tried = np.concatenate(undecided), 2 * num_tried
    return cell, barycentric


def nearest_members(group: SizeGroup, points: Points, count: int) -> Candidates:
    """Cells that may hold the points, by the distance of their centroids; -1 for no more."""
    nearest, bound = np.arange(1, count + 1), group.reach * (1 + 2 * ROUNDING)
    _, place = group.centroids.query(points, k=nearest, distance_upper_bound=bound)
    return np.append(group.members, -1)[place]


def best_candidate(
    mesh: Mesh, candidates: Candidates, points: Points
) -> tuple[Int[np.ndarray, " point"], Float[np.ndarray, "point corner"]]:
    """The candidate deepest inside which each point lies, or -1 where it lies in none."""
    weights = barycentric_coordinates(mesh.nodes[mesh.cells[candidates]], points[:, None])
    depth = np.where(candidates >= 0, weights.min(axis=2), -np.inf)
    choice = depth.argmax(axis=1)[:, None]
    cell = np.take_along_axis(candidates, choice, axis=1)[:, 0]
    inside = np.take_along_axis(depth, choice, axis=1)[:, 0] >= -ROUNDING
    clamped = np.maximum(np.take_along_axis(weights, choice[..., None], axis=1)[:, 0], 0.0)
    return np.where(inside, cell, -1), clamped / clamped.sum(axis=1, keepdims=True)


def barycentric_coordinates(
    corners: Float[np.ndarray, "*simplex corner dim"], points: Float[np.ndarray, "*#simplex dim"]
) -> Float[np.ndarray, "*simplex corner"]:
    # Differences first: far from the origin, products of coordinates would lose the digits.
    edges = np.moveaxis(corners[..., 1:, :] - corners[..., :1, :], -1, -2)
    offsets = points - corners[..., 0, :]
    others = np.linalg.solve(edges, offsets[..., None])[..., 0]
    return np.concatenate([1 - others.sum(axis=-1, keepdims=True), others], axis=-1)


def with_near_points(
    mesh: Mesh, points: Points, location: Location, tolerance: float | int
) -> Location:
    """Points up to a tolerance outside go to the nearest point of the boundary."""
    (missing,) = np.nonzero(~location.inside)
    if not missing.size:
        return location
    nearest = nearest_on_boundary(mesh, points[missing], tolerance)
    near = nearest.distance <= tolerance
    cell, barycentric = location.cell.copy(), location.barycentric.copy()
    cell[missing[near]] = nearest.cell[near]
    barycentric[missing[near]] = nearest.barycentric[near]
    return Location(cell, barycentric, cell >= 0)


def outside_error(mesh: Mesh, points: Points, inside: Bool[np.ndarray, " point"]) -> MeshError:
    (outside,) = np.nonzero(~inside)
    first = outside[0]
    distance = nearest_on_boundary(mesh, points[[first]]).distance[0]
    return MeshError(
        f"{len(outside)} of {len(points)} points lie outside the mesh, first point {first} at "
        f"{points[first].tolist()}, {distance:.3g} from the domain (which spans "
        f"{mesh.nodes.min(axis=0).tolist()} to {mesh.nodes.max(axis=0).tolist()}): check units and "
        "coordinate order, drop the points, or allow a tolerance."
    )


def check_points(mesh: Mesh, points: ArrayLike) -> Points:
    try:
        places = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise MeshError(f"the points are not an array of coordinates ({error}).") from None
    if places.ndim != 2 or places.shape[1] != mesh.dim:
        raise MeshError(
            f"points have shape {places.shape}, but the mesh needs (number of points, {mesh.dim})."
        )
    (bad,) = np.nonzero(~np.isfinite(places).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(places)} points have NaN or infinite coordinates, first point "
            f"{bad[0]} at {places[bad[0]].tolist()}: drop them before looking them up."
        )
    return places

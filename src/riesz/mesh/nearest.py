"""The boundary's nearest points, and simplices sorted by size so that searches stay short."""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from riesz.mesh.facets import boundary_facets
from riesz.mesh.mesh import Mesh


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


def nearest_on_boundary(
    mesh: Mesh, points: Float[np.ndarray, "point dim"], cutoff: float | int = np.inf
) -> BoundaryPoint:
    """Exact projection to the boundary facets; points beyond the cutoff may have none."""
    facets = boundary_facets(mesh)
    corners = mesh.nodes[facets.nodes]
    point, facet = pairs_within_reach(corners, points, cutoff)
    weights = nearest_weights(corners[facet], points[point])
    gaps = distances(corners[facet], weights, points[point])
    order = np.lexsort((gaps, point))
    found, first = np.unique(point[order], return_index=True)
    best = order[first]
    distance, cell = np.full(len(points), np.inf), np.full(len(points), -1)
    barycentric = np.full((len(points), mesh.dim + 1), np.nan)
    distance[found], cell[found] = gaps[best], facets.cell[facet[best]]
    is_corner = mesh.cells[cell[found]][:, :, None] == facets.nodes[facet[best]][:, None, :]
    barycentric[found] = np.einsum("pci,pi->pc", is_corner, weights[best])
    return BoundaryPoint(distance, cell, barycentric)


def pairs_within_reach(
    corners: Float[np.ndarray, "facet corner dim"],
    points: Float[np.ndarray, "point dim"],
    cutoff: float | int,
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Pairs (point, facet), among them for each point the facet nearest to it.

    No facet is nearer than its centroid less its reach, and the nearest corner bounds what counts.
    """
    bound, _ = KDTree(corners.reshape(-1, corners.shape[2])).query(points)
    point, facet = [], []
    for group in groups_by_size(corners):
        radii = (np.minimum(bound, cutoff) + group.reach) * (1 + 1e-9)  # never short by rounding
        near = group.centroids.query_ball_point(points, radii)
        point.append(np.repeat(np.arange(len(points)), [len(found) for found in near]))
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

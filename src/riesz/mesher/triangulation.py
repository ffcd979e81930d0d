"""Delaunay triangulations, and where the segments of a skeleton lie in them."""

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay

from riesz.mesh.facets import local_facets, row_keys
from riesz.mesh.mesh import cell_volumes

NUM_GUARDS = 12


class Triangulation(eqx.Module):
    """The Delaunay cells of some points and of a few far guards around them.

    Half-edge `3 c + i` is the side of cell `c` opposite to its corner `i`.
    """

    points: Float[np.ndarray, "point 2"]
    cells: Int[np.ndarray, "cell 3"]
    edge_keys: Int[np.ndarray, " half_edge"]  # sorted, one for each half-edge
    half_edges: Int[np.ndarray, " half_edge"]  # in the order of their keys


def triangulate(points: Float[np.ndarray, "point 2"]) -> Triangulation:
    points = np.concatenate([points, far_guards(points)])
    # Map coordinates are large beside their differences, and Qhull squares them.
    local = points - points[-NUM_GUARDS:].mean(axis=0)
    cells = Delaunay(local / np.abs(local).max()).simplices.astype(np.int64)
    sides = np.sort(cells[:, local_facets(2)].reshape(-1, 2), axis=1)
    keys = row_keys(sides, len(points))
    order = np.argsort(keys, kind="stable")
    return Triangulation(points, cells, keys[order], order)


def far_guards(points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "guard 2"]:
    """A circle of points around all others.

    With them no segment is on the hull, where rounding makes flat cells along straight borders.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    turn = 2 * np.pi * (np.arange(NUM_GUARDS) + 0.5) / NUM_GUARDS
    reach = 2 * np.linalg.norm(high - low)
    return (low + high) / 2 + reach * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def segment_sides(
    mesh: Triangulation, segments: Int[np.ndarray, "segment 2"]
) -> Int[np.ndarray, "segment 2"]:
    """The two half-edges of each segment, or -1 where it is no edge of the triangulation."""
    keys = row_keys(np.sort(segments, axis=1), len(mesh.points))
    place = np.searchsorted(mesh.edge_keys, keys)
    place = np.minimum(place, len(mesh.edge_keys) - 2)
    found = (mesh.edge_keys[place] == keys) & (mesh.edge_keys[place + 1] == keys)
    sides = np.stack([mesh.half_edges[place], mesh.half_edges[place + 1]], axis=1)
    return np.where(found[:, None], sides, -1)


def apexes(mesh: Triangulation, half_edges: Int[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
    """The corner opposite to each half-edge."""
    return mesh.cells.ravel()[half_edges]


def regions_between(
    mesh: Triangulation, segments: Int[np.ndarray, "segment 2"]
) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " region"]]:
    """Number of the region each cell belongs to, and the largest cell of each region.

    Regions are what the segments, all of them edges, separate: a point test for one cell
    settles a whole region.
    """
    keys = row_keys(np.sort(segments, axis=1), len(mesh.points))
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
    points: Float[np.ndarray, "point 2"], cells: Int[np.ndarray, "cell 3"]
) -> tuple[Float[np.ndarray, "cell 2"], Float[np.ndarray, " cell"]]:
    """Centre and radius of the circle through the corners of each cell."""
    a, b, c = points[cells].swapaxes(0, 1)
    u, v = b - a, c - a
    double = 2 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
    uu, vv = (u**2).sum(axis=1), (v**2).sum(axis=1)
    offset = np.stack([v[:, 1] * uu - u[:, 1] * vv, u[:, 0] * vv - v[:, 0] * uu], axis=1)
    offset /= double[:, None]
    return a + offset, np.linalg.norm(offset, axis=1)


def side_lengths(
    points: Float[np.ndarray, "point 2"], cells: Int[np.ndarray, "cell 3"]
) -> Float[np.ndarray, "cell 3"]:
    """Lengths of the sides opposite to each corner."""
    corners = points[cells]
    return np.linalg.norm(np.roll(corners, -1, axis=1) - np.roll(corners, 1, axis=1), axis=2)

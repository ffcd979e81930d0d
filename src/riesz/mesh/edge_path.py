"""Paths of mesh edges that follow a given line, such as a river or a fault."""

from itertools import pairwise

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

from riesz.errors import MeshError
from riesz.geometry.lines import Line, distance_to_lines, points_along
from riesz.mesh.facets import cell_edges
from riesz.mesh.mesh import Mesh

WIDTH = 4.0
"""A path is sought this many tolerances around its line, so that an error can say how far off."""


class EdgePath(eqx.Module):
    """Nodes joined by mesh edges, one after the other, along a line."""

    nodes: Int[np.ndarray, " node"]
    max_distance: float  # of the path's nodes and edge midpoints from the line


class Corridor(eqx.Module):
    """The part of a mesh near a line, as a graph whose paths are short where they are close."""

    nodes: Int[np.ndarray, " near"]  # indices in the mesh
    places: Float[np.ndarray, "near 2"]
    distance: Float[np.ndarray, " near"]  # from the line
    graph: sp.csr_array  # [near, near], cost of each edge
    longest_edge: float


def edge_path(mesh: Mesh, line: Line, tolerance: float | int) -> EdgePath:
    """The path of mesh edges near a line that encloses the least area with it."""
    corridor = corridor_around(mesh, line, WIDTH * tolerance)
    stops = choose_stops(corridor, line, tolerance)
    route = [int(stops[0])]
    for start, stop in pairwise(stops):
        route += shortest_path(corridor, int(start), int(stop))
    path = without_spurs(route)
    if len(path) < 2:
        raise MeshError(
            f"the line from {line[0].tolist()} to {line[-1].tolist()} is shorter than the mesh "
            "edges around it: refine the mesh there."
        )
    farthest = path_distance(corridor, path, line)
    if farthest > tolerance:
        raise MeshError(
            f"the nearest path of mesh edges strays {farthest:.3g} from the line, more than "
            f"the tolerance {tolerance:g}: build the mesh around the line, refine it there, or "
            "allow a larger tolerance."
        )
    return EdgePath(corridor.nodes[path], farthest)


def corridor_around(mesh: Mesh, line: Line, width: float) -> Corridor:
    distance = distance_to_lines(mesh.nodes, [line], width)
    near = np.isfinite(distance)
    edges, _ = cell_edges(mesh)
    edges = edges[near[edges].all(axis=1)]
    if not len(edges):
        raise MeshError(
            f"no mesh edge lies within {width:.3g} of the line from {line[0].tolist()} to "
            f"{line[-1].tolist()}; the mesh spans {mesh.nodes.min(axis=0).tolist()} to "
            f"{mesh.nodes.max(axis=0).tolist()}: check units and coordinate order, or allow a "
            "larger tolerance."
        )
    ends = mesh.nodes[edges]
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    middle = distance_to_lines(ends.mean(axis=1), [line], width + float(length.max()))
    # Simpson's rule for the area between edge and line; the midpoint keeps an edge from cutting
    # a bend. A little length on top prefers the straight one of two equal paths.
    area = length * (distance[edges].sum(axis=1) + 4 * middle) / 6
    cost = area + 1e-3 * length * length.mean()
    (nodes,) = np.nonzero(near)
    rows, columns = np.searchsorted(nodes, edges).T
    graph = sp.csr_array((cost, (rows, columns)), shape=(len(nodes), len(nodes)))
    return Corridor(nodes, mesh.nodes[near], distance[near], graph, float(length.max()))


def choose_stops(
    corridor: Corridor, line: Line, tolerance: float | int
) -> Int[np.ndarray, " stop"]:
    """Nodes to pass one after the other, so that a winding line is not cut short."""
    wanted = points_along(line, 4 * corridor.longest_edge)
    num_candidates = min(8, len(corridor.nodes))  # at least two: an edge has two ends
    gaps, candidates = KDTree(corridor.places).query(wanted, k=num_candidates)
    # A node on the line a little further along beats one that is close but beside it.
    choice = (gaps + 4 * corridor.distance[candidates]).argmin(axis=1)[:, None]
    choice[[0, -1]] = 0
    gap = np.take_along_axis(gaps, choice, axis=1)[:, 0]
    allowed = np.full(len(wanted), tolerance + corridor.longest_edge)
    allowed[[0, -1]] = tolerance
    (lost,) = np.nonzero(gap > allowed)
    if lost.size:
        raise MeshError(
            f"the line passes {wanted[lost[0]].tolist()}, but the nearest mesh node along it is "
            f"{gap[lost[0]]:.3g} away: clip the line to the mesh, refine the mesh there, or allow "
            "a larger tolerance."
        )
    return np.take_along_axis(candidates, choice, axis=1)[:, 0]


def shortest_path(corridor: Corridor, start: int, stop: int) -> list[int]:
    """Corridor nodes after `start`, up to and with `stop`."""
    _, previous = dijkstra(corridor.graph, directed=False, indices=start, return_predecessors=True)
    steps = []
    while stop != start:
        if stop < 0:
            raise MeshError(
                "no path of mesh edges joins all parts of the line: clip it to the mesh, or "
                "allow a larger tolerance."
            )
        steps.append(stop)
        stop = int(previous[stop])
    return steps[::-1]


def without_spurs(route: list[int]) -> list[int]:
    """The route without steps that are at once taken back, as happens at a stop beside it."""
    path: list[int] = []
    for node in route:
        if len(path) > 1 and path[-2] == node:
            path.pop()
        else:
            path.append(node)
    return path


def path_distance(corridor: Corridor, path: list[int], line: Line) -> float:
    """Farthest that the path's nodes and edge midpoints lie from the line."""
    places = corridor.places[path]
    midpoints = (places[:-1] + places[1:]) / 2
    cutoff = float(corridor.distance.max()) + corridor.longest_edge
    return float(distance_to_lines(np.concatenate([places, midpoints]), [line], cutoff).max())

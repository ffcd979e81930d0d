"""Names for parts of a mesh: stretches of boundary, lines inside, regions of cells.

Every function returns a new mesh; a tag of the same name is replaced. Lines and polygons may be
arrays [point, 2], GeoJSON dictionaries or objects with `__geo_interface__`.
"""

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

from riesz.errors import MeshError, nearest
from riesz.geometry.lines import (
    Line,
    distance_to_lines,
    inside_any,
    inside_polygon,
    lines_of,
    points_along,
    polygons_of,
)
from riesz.mesh.facets import FacetSet, boundary_facets, cell_edges, find_facets
from riesz.mesh.mesh import BOUNDARY, Mesh, cell_volumes

WIDTH = 4.0
"""A path is sought this many tolerances around its line, so that an error can say how far off."""


REST = "rest"
"""What the cells outside of all regions are called."""


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


def tag_boundary(
    mesh: Mesh,
    name: str,
    where: Callable[[Float[np.ndarray, "facet dim"]], Bool[np.ndarray, " facet"]],
) -> Mesh:
    """Tag the boundary facets at whose midpoints `where` holds."""
    facets = boundary_facets(mesh).nodes
    midpoints = mesh.nodes[facets].mean(axis=1)
    chosen = holds_at(where, midpoints, name)
    return with_boundary(mesh, name, facets[chosen], "satisfies the condition")


def holds_at(
    where: Callable[..., Any], middles: Float[np.ndarray, "part dim"], name: str
) -> Bool[np.ndarray, " part"]:
    """Whether a condition holds at the middle of each facet or cell."""
    chosen = np.asarray(where(middles))
    if chosen.shape != (len(middles),) or chosen.dtype != bool:
        raise MeshError(
            f"the condition for tag {name!r} returned {chosen.dtype} of shape {chosen.shape}: it "
            f"gets all {len(middles)} midpoints at once and must return a bool for each."
        )
    return chosen


def tag_boundary_near(mesh: Mesh, name: str, geometry: Any, tolerance: float | int) -> Mesh:
    """Tag the boundary edges whose ends and midpoint lie within `tolerance` of a line."""
    check_planar(mesh, name)
    check_tolerance(name, tolerance)
    lines = lines_of(geometry)
    edges = boundary_facets(mesh).nodes
    used, place = np.unique(edges, return_inverse=True)
    near_ends = np.isfinite(distance_to_lines(mesh.nodes[used], lines, tolerance))
    midpoints = mesh.nodes[edges].mean(axis=1)
    near_middle = np.isfinite(distance_to_lines(midpoints, lines, tolerance))
    chosen = near_middle & near_ends[place.reshape(edges.shape)].all(axis=1)
    return with_boundary(mesh, name, edges[chosen], f"lies within {tolerance:g} of the line")


def tag_boundary_inside(mesh: Mesh, name: str, polygon: Any) -> Mesh:
    """Tag the boundary edges whose midpoints lie inside a polygon."""
    check_planar(mesh, name)
    edges = boundary_facets(mesh).nodes
    chosen = inside_polygon(mesh.nodes[edges].mean(axis=1), lines_of(polygon))
    return with_boundary(mesh, name, edges[chosen], "has its midpoint inside the polygon")


def tag_region(mesh: Mesh, name: str, where: Any) -> Mesh:
    """Tag the cells whose centroids lie inside a polygon, or inside one of several.

    In any dimension, `where` may be a condition: a function of all centroids, a bool for each.
    """
    centroids = mesh.nodes[mesh.cells].mean(axis=1)
    if callable(where):
        chosen, condition = holds_at(where, centroids, name), "satisfies the condition"
    else:
        check_planar(mesh, name)
        chosen = inside_any(centroids, polygons_of(where))
        condition = "has its centroid inside the polygon"
    (members,) = np.nonzero(chosen)
    if not members.size:
        raise MeshError(
            f"no cell {condition} of region {name!r}; the mesh spans {extent(mesh)}: check units, "
            "coordinate order, and the cells' size."
        )
    return Mesh(mesh.nodes, mesh.cells, mesh.facets, {**mesh.regions, name: members})


def tag_line(mesh: Mesh, name: str, polyline: Any, tolerance: float | int) -> Mesh:
    """Tag paths of mesh edges that follow the given line, or each of several lines.

    Where the mesh was not built around the line, the path is the nearest that it offers;
    `riesz.mesh.tags.edge_path` says how far off it is. Raises beyond the tolerance.
    """
    check_planar(mesh, name)
    check_tolerance(name, tolerance)
    paths = [edge_path(mesh, line, tolerance).nodes for line in lines_of(polyline)]
    edges = np.concatenate([np.stack([nodes[:-1], nodes[1:]], axis=1) for nodes in paths])
    followed = np.unique(np.sort(edges, axis=1), axis=0)
    return Mesh(mesh.nodes, mesh.cells, {**mesh.facets, name: followed}, mesh.regions)


def facets_of_tag(mesh: Mesh, name: str) -> FacetSet:
    """The facets of a tag, each with a cell beside it; "boundary" always names all of it."""
    if name in mesh.facets:
        return find_facets(mesh, mesh.facets[name], name)
    check_name("facet tag", name, {*mesh.facets, BOUNDARY})
    return boundary_facets(mesh)


def region_cells(mesh: Mesh, name: str) -> Int[np.ndarray, " cells"]:
    """The cells of a region."""
    check_name("region", name, mesh.regions)
    return mesh.regions[name]


def region_of_cells(
    mesh: Mesh, names: Collection[str], *, has_rest: bool
) -> Int[np.ndarray, " cell"]:
    """The index of each cell's region; that after the last stands for the rest."""
    if has_rest and REST in names:
        raise MeshError(f"a region is called {REST!r}, the name of cells in none: rename it.")
    region = np.full(mesh.num_cells, len(names))
    for index, name in enumerate(names):
        members = region_cells(mesh, name)
        taken = members[region[members] < len(names)]
        if taken.size:
            other = list(names)[region[taken[0]]]
            raise MeshError(
                f"{taken.size} cells are in both regions {other!r} and {name!r}, first cell "
                f"{taken[0]}: give each cell to one of them."
            )
        region[members] = index
    (idle,) = np.nonzero(region == len(names))
    if idle.size and not has_rest:
        middle = mesh.nodes[mesh.cells[idle[0]]].mean(axis=0)
        raise MeshError(
            f"{idle.size} of {mesh.num_cells} cells are in none of the regions "
            f"{', '.join(map(repr, names))}, first cell {idle[0]} about "
            f"{middle.round(6).tolist()}: tag them too, or say what holds in the {REST!r}."
        )
    return region


def check_name(what: str, name: str, known: Collection[str]) -> None:
    if name in known:
        return
    listing = ", ".join(repr(one) for one in sorted(known)) or "none"
    raise MeshError(f"there is no {what} {name!r}: {nearest(name, known)}The mesh has {listing}.")


def with_boundary(
    mesh: Mesh, name: str, facets: Int[np.ndarray, "facet dim"], condition: str
) -> Mesh:
    if not len(facets):
        raise MeshError(
            f"no boundary facet {condition} for tag {name!r}; the mesh spans {extent(mesh)}: "
            "check units and coordinate order."
        )
    return Mesh(mesh.nodes, mesh.cells, {**mesh.facets, name: facets}, mesh.regions)


def extent(mesh: Mesh) -> str:
    return f"{mesh.nodes.min(axis=0).tolist()} to {mesh.nodes.max(axis=0).tolist()}"


def check_planar(mesh: Mesh, name: str) -> None:
    if mesh.dim != 2:
        raise MeshError(
            f"tag {name!r} comes from a map, but the mesh has {mesh.dim} dimensions: use "
            "tag_boundary or tag_region with a function of the coordinates."
        )


def check_tolerance(name: str, tolerance: float | int) -> None:
    if not 0 < tolerance < np.inf:
        raise MeshError(
            f"the tolerance for tag {name!r} is {tolerance}: give a positive length in the "
            "mesh's unit."
        )


def node_shares(
    mesh: Mesh, region: Int[np.ndarray, " cell"], num_regions: int
) -> Float[np.ndarray, "node region"]:
    """How much of the volume around each node belongs to each region."""
    volumes = np.repeat(cell_volumes(mesh.nodes, mesh.cells), mesh.dim + 1)
    place = mesh.cells.ravel() * num_regions + np.repeat(region, mesh.dim + 1)
    total = np.bincount(place, volumes, minlength=mesh.num_nodes * num_regions)
    total = total.reshape(mesh.num_nodes, num_regions)
    return total / total.sum(axis=1, keepdims=True)

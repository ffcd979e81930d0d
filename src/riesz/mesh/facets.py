"""Facets, edges and neighbourhoods of a mesh: what lies between and around its cells."""

from itertools import combinations

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from riesz.errors import MeshError
from riesz.mesh.mesh import Mesh
from riesz.mesh.rows import Columns, find_rows, index_type, number_rows, row_groups, sort_columns


class FacetSet(eqx.Module):
    """Facets of a mesh together with one cell that each of them bounds.

    A boundary facet has one such cell; of the two at an interior facet, `cell` is the first.
    """

    nodes: Int[np.ndarray, "facet dim"]  # sorted node indices
    cell: Int[np.ndarray, " facet"]  # a cell on one side
    opposite: Int[np.ndarray, " facet"]  # local corner of that cell which is not on the facet


def local_facets(dim: int) -> Int[np.ndarray, "corner dim"]:
    """Corners of each facet of a simplex; facet `i` lies opposite to corner `i`."""
    corners = range(dim + 1)
    return np.array([[j for j in corners if j != i] for i in corners])


def facets_of_cells(
    cells: Int[np.ndarray, "cell corner"],
) -> Int[np.ndarray, "dim cell_times_corner"]:
    """All facets of all cells, cell by cell, each with its nodes sorted; by columns."""
    return parts_of_cells(cells, local_facets(cells.shape[1] - 1))


def parts_of_cells(
    cells: Int[np.ndarray, "cell corner"], parts: Int[np.ndarray, "part width"]
) -> Columns:
    """Those corners of each cell, cell by cell, each part with its nodes sorted; by columns."""
    return sort_columns(np.stack([cells.take(one, axis=1).ravel() for one in parts.T]))


def small_cells(mesh: Mesh) -> Int[np.ndarray, "cell corner"]:
    """The cells in the smaller type that holds their indices."""
    return mesh.cells.astype(index_type(mesh.num_nodes), copy=False)


def boundary_facets(mesh: Mesh) -> FacetSet:
    """Facets that belong to one cell only."""
    order, starts, _ = groups = row_groups(facets_of_cells(small_cells(mesh)), mesh.num_nodes)
    counts = groups.counts
    if counts.max() > 2:
        cell, opposite = divmod(int(order[starts[counts.argmax()]]), mesh.dim + 1)
        facet = np.delete(mesh.cells[cell], opposite).tolist()
        raise MeshError(
            f"the facet with nodes {facet} belongs to {counts.max()} cells: a conforming mesh "
            "has at most two there; remove overlapping cells."
        )
    return facets_at(mesh, np.sort(order[starts[counts == 1]]).astype(np.int64))


def facets_at(mesh: Mesh, positions: Int[np.ndarray, " facet"]) -> FacetSet:
    """Facets by their positions in the cell-by-cell list of all facets."""
    cell, opposite = np.divmod(positions, mesh.dim + 1)
    corners = local_facets(mesh.dim)[opposite]
    nodes = np.sort(np.take_along_axis(mesh.cells[cell], corners, axis=1), axis=1)
    return FacetSet(nodes, cell, opposite)


def find_facets(
    mesh: Mesh,
    nodes: Int[np.ndarray, "facet dim"],
    name: str,
    among: Int[np.ndarray, " cells"] | None = None,
) -> FacetSet:
    """The given facets with a cell beside each; raises where no cell (of `among`) has one."""
    marked = np.zeros(mesh.num_nodes, dtype=bool)
    marked[nodes] = True
    cells = mesh.cells if among is None else mesh.cells[among]
    (near,) = np.nonzero(marked[cells].sum(axis=1) >= mesh.dim)
    wanted = np.sort(nodes, axis=1).T
    place = find_rows(facets_of_cells(cells[near]), wanted, mesh.num_nodes)
    (missing,) = np.nonzero(place < 0)
    if missing.size:
        raise MeshError(
            f"{missing.size} of {len(nodes)} facets tagged {name!r} are not facets of any cell "
            f"{'' if among is None else 'of the region '}(first one with nodes "
            f"{nodes[missing[0]].tolist()}): tags must follow the mesh."
        )
    member, opposite = np.divmod(place, mesh.dim + 1)
    cell = near[member] if among is None else among[near[member]]
    return facets_at(mesh, cell * (mesh.dim + 1) + opposite)


def outward_normals(mesh: Mesh, facets: FacetSet) -> Float[np.ndarray, "facet dim"]:
    """Unit normals that point out of each facet's cell."""
    corners = mesh.nodes[mesh.cells[facets.cell]]
    apex = np.take_along_axis(corners, facets.opposite[:, None, None], axis=1)[:, 0]
    points = mesh.nodes[facets.nodes]
    if mesh.dim == 1:
        normals = np.ones((len(facets.cell), 1))
    elif mesh.dim == 2:
        tangent = points[:, 1] - points[:, 0]
        normals = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    else:
        normals = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    inward = np.einsum("fd,fd->f", normals, apex - points[:, 0]) > 0
    return np.where(inward[:, None], -normals, normals)


def facet_measures(
    nodes: Float[np.ndarray, "node dim"], facets: Int[np.ndarray, "facet dim"]
) -> Float[np.ndarray, " facet"]:
    """Length or area of each facet; one for the end points of an interval."""
    points = nodes[facets]
    match nodes.shape[1]:
        case 1:
            return np.ones(len(facets))
        case 2:
            return np.linalg.norm(points[:, 1] - points[:, 0], axis=1)
        case _:
            spans = points[:, 1:] - points[:, :1]
            return np.linalg.norm(np.cross(spans[:, 0], spans[:, 1]), axis=1) / 2


def cell_edges(mesh: Mesh) -> tuple[Int[np.ndarray, "edge 2"], Int[np.ndarray, "cell local_edge"]]:
    """Edges (sorted node pairs, in order) and which of them each cell has.

    Local edges run over the pairs of corners in lexicographic order: 01, 02, 12, and so on.
    """
    pairs = np.array(list(combinations(range(mesh.dim + 1), 2)))
    ends = parts_of_cells(small_cells(mesh), pairs)
    number, groups = number_rows(ends, mesh.num_nodes)
    return groups.distinct.T, number.reshape(mesh.num_cells, len(pairs))


def node_neighbours(mesh: Mesh) -> sp.csr_array:
    """Boolean adjacency: row `i` marks the nodes joined to node `i` by an edge, not `i` itself."""
    edges, _ = cell_edges(mesh)
    rows = np.concatenate([edges[:, 0], edges[:, 1]])
    columns = np.concatenate([edges[:, 1], edges[:, 0]])
    shape = (mesh.num_nodes, mesh.num_nodes)
    return sp.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=shape)


def boundary_node_mask(mesh: Mesh) -> Bool[np.ndarray, " node"]:
    """Whether each node lies on a boundary facet."""
    mask = np.zeros(mesh.num_nodes, dtype=bool)
    mask[boundary_facets(mesh).nodes] = True
    return mask

"""Facets, edges and neighbourhoods of a mesh: what lies between and around its cells."""

from itertools import combinations

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from riesz.errors import MeshError
from riesz.mesh.mesh import Mesh, row_keys


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


def sorted_cell_facets(mesh: Mesh) -> Int[np.ndarray, "cell_times_corner dim"]:
    """All facets of all cells, cell by cell, each with its nodes sorted."""
    return np.sort(mesh.cells[:, local_facets(mesh.dim)], axis=2).reshape(-1, mesh.dim)


def boundary_facets(mesh: Mesh) -> FacetSet:
    """Facets that belong to one cell only."""
    keys = row_keys(sorted_cell_facets(mesh), mesh.num_nodes)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    if counts.max() > 2:
        cell, opposite = divmod(int(first[counts.argmax()]), mesh.dim + 1)
        facet = np.delete(mesh.cells[cell], opposite).tolist()
        raise MeshError(
            f"the facet with nodes {facet} belongs to {counts.max()} cells: a conforming mesh "
            "has at most two there; remove overlapping cells."
        )
    return facets_at(mesh, np.sort(first[counts == 1]))


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
    positions = np.arange(mesh.num_cells * (mesh.dim + 1))
    if among is not None:
        positions = positions.reshape(mesh.num_cells, -1)[among].ravel()
    keys = row_keys(sorted_cell_facets(mesh)[positions], mesh.num_nodes)
    order = np.argsort(keys, kind="stable")
    wanted = row_keys(np.sort(nodes, axis=1), mesh.num_nodes)
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    (missing,) = np.nonzero(keys[order[place]] != wanted)
    if missing.size:
        raise MeshError(
            f"{missing.size} of {len(nodes)} facets tagged {name!r} are not facets of any cell "
            f"{'' if among is None else 'of the region '}(first one with nodes "
            f"{nodes[missing[0]].tolist()}): tags must follow the mesh."
        )
    return facets_at(mesh, positions[order[place]])


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
    ends = np.sort(mesh.cells[:, pairs], axis=2).reshape(-1, 2)
    _, first, inverse = np.unique(
        row_keys(ends, mesh.num_nodes), return_index=True, return_inverse=True
    )
    return ends[first], inverse.reshape(mesh.num_cells, len(pairs))


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

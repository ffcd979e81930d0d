"""Uniform refinement: every cell is cut into 2, 4 or 8, and nodal values carry over."""

from dataclasses import dataclass

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from riesz.errors import MeshError
from riesz.mesh.facets import cell_edges, find_facets, row_keys
from riesz.mesh.mesh import Mesh, orient_cells

# Children by local node number: the corners come first, then the midpoints of the edges in the
# order of `cell_edges` (01, 02, 12 in a triangle; 01, 02, 03, 12, 13, 23 in a tetrahedron).
INTERVAL_CHILDREN = np.array([[0, 2], [2, 1]])
TRIANGLE_CHILDREN = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2], [3, 5, 4]])
TETRAHEDRON_CORNERS = np.array([[0, 4, 5, 6], [4, 1, 7, 8], [5, 7, 2, 9], [6, 8, 9, 3]])

# What is left of a tetrahedron is an octahedron: a diagonal's two ends, and the ring about it.
OCTAHEDRON_DIAGONALS = np.array([[4, 9], [5, 8], [6, 7]])
OCTAHEDRON_RINGS = np.array([[5, 6, 8, 7], [4, 6, 9, 7], [4, 5, 9, 8]])


class Refinement(eqx.Module):
    """A mesh whose cells are parts of a coarser mesh's cells.

    The coarse nodes come first and keep their indices; midpoints of edges follow.
    """

    mesh: Mesh
    parent: Int[np.ndarray, " cell"]  # coarse cell that each cell is part of
    prolongation: sp.csr_array  # [node, coarse node], for piecewise linear functions


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Nested meshes, coarse to fine, and the prolongation from each one to the next.

    Host data: compiled functions see it as one thing, told apart by identity.
    """

    meshes: tuple[Mesh, ...]
    prolongations: tuple[sp.csr_array, ...]


def hierarchy(mesh: Mesh, levels: int) -> Hierarchy:
    """`levels` nested meshes, the given one first, each refining the one before."""
    if levels < 1:
        raise MeshError(f"a hierarchy of {levels} levels was asked for: it has at least one.")
    meshes, prolongations = [mesh], []
    for _ in range(levels - 1):
        finer = refine(meshes[-1])
        meshes.append(finer.mesh)
        prolongations.append(finer.prolongation)
    return Hierarchy(tuple(meshes), tuple(prolongations))


def refine(mesh: Mesh) -> Refinement:
    """Cut every edge at its midpoint; tags of facets and regions are inherited.

    Triangles fall into four of the same shape. Tetrahedra fall into four of the same shape and an
    octahedron, cut along its shortest diagonal to keep the angles from decaying under repetition.
    New nodes lie on the straight edges, also where the boundary stands for a curve.
    """
    edges, edges_of_cell = cell_edges(mesh)
    nodes = np.concatenate([mesh.nodes, mesh.nodes[edges].mean(axis=1)])
    local_nodes = np.concatenate([mesh.cells, mesh.num_nodes + edges_of_cell], axis=1)
    children = divide(nodes, local_nodes, mesh.dim)
    num_children = children.shape[1]
    cells = orient_cells(nodes, children.reshape(-1, mesh.dim + 1))
    facets = {
        name: refine_facets(mesh, edges, members, name) for name, members in mesh.facets.items()
    }
    offsets = np.arange(num_children)
    regions = {
        name: (num_children * members[:, None] + offsets).ravel()
        for name, members in mesh.regions.items()
    }
    parent = np.repeat(np.arange(mesh.num_cells), num_children)
    prolongation = midpoint_prolongation(mesh.num_nodes, edges)
    return Refinement(Mesh(nodes, cells, facets, regions), parent, prolongation)


def divide(
    nodes: Float[np.ndarray, "node dim"], local_nodes: Int[np.ndarray, "cell local"], dim: int
) -> Int[np.ndarray, "cell child corner"]:
    """Node indices of the children of cells, given their corners and edge midpoints."""
    match dim:
        case 1:
            return local_nodes[:, INTERVAL_CHILDREN]
        case 2:
            return local_nodes[:, TRIANGLE_CHILDREN]
        case _:
            corners = local_nodes[:, TETRAHEDRON_CORNERS]
            return np.concatenate([corners, divide_octahedra(nodes, local_nodes)], axis=1)


def divide_octahedra(
    nodes: Float[np.ndarray, "node 3"], local_nodes: Int[np.ndarray, "cell 10"]
) -> Int[np.ndarray, "cell 4 4"]:
    """Four tetrahedra around the shortest of the three diagonals."""
    ends = nodes[local_nodes[:, OCTAHEDRON_DIAGONALS]]
    lengths = np.linalg.norm(ends[:, :, 1] - ends[:, :, 0], axis=2)
    shortest = lengths.argmin(axis=1)
    diagonal = np.take_along_axis(local_nodes, OCTAHEDRON_DIAGONALS[shortest], axis=1)
    ring = np.take_along_axis(local_nodes, OCTAHEDRON_RINGS[shortest], axis=1)
    around = np.stack([ring, np.roll(ring, -1, axis=1)], axis=2)
    along = np.broadcast_to(diagonal[:, None, :], around.shape)
    return np.concatenate([along, around], axis=2)


def refine_facets(
    mesh: Mesh, edges: Int[np.ndarray, "edge 2"], facets: Int[np.ndarray, "facet dim"], name: str
) -> Int[np.ndarray, "children dim"]:
    """The parts of tagged facets; raises where a tag does not follow the mesh."""
    find_facets(mesh, facets, name)
    match mesh.dim:
        case 1:
            return facets
        case 2:
            pairs, children = np.array([[0, 1]]), INTERVAL_CHILDREN
        case _:
            pairs, children = np.array([[0, 1], [0, 2], [1, 2]]), TRIANGLE_CHILDREN
    ends = np.sort(facets[:, pairs], axis=2)
    wanted = row_keys(ends.reshape(-1, 2), mesh.num_nodes)
    place = np.searchsorted(row_keys(edges, mesh.num_nodes), wanted)
    midpoints = mesh.num_nodes + place.reshape(len(facets), len(pairs))
    return np.concatenate([facets, midpoints], axis=1)[:, children].reshape(-1, mesh.dim)


def midpoint_prolongation(num_nodes: int, edges: Int[np.ndarray, "edge 2"]) -> sp.csr_array:
    """Coarse nodes keep their values; a midpoint takes the mean of its edge's ends."""
    columns = np.concatenate([np.arange(num_nodes), edges.ravel()])
    values = np.concatenate([np.ones(num_nodes), np.full(edges.size, 0.5)])
    row_starts = np.concatenate([np.arange(num_nodes), np.arange(num_nodes, len(columns) + 1, 2)])
    shape = (num_nodes + len(edges), num_nodes)
    return sp.csr_array((values, columns, row_starts), shape=shape)

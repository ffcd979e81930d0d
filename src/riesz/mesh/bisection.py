"""Local refinement of triangles: marked cells fall into four, and neighbours follow.

A cell of which all edges are cut falls into four of its own shape, in others a cut goes from the
middle of the longest edge to the corner opposite, so that angles do not decay (Carstensen 2004). A
cell with a cut edge has its longest one cut too: the mesh stays conforming.
"""

import numpy as np
from jaxtyping import Bool, Int

from riesz.errors import MeshError
from riesz.mesh.facets import cell_edges, find_facets
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import mesh_unchecked
from riesz.mesh.rows import pair_keys

OPPOSITE = np.array([2, 1, 0])
"""The corner opposite to each local edge of `cell_edges`, and the edge opposite to each corner."""


def bisect(mesh: Mesh, marked: Int[np.ndarray, " marked"]) -> tuple[Mesh, Int[np.ndarray, " cell"]]:
    """The mesh with all edges of the marked cells cut, and the cell that each of its cells is part
    of. Old nodes keep their indices; facets and regions keep their names."""
    if mesh.dim != 2:
        raise MeshError(f"the mesh is in {mesh.dim} dimensions: only triangles are bisected.")
    edges, edges_of_cell = cell_edges(mesh)
    squares = ((mesh.nodes[edges[:, 0]] - mesh.nodes[edges[:, 1]]) ** 2).sum(axis=1)
    longest = np.argmax(squares[edges_of_cell], axis=1)
    is_cut = edges_to_cut(edges_of_cell, longest, marked, len(edges))
    ends = edges[is_cut]
    middle = np.full(len(edges), -1)
    middle[is_cut] = mesh.num_nodes + np.arange(len(ends))
    nodes = np.concatenate([mesh.nodes, mesh.nodes[ends].mean(axis=1)])
    every = children(mesh.cells, middle[edges_of_cell], OPPOSITE[longest])
    parent, child = np.nonzero(every[:, :, 0] >= 0)
    facets = {}
    for name, members in mesh.facets.items():
        find_facets(mesh, members, name)
        keys = pair_keys(np.sort(members, axis=1), mesh.num_nodes)
        half = middle[np.searchsorted(pair_keys(edges, mesh.num_nodes), keys)]
        first, second = members.T
        whole, cut = half < 0, half >= 0
        halves = np.stack([first, half, half, second], axis=1)[cut].reshape(-1, 2)
        facets[name] = np.concatenate([members[whole], halves])
    regions = {
        name: np.flatnonzero(np.isin(parent, members)) for name, members in mesh.regions.items()
    }
    return mesh_unchecked(mesh, nodes, every[parent, child], facets, regions), parent


def edges_to_cut(
    edges_of_cell: Int[np.ndarray, "cell 3"],
    longest: Int[np.ndarray, " cell"],
    marked: Int[np.ndarray, " marked"],
    num_edges: int,
) -> Bool[np.ndarray, " edge"]:
    """Those of marked cells, and what follows from them."""
    is_cut = np.zeros(num_edges, dtype=bool)
    is_cut[edges_of_cell[marked]] = True
    own = edges_of_cell[np.arange(len(longest)), longest]
    while True:
        touched = is_cut[edges_of_cell].any(axis=1) & ~is_cut[own]
        if not touched.any():
            return is_cut
        is_cut[own[touched]] = True


def children(
    cells: Int[np.ndarray, "cell 3"],
    middle: Int[np.ndarray, "cell 3"],
    apex: Int[np.ndarray, " cell"],
) -> Int[np.ndarray, "cell 4 3"]:
    """Up to four parts of each cell, in order, and rows of -1.

    `apex` is opposite to the longest edge; nodes in the `middle` of edges are -1 where none is cut.
    """
    around = (apex[:, np.newaxis] + np.array([1, 2, 0])) % 3
    p, q, r = np.take_along_axis(cells, around, axis=1).T
    k, n, m = np.take_along_axis(middle, OPPOSITE[around], axis=1).T  # of qr, rp and pq
    none = np.full_like(p, -1)
    result = np.full((len(cells), 4, 3), -1)
    near, far = n >= 0, k >= 0
    result[:, 0] = np.stack([p, m, np.where(near, n, r)], axis=1)
    result[:, 1] = np.where(near, [n, np.where(far, k, m), r], none).T
    result[:, 2] = np.stack([m, q, np.where(far, k, r)], axis=1)
    result[:, 3] = np.where(far, [m, k, np.where(near, n, r)], none).T
    result[m < 0, 0] = cells[m < 0]
    result[m < 0, 1:] = -1
    return result

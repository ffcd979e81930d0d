"""Numbering nodes and cells so that neighbours in space are neighbours in memory."""

import numpy as np
from scipy.sparse.csgraph import reverse_cuthill_mckee

from riesz.mesh.facets import node_neighbours
from riesz.mesh.mesh import Mesh


def with_locality(mesh: Mesh) -> Mesh:
    """The same mesh, its nodes in the order of Cuthill & McKee (1969), reversed, and its cells
    by their nodes.

    Large meshes are assembled faster so; the order of nodes and cells changes, tags follow.
    """
    order = reverse_cuthill_mckee(node_neighbours(mesh).astype(np.int8), symmetric_mode=True)
    new_index = np.empty_like(order)
    new_index[order] = np.arange(len(order))
    cells = new_index[mesh.cells].astype(np.int64)
    cell_order = np.lexsort((cells.max(axis=1), cells.min(axis=1)))
    new_cell = np.empty_like(cell_order)
    new_cell[cell_order] = np.arange(len(cell_order))
    facets = {name: np.sort(new_index[f].astype(np.int64)) for name, f in mesh.facets.items()}
    regions = {name: np.sort(new_cell[cells_in]) for name, cells_in in mesh.regions.items()}
    return Mesh(mesh.nodes[order], cells[cell_order], facets, regions)

"""What the finite-element method is made of: the figures of the paper's supplement A."""

import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes

from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.plot.fields import draw_field, draw_mesh


def draw_basis_function(axes: Axes, mesh: Mesh, node: int) -> None:
    """Draw the P1 shape function of one node over the mesh: one there, zero at all others."""
    draw_field(axes, mesh, np.eye(1, mesh.num_nodes, node)[0], cmap="magma_r", label="basis")
    draw_mesh(axes, mesh)


def draw_sparsity(axes: Axes, mesh: Mesh, matrix: sp.csr_array) -> None:
    """Draw the pattern of a matrix over nodes, boundary nodes first, as in the paper."""
    order = np.argsort(~boundary_node_mask(mesh), kind="stable")
    place = np.argsort(order)
    rows, columns = matrix.nonzero()
    axes.plot(place[columns], place[rows], "k.", markersize=0.8)
    axes.set(aspect="equal", xlim=(0, mesh.num_nodes), ylim=(mesh.num_nodes, 0))
    axes.set_xlabel(f"{matrix.nnz} of {mesh.num_nodes**2} entries")

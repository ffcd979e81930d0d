"""A finite-element space: a mesh, an element, and the numbering of its unknowns."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from riesz.fem.elements.element import Lagrange
from riesz.mesh.facets import cell_edges, row_keys
from riesz.mesh.mesh import Mesh, cell_volumes


@dataclass(frozen=True, eq=False)  # compared by identity, so that it can be static under jit
class Space:
    """Continuous piecewise polynomials on a mesh.

    Unknown (degree of freedom) `i` is the value at the mesh node `i`; with degree 2 the values at
    mid-edges follow.
    """

    mesh: Mesh
    element: Lagrange
    points: Float[np.ndarray, "dof dim"]  # where each unknown is the value
    cell_dofs: Int[np.ndarray, "cell local"]
    edges: Int[np.ndarray, "edge 2"]  # end nodes of the edges that carry an unknown
    cell_volumes: Float[np.ndarray, " cell"]

    @property
    def num_dofs(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"Space(P{self.element.degree}, {self.num_dofs} unknowns on {self.mesh!r})"


def P1(mesh: Mesh) -> Space:
    """Continuous piecewise linear functions, by their values at the nodes."""
    return Space(
        mesh=mesh,
        element=Lagrange(mesh.dim, 1),
        points=mesh.nodes,
        cell_dofs=mesh.cells,
        edges=np.zeros((0, 2), dtype=mesh.cells.dtype),
        cell_volumes=cell_volumes(mesh.nodes, mesh.cells),
    )


def P2(mesh: Mesh) -> Space:
    """Continuous piecewise quadratic functions, by their values at nodes and mid-edges."""
    element = Lagrange(mesh.dim, 2)
    edges, edges_of_cells = cell_edges(mesh)
    return Space(
        mesh=mesh,
        element=element,
        points=np.concatenate([mesh.nodes, mesh.nodes[edges].mean(axis=1)]),
        cell_dofs=np.concatenate([mesh.cells, mesh.num_nodes + edges_of_cells], axis=1),
        edges=edges,
        cell_volumes=cell_volumes(mesh.nodes, mesh.cells),
    )


def facet_dofs(space: Space, facets: Int[np.ndarray, "facet dim"]) -> Int[np.ndarray, " dof"]:
    """Unknowns that determine a function on the given facets, sorted."""
    nodes = np.unique(facets)
    if space.element.degree == 1 or space.mesh.dim == 1:
        return nodes
    ends = np.sort(facets, axis=1)
    keys = row_keys(space.edges, space.mesh.num_nodes)
    edges = np.searchsorted(keys, np.unique(row_keys(ends, space.mesh.num_nodes)))
    return np.concatenate([nodes, space.mesh.num_nodes + edges])

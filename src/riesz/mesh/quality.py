"""How well shaped the cells of a mesh are."""

from itertools import combinations

import equinox as eqx
import numpy as np
from jaxtyping import Float

from riesz.mesh.facets import cell_edges
from riesz.mesh.mesh import Mesh, cell_volumes

POOR_ANGLE = 20.0
"""Degrees; below it interpolation of gradients and solver condition visibly suffer."""


class QualityReport(eqx.Module):
    """Sizes and angles of a mesh; lengths in the mesh's own unit, angles in degrees."""

    dim: int
    num_nodes: int
    num_cells: int
    total_volume: float
    shortest_edge: float
    median_edge: float
    longest_edge: float
    smallest_angle: float
    low_angle: float  # 5 % of the cells have a smaller one
    num_poor_cells: int  # whose smallest angle is below POOR_ANGLE
    worst_cell: int
    worst_place: Float[np.ndarray, " dim"]  # centroid of the worst cell
    max_valence: int  # the most edges that meet at one node

    def __str__(self) -> str:
        kind = {1: "intervals", 2: "triangles", 3: "tetrahedra"}[self.dim]
        measure = {1: "length", 2: "area", 3: "volume"}[self.dim]
        lines = [
            f"nodes      {self.num_nodes}, at most {self.max_valence} edges at one",
            f"cells      {self.num_cells} {kind}, total {measure} {self.total_volume:.6g}",
            f"edges      {self.shortest_edge:.4g} to {self.longest_edge:.4g}, "
            f"median {self.median_edge:.4g}",
        ]
        return "\n".join(lines + self.angle_lines())

    def angle_lines(self) -> list[str]:
        if self.dim == 1:
            return []
        kind = "angle     " if self.dim == 2 else "dihedral  "
        place = ", ".join(f"{x:.6g}" for x in self.worst_place)
        return [
            f"{kind} smallest {self.smallest_angle:.1f} degrees, in cell {self.worst_cell} "
            f"at ({place})",
            f"           5 % of cells below {self.low_angle:.1f} degrees",
            f"           {self.num_poor_cells} cells below {POOR_ANGLE:g} degrees",
        ]


def quality_report(mesh: Mesh) -> QualityReport:
    """Measure a mesh; `print` the result to read it."""
    edges, _ = cell_edges(mesh)
    lengths = np.linalg.norm(mesh.nodes[edges[:, 1]] - mesh.nodes[edges[:, 0]], axis=1)
    angles = minimum_angles(mesh)
    worst = int(angles.argmin())
    return QualityReport(
        dim=mesh.dim,
        num_nodes=mesh.num_nodes,
        num_cells=mesh.num_cells,
        total_volume=float(cell_volumes(mesh.nodes, mesh.cells).sum()),
        shortest_edge=float(lengths.min()),
        median_edge=float(np.median(lengths)),
        longest_edge=float(lengths.max()),
        smallest_angle=float(angles[worst]),
        low_angle=float(np.quantile(angles, 0.05)),
        num_poor_cells=int((angles < POOR_ANGLE).sum()),
        worst_cell=worst,
        worst_place=mesh.nodes[mesh.cells[worst]].mean(axis=0),
        max_valence=int(np.bincount(edges.ravel()).max()),
    )


def minimum_angles(mesh: Mesh) -> Float[np.ndarray, " cell"]:
    r"""Smallest angle of each cell in degrees: between edges in 2D, between facets in 3D.

    Facets $i$ and $j$ of a simplex enclose the angle whose cosine is
    $-\nabla\lambda_i\cdot\nabla\lambda_j / |\nabla\lambda_i||\nabla\lambda_j|$, where $\lambda_i$
    are the barycentric coordinates. An interval has no angles and counts as flat, 180.
    """
    gradients = barycentric_gradients(mesh)
    normals = gradients / np.linalg.norm(gradients, axis=2, keepdims=True)
    cosines = [
        -np.einsum("cd,cd->c", normals[:, i], normals[:, j])
        for i, j in combinations(range(mesh.dim + 1), 2)
    ]
    # Rounding may carry the cosine of a flat angle past one.
    angles = np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))
    return np.full(mesh.num_cells, 180.0) if mesh.dim == 1 else angles.min(axis=0)


def barycentric_gradients(mesh: Mesh) -> Float[np.ndarray, "cell corner dim"]:
    corners = mesh.nodes[mesh.cells]
    edges = corners[:, 1:] - corners[:, :1]
    others = np.swapaxes(np.linalg.inv(edges), 1, 2)
    return np.concatenate([-others.sum(axis=1, keepdims=True), others], axis=1)

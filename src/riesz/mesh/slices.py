"""Plane sections of meshes in space: triangles, and what values at nodes or of cells are there."""

from itertools import combinations, permutations

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int, Shaped

from riesz.errors import MeshError
from riesz.mesh.mesh import Mesh, orient_cells
from riesz.mesh.refinement import mesh_unchecked
from riesz.mesh.rows import number_rows

AXES = ("x", "y", "z")


class Slice(eqx.Module):
    """Where a plane across an axis cuts the cells of a mesh in space.

    The mesh of the slice has the other two coordinates. Cells that only touch the plane have no
    part in it; where it runs along facets, those of the cells on one side are taken.
    """

    mesh: Mesh
    cell: Int[np.ndarray, " triangle"]  # of the mesh in space
    interpolation: sp.csr_array  # [node of the slice, node of the mesh in space]
    num_nodes: int = eqx.field(static=True)  # of the mesh in space
    axes: tuple[str, str] = eqx.field(static=True)

    def values(
        self, whole: Shaped[np.ndarray, " node_or_cell *components"]
    ) -> Shaped[np.ndarray, " slice_node_or_triangle *components"]:
        """Of a field given at the nodes, or of the cells, of the mesh in space."""
        if len(whole) == self.num_nodes:
            return self.interpolation @ whole
        return whole[self.cell]


def mesh_slice(
    mesh: Mesh, *, x: float | None = None, y: float | None = None, z: float | None = None
) -> Slice:
    """The slice of a mesh in space at one of x = c, y = c and z = c."""
    axis, place = cutting_plane(mesh, (x, y, z))
    heights = mesh.nodes[:, axis] - place
    # A plane through nodes counts as one just below them, but for the lowest, with nothing there.
    above = heights > 0 if heights.min() == 0 else heights >= 0
    cell, ends = triangles_in_plane(above, mesh.cells)
    ends = merge_ends(ends, heights)
    number, groups = number_rows(ends.reshape(-1, 2).T, mesh.num_nodes)
    triangles = number.reshape(-1, 3)
    first, second, third = triangles.T
    proper = (first != second) & (second != third) & (third != first)
    if not proper.any():
        raise MeshError(
            f"the plane {AXES[axis]} = {place:g} only touches the mesh: move it inside."
        )
    interpolation = between_ends(groups.distinct.T, heights)
    others = [other for other in range(3) if other != axis]
    nodes = interpolation @ mesh.nodes[:, others]
    used, renumbered = np.unique(triangles[proper], return_inverse=True)
    cells = orient_cells(nodes[used], renumbered.reshape(-1, 3))
    return Slice(
        mesh=mesh_unchecked(mesh, nodes[used], cells, {}, {}),
        cell=cell[proper],
        interpolation=interpolation[used],
        num_nodes=mesh.num_nodes,
        axes=(AXES[others[0]], AXES[others[1]]),
    )


def cutting_plane(mesh: Mesh, places: tuple[float | None, ...]) -> tuple[int, float]:
    """Which axis, and where; raises where the plane passes the mesh by."""
    if mesh.dim != 3:
        raise MeshError(f"slices are of meshes in space, and this one has {mesh.dim} dimensions.")
    given = [(axis, place) for axis, place in enumerate(places) if place is not None]
    if len(given) != 1:
        result = " and ".join(AXES[axis] for axis, _ in given) or "none of them"
        raise MeshError(f"say where to cut by one of x, y and z, not by {result}.")
    ((axis, place),) = given
    low, high = mesh.nodes[:, axis].min(), mesh.nodes[:, axis].max()
    if not low <= place <= high:
        raise MeshError(
            f"the plane {AXES[axis]} = {place:g} passes the mesh by, which spans {low:g} to "
            f"{high:g} there."
        )
    return axis, float(place)


def triangles_in_plane(
    above: Bool[np.ndarray, " node"], cells: Int[np.ndarray, "cell 4"]
) -> tuple[Int[np.ndarray, " triangle"], Int[np.ndarray, "triangle 3 2"]]:
    """The triangles in which the plane cuts cells: a cell each, and edges with their corners on.

    One corner on its own side is cut off by a triangle, two are by a quadrilateral, or two of them.
    """
    (crossed,) = np.nonzero((count := above[cells].sum(axis=1)) % 4)
    side = above[cells[crossed]]
    result = []
    for lone in range(4):
        others = [corner for corner in range(4) if corner != lone]
        (here,) = np.nonzero((side[:, others] != side[:, [lone]]).all(axis=1))
        result.append((here, [(lone, other) for other in others]))
    for one, two in combinations(range(4), 2):
        three, four = (corner for corner in range(4) if corner not in (one, two))
        pair = side[:, one] & side[:, two] & (count[crossed] == 2)
        (here,) = np.nonzero(pair)
        around = [(one, three), (one, four), (two, four), (two, three)]
        result += [(here, [around[i] for i in part]) for part in ((0, 1, 2), (0, 2, 3))]
    cell = np.concatenate([crossed[here] for here, _ in result])
    ends = np.concatenate([cells[crossed[here]][:, np.array(edges)] for here, edges in result])
    return cell, ends


def merge_ends(
    ends: Int[np.ndarray, "triangle 3 2"], heights: Float[np.ndarray, " node"]
) -> Int[np.ndarray, "triangle 3 2"]:
    """Sorted ends of edges, or twice the one that lies in the plane itself."""
    ends = np.sort(ends, axis=2)
    for own, other in permutations(range(2)):
        there = heights[ends[:, :, own]] == 0
        ends[:, :, other][there] = ends[:, :, own][there]
    return ends


def between_ends(
    ends: Int[np.ndarray, "place 2"], heights: Float[np.ndarray, " node"]
) -> sp.csr_array:
    """The weights of both ends of edges where these meet the plane."""
    low, high = heights[ends].T
    apart = low != high
    share = np.where(apart, low / np.where(apart, low - high, 1.0), 0.0)
    weights = np.stack([1 - share, share], axis=1)
    starts = np.arange(0, 2 * len(ends) + 1, 2)
    return sp.csr_array((weights.ravel(), ends.ravel(), starts), shape=(len(ends), len(heights)))

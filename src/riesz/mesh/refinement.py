"""Uniform refinement: every cell is cut into 2, 4 or 8, and nodal values carry over."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any
from weakref import WeakValueDictionary

import equinox as eqx
import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from riesz.errors import MeshError
from riesz.mesh.facets import cell_edges, find_facets
from riesz.mesh.mesh import Mesh, mesh_digest, orient_cells
from riesz.mesh.rows import index_type, pair_keys

# Children by local node number: the corners come first, then the midpoints of the edges in the
# order of `cell_edges` (01, 02, 12 in a triangle; 01, 02, 03, 12, 13, 23 in a tetrahedron).
INTERVAL_CHILDREN = np.array([[0, 2], [2, 1]])
TRIANGLE_CHILDREN = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2], [3, 5, 4]])
TETRAHEDRON_CORNERS = np.array([[0, 4, 5, 6], [4, 1, 7, 8], [5, 7, 2, 9], [6, 8, 9, 3]])

# What is left of a tetrahedron is an octahedron: a diagonal's two ends, and the ring about it.
OCTAHEDRON_DIAGONALS = np.array([[4, 9], [5, 8], [6, 7]])
OCTAHEDRON_RINGS = np.array([[5, 6, 8, 7], [4, 6, 9, 7], [4, 5, 9, 8]])

TIE = 1e-3
"""Squares of lengths that differ by less than about this share count as the same."""


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

    Host data: compiled functions see it as one thing, and serve all of the same content.
    """

    meshes: tuple[Mesh, ...]
    prolongations: tuple[sp.csr_array, ...]

    def __post_init__(self):
        _by_finest[id(self.meshes[-1])] = self

    @cached_property
    def content(self) -> tuple[str, ...]:
        """Which is asked for only where another one has the same sizes."""
        return tuple(map(mesh_digest, self.meshes))

    def __hash__(self) -> int:
        return hash(tuple(mesh.num_nodes for mesh in self.meshes))

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Hierarchy):
            return self is other
        return hash(self) == hash(other) and self.content == other.content


_by_finest: WeakValueDictionary[int, Hierarchy] = WeakValueDictionary()


def hierarchy_of(mesh: Mesh) -> Hierarchy | None:
    """The nested meshes of which this one is the finest, as long as somebody has them."""
    result = _by_finest.get(id(mesh))
    return result if result is not None and result.meshes[-1] is mesh else None


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
    ends = [mesh.nodes.take(end, axis=0) for end in edges.T]
    nodes = np.concatenate([mesh.nodes, (ends[0] + ends[1]) / 2])
    local_nodes = np.concatenate([mesh.cells, mesh.num_nodes + edges_of_cell], axis=1)
    children = divide(nodes, local_nodes, mesh.dim)
    num_children = children.shape[1]
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
    fine = mesh_unchecked(mesh, nodes, children.reshape(-1, mesh.dim + 1), facets, regions)
    return Refinement(fine, parent, prolongation)


def mesh_unchecked(mesh: Mesh, *parts: Any) -> Mesh:
    """A mesh of other nodes, cells, facets and regions.

    It is not looked through as others are: parts of a mesh that was have nothing to be found.
    """
    structure = jax.tree.structure(mesh, is_leaf=lambda node: isinstance(node, dict))
    return jax.tree.unflatten(structure, parts)


def divide(
    nodes: Float[np.ndarray, "node dim"], local_nodes: Int[np.ndarray, "cell local"], dim: int
) -> Int[np.ndarray, "cell child corner"]:
    """Node indices of the children of cells, given their corners and edge midpoints.

    Corners of cells being in order, so are those of their children.
    """
    match dim:
        case 1:
            return local_nodes[:, INTERVAL_CHILDREN]
        case 2:
            return local_nodes.take(TRIANGLE_CHILDREN, axis=1)
        case _:
            shortest = shortest_diagonals(nodes, local_nodes)
            chosen = tetrahedron_children()[shortest].reshape(len(shortest), -1)
            return np.take_along_axis(local_nodes, chosen, axis=1).reshape(-1, 8, 4)


def shortest_diagonals(
    nodes: Float[np.ndarray, "node 3"], local_nodes: Int[np.ndarray, "cell 10"]
) -> Int[np.ndarray, " cell"]:
    """Which of the three diagonals of each octahedron is the shortest.

    Of two that are equally long, as in parts of bricks, the one that is more along the longest edge
    of the tetrahedron: parts of Kuhn's tetrahedra are then such again, with no obtuse angles, which
    in flat bricks would tie nodes side by side as if they lay one above the other.
    """
    edges = np.stack(
        [nodes_between(nodes, local_nodes, *pair) for pair in combinations(range(4), 2)]
    )
    longest = np.argmax((edges**2).sum(axis=1), axis=0)
    along = np.take_along_axis(edges, longest[None, None], axis=0)[0]
    sizes = []
    for ends in OCTAHEDRON_DIAGONALS.tolist():
        diagonal = nodes_between(nodes, local_nodes, *ends)
        share = (diagonal * along).sum(axis=0) ** 2 / (along**2).sum(axis=0)
        sizes.append((diagonal**2).sum(axis=0) - TIE * share)
    return np.argmin(sizes, axis=0)


def nodes_between(
    nodes: Float[np.ndarray, "node 3"],
    local_nodes: Int[np.ndarray, "cell 10"],
    start: int,
    end: int,
) -> Float[np.ndarray, "3 cell"]:
    """From one local node of each cell to another."""
    starts, ends = local_nodes[:, start], local_nodes[:, end]
    return np.stack([x.take(ends) - x.take(starts) for x in nodes.T])


def tetrahedron_children() -> Int[np.ndarray, "diagonal 8 4"]:
    """Local nodes of the children for each choice of the diagonal, corners in order."""
    corners = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    midpoints = [(corners[a] + corners[b]) / 2 for a, b in combinations(range(4), 2)]
    tables = []
    for diagonal, ring in zip(OCTAHEDRON_DIAGONALS, OCTAHEDRON_RINGS, strict=True):
        around = np.stack([ring, np.roll(ring, -1)], axis=1)
        inner = np.concatenate([np.broadcast_to(diagonal, (4, 2)), around], axis=1)
        tables.append(np.concatenate([TETRAHEDRON_CORNERS, inner]))
    # A map between tetrahedra that keeps one orientation keeps them all: one example is enough.
    example = np.concatenate([corners, midpoints])
    return np.stack([orient_cells(example, table) for table in tables])


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
    wanted = pair_keys(ends.reshape(-1, 2), mesh.num_nodes)
    place = np.searchsorted(pair_keys(edges, mesh.num_nodes), wanted)
    midpoints = mesh.num_nodes + place.reshape(len(facets), len(pairs))
    return np.concatenate([facets, midpoints], axis=1)[:, children].reshape(-1, mesh.dim)


def midpoint_prolongation(num_nodes: int, edges: Int[np.ndarray, "edge 2"]) -> sp.csr_array:
    """Coarse nodes keep their values; a midpoint takes the mean of its edge's ends."""
    count = num_nodes + edges.size
    dtype = index_type(count)
    columns = np.concatenate([np.arange(num_nodes, dtype=dtype), edges.ravel()])
    values = np.full(count, 0.5)
    values[:num_nodes] = 1
    row_starts = np.arange(num_nodes, count + 1, 2, dtype=dtype)
    row_starts = np.concatenate([np.arange(num_nodes, dtype=dtype), row_starts])
    shape = (num_nodes + len(edges), num_nodes)
    return sp.csr_array((values, columns, row_starts), shape=shape)

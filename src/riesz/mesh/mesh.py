"""The mesh: a conforming simplicial decomposition of a domain in one, two or three dimensions."""

from collections.abc import Mapping

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from riesz.errors import MeshError

DIMENSIONS = (1, 2, 3)


class Mesh(eqx.Module):
    """Simplices (intervals, triangles or tetrahedra) that fill a domain.

    Topology is host data: built with NumPy outside jit, so the checks can simply raise.
    `facets` names sets of facets (points, edges or triangles, each a row of node indices), on the
    boundary or inside the domain; `regions` names sets of cells.
    """

    nodes: Float[np.ndarray, "node dim"]  # coordinates, in the caller's length unit
    cells: Int[np.ndarray, "cell corner"]  # node indices, positively oriented
    facets: Mapping[str, Int[np.ndarray, "facet dim"]] = eqx.field(default_factory=dict)
    regions: Mapping[str, Int[np.ndarray, " cells"]] = eqx.field(default_factory=dict)

    def __check_init__(self):
        check_nodes(self.nodes)
        check_cells(self.nodes, self.cells)
        for name, facets in self.facets.items():
            check_facet_width(name, facets, self.dim)
            check_indices(f"facets {name!r}", facets, len(self.nodes))
        for name, members in self.regions.items():
            check_indices(f"region {name!r}", members, len(self.cells))

    @property
    def dim(self) -> int:
        return self.nodes.shape[1]

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    @property
    def num_cells(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        kind = {1: "intervals", 2: "triangles", 3: "tetrahedra"}[self.dim]
        return (
            f"Mesh({self.num_nodes} nodes, {self.num_cells} {kind}, "
            f"facets {sorted(self.facets)}, regions {sorted(self.regions)})"
        )


def cell_volumes(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> Float[np.ndarray, " cell"]:
    """Signed length, area or volume of each cell: positive when its corners are in order."""
    edges = nodes[cells[:, 1:]] - nodes[cells[:, :1]]
    dim = nodes.shape[1]
    match dim:
        case 1:
            return edges[:, 0, 0]
        case 2:
            (a, b), (c, d) = edges[:, 0].T, edges[:, 1].T
            return (a * d - b * c) / 2
        case _:
            return np.einsum("cd,cd->c", edges[:, 0], np.cross(edges[:, 1], edges[:, 2])) / 6


def orient_cells(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> Int[np.ndarray, "cell corner"]:
    """The same cells, with two corners of each negatively oriented one exchanged."""
    negative = cell_volumes(nodes, cells) < 0
    oriented = cells.copy()
    oriented[negative, -2:] = cells[negative, -2:][:, ::-1]
    return oriented


def drop_unused_nodes(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> tuple[Float[np.ndarray, "used dim"], Int[np.ndarray, "cell corner"], Int[np.ndarray, " node"]]:
    """Nodes that some cell uses, cells renumbered to them, and old index -> new index (or -1)."""
    used = np.zeros(len(nodes), dtype=bool)
    used[cells] = True
    new_index = np.where(used, np.cumsum(used) - 1, -1)
    return nodes[used], new_index[cells], new_index


def check_nodes(nodes: np.ndarray) -> None:
    if nodes.shape[1] not in DIMENSIONS:
        raise MeshError(
            f"nodes have {nodes.shape[1]} coordinates each: a mesh lives in 1, 2 or 3 dimensions."
        )
    (bad,) = np.nonzero(~np.isfinite(nodes).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(nodes)} nodes have NaN or infinite coordinates, first node "
            f"{bad[0]} at {nodes[bad[0]].tolist()}: remove them or repair the file they came from."
        )
    order = np.lexsort(nodes.T)
    (twins,) = np.nonzero((nodes[order[1:]] == nodes[order[:-1]]).all(axis=1))
    if twins.size:
        first, second = sorted((order[twins[0]], order[twins[0] + 1]))
        raise MeshError(
            f"{twins.size} of {len(nodes)} nodes repeat the place of another, first nodes {first} "
            f"and {second} at {nodes[first].tolist()}: merge them, or the mesh falls apart there."
        )


def check_cells(nodes: np.ndarray, cells: np.ndarray) -> None:
    dim = nodes.shape[1]
    if cells.shape[1] != dim + 1:
        raise MeshError(
            f"cells have {cells.shape[1]} corners, but simplices in {dim} dimensions have "
            f"{dim + 1}: only intervals, triangles and tetrahedra are supported."
        )
    if not len(cells):
        raise MeshError("the mesh has no cells: give at least one.")
    check_indices("cells", cells, len(nodes))
    volumes = cell_volumes(nodes, cells)
    # Rounding error of a volume grows with the coordinates' size, not with the cell's.
    extent = np.ptp(nodes[cells], axis=1).max(axis=1)
    (bad,) = np.nonzero(~(volumes > 1e-14 * extent**dim))  # so that NaN counts as bad
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(cells)} cells have zero or negative volume, first cell {bad[0]} "
            f"(nodes {cells[bad[0]].tolist()}, signed volume {volumes[bad[0]]:.3g}): order nodes "
            "counter-clockwise (riesz.mesh.mesh.orient_cells does) and merge repeated nodes."
        )
    used = np.zeros(len(nodes), dtype=bool)
    used[cells] = True
    (idle,) = np.nonzero(~used)
    if idle.size:
        raise MeshError(
            f"{idle.size} of {len(nodes)} nodes belong to no cell, first node {idle[0]} at "
            f"{nodes[idle[0]].tolist()}: remove them (riesz.mesh.mesh.drop_unused_nodes does)."
        )


def check_facet_width(name: str, facets: np.ndarray, dim: int) -> None:
    if facets.ndim != 2 or facets.shape[1] != dim:
        raise MeshError(
            f"facets {name!r} have shape {facets.shape}: in {dim} dimensions each facet is a row "
            f"of {dim} node indices."
        )


def check_indices(what: str, indices: np.ndarray, count: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        wrong = indices[(indices < 0) | (indices >= count)].flat[0]
        raise MeshError(
            f"{what} refer to index {wrong}, but indices run from 0 to {count - 1}: "
            "count from zero, and renumber after removing nodes or cells."
        )

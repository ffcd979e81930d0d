"""The mesh: a conforming simplicial decomposition of a domain in one, two or three dimensions."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from riesz.errors import MeshError
from riesz.mesh.rows import find_repeats, may_repeat

DIMENSIONS = (1, 2, 3)

BOUNDARY = "boundary"
"""The tag that always names the whole boundary."""


def as_nodes(values: Any) -> Float[np.ndarray, "node dim"]:
    """Coordinates in float64 from anything array-like with a row for each node."""
    array = as_array(values, "nodes")
    if array.dtype.kind not in "iuf" or array.ndim != 2:
        raise MeshError(
            f"nodes are {array.dtype} of shape {array.shape}: give real numbers, one row of "
            "coordinates for each node."
        )
    return array.astype(np.float64, copy=False)


def as_cells(values: Any) -> Int[np.ndarray, "cell corner"]:
    """Node indices in int64 from anything array-like with a row for each cell."""
    array = as_indices(values, "cells")
    if not array.size:
        raise MeshError("the mesh has no cells: give at least one.")
    if array.ndim != 2:
        raise MeshError(f"cells have shape {array.shape}: give one row of nodes for each cell.")
    return array


def as_tags(tags: Any) -> dict[str, Int[np.ndarray, "..."]]:
    """Indices in int64 under each name."""
    if not isinstance(tags, Mapping) or not all(isinstance(name, str) for name in tags):
        raise MeshError(f"tags are a {type(tags).__name__}: give a dictionary from names to rows.")
    return {name: as_indices(members, f"the members of {name!r}") for name, members in tags.items()}


def as_indices(values: Any, what: str) -> Int[np.ndarray, "..."]:
    array = as_array(values, what)
    if array.dtype.kind not in "iu" and array.size:
        raise MeshError(f"{what} are {array.dtype}, not integers: give indices, counted from zero.")
    # All of one type: int64 and uint64 together would make floats.
    return array.astype(np.int64, copy=False)


def as_array(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise MeshError(f"{what} are not an array ({error}).") from None


class Mesh(eqx.Module):
    """Simplices (intervals, triangles or tetrahedra) that fill a domain.

    Topology is host data: built with NumPy outside jit, so the checks can simply raise.
    `facets` names sets of facets (points, edges or triangles, each a row of node indices), on the
    boundary or inside the domain; `regions` names sets of cells.
    """

    # Coordinates, in the caller's length unit.
    nodes: Float[np.ndarray, "node dim"] = eqx.field(converter=as_nodes)
    # Node indices, positively oriented.
    cells: Int[np.ndarray, "cell corner"] = eqx.field(converter=as_cells)
    facets: Mapping[str, Int[np.ndarray, "..."]] = eqx.field(
        default_factory=dict, converter=as_tags
    )
    regions: Mapping[str, Int[np.ndarray, "..."]] = eqx.field(
        default_factory=dict, converter=as_tags
    )

    def __check_init__(self):
        check_nodes(self.nodes)
        check_cells(self.nodes, self.cells)
        for name, facets in self.facets.items():
            check_facets(name, facets, self.dim)
            check_indices(f"facets {name!r}", facets, len(self.nodes))
            check_distinct(f"facets {name!r}", facets)
        for name, members in self.regions.items():
            check_region(name, members)
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


def cell_spans(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> list[list[Float[np.ndarray, " cell"]]]:
    """The edges from corner 0 to each other corner, by their components along each axis."""
    axes = np.ascontiguousarray(nodes.T)
    first, *others = np.ascontiguousarray(cells.T)
    starts = [x.take(first) for x in axes]
    both = list(zip(axes, starts, strict=True))
    return [[x.take(corner) - start for x, start in both] for corner in others]


def cell_volumes(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> Float[np.ndarray, " cell"]:
    """Signed length, area or volume of each cell: positive when its corners are in order."""
    spans = cell_spans(nodes, cells)
    match nodes.shape[1]:
        case 1:
            return spans[0][0]
        case 2:
            (a, b), (c, d) = spans
            return (a * d - b * c) / 2
        case _:
            (a, b, c), (x, y, z) = spans[0], cross(*spans[1:])
            return (a * x + b * y + c * z) / 6


def cross(
    left: Sequence[Float[np.ndarray, " cell"]], right: Sequence[Float[np.ndarray, " cell"]]
) -> list[Float[np.ndarray, " cell"]]:
    """The components of the products of vectors that are given by theirs."""
    axes = ((1, 2), (2, 0), (0, 1))
    return [left[i] * right[j] - left[j] * right[i] for i, j in axes]


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
    bits = np.ascontiguousarray(nodes.T + 0.0).view(np.int64)  # adding zero makes -0.0 a plain 0.0
    if may_repeat(bits):
        check_places_differ(nodes)


def check_places_differ(nodes: np.ndarray) -> None:
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
    check_indices("cells", cells, len(nodes))
    volumes = cell_volumes(nodes, cells)
    # Rounding error of a volume grows with the coordinates' size, not with the cell's.
    (bad,) = np.nonzero(~(volumes > 1e-14 * cell_extents(nodes, cells) ** dim))  # NaN is bad too
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(cells)} cells have zero or negative volume, first cell {bad[0]} "
            f"(nodes {cells[bad[0]].tolist()}, signed volume {volumes[bad[0]]:.3g}): order nodes "
            "counter-clockwise (riesz.mesh.mesh.orient_cells does) and merge repeated nodes."
        )
    check_distinct("cells", cells)
    used = np.zeros(len(nodes), dtype=bool)
    used[cells] = True
    (idle,) = np.nonzero(~used)
    if idle.size:
        raise MeshError(
            f"{idle.size} of {len(nodes)} nodes belong to no cell, first node {idle[0]} at "
            f"{nodes[idle[0]].tolist()}: remove them (riesz.mesh.mesh.drop_unused_nodes does)."
        )


def cell_extents(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> Float[np.ndarray, " cell"]:
    """The longest side of the box around each cell."""
    extent = np.zeros(len(cells))
    corners = np.ascontiguousarray(cells.T)
    for x in np.ascontiguousarray(nodes.T):
        low = high = x.take(corners[0])
        for corner in corners[1:]:
            place = x.take(corner)
            low, high = np.minimum(low, place), np.maximum(high, place)
        np.maximum(extent, high - low, out=extent)
    return extent


def check_facets(name: str, facets: np.ndarray, dim: int) -> None:
    if name == BOUNDARY:
        raise MeshError(
            f"facets are named {name!r}, which always is the whole boundary: rename them."
        )
    if facets.ndim != 2 or facets.shape[1] != dim:
        raise MeshError(
            f"facets {name!r} have shape {facets.shape}: in {dim} dimensions each facet is a row "
            f"of {dim} node indices."
        )


def check_region(name: str, members: np.ndarray) -> None:
    if members.ndim != 1:
        raise MeshError(f"region {name!r} has shape {members.shape}: give one row of cell indices.")
    if len(np.unique(members)) < len(members):
        raise MeshError(f"region {name!r} has a cell more than once: give each of its cells once.")


def check_distinct(what: str, rows: np.ndarray) -> None:
    (again,) = np.nonzero(find_repeats(rows))
    if again.size:
        raise MeshError(
            f"{what} have {again.size} rows more than once, such as row {again[0]} with nodes "
            f"{rows[again[0]].tolist()}: they would count twice; give each once."
        )


def check_indices(what: str, indices: np.ndarray, count: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        wrong = indices[(indices < 0) | (indices >= count)].flat[0]
        raise MeshError(
            f"{what} refer to index {wrong}, but indices run from 0 to {count - 1}: "
            "count from zero, and renumber after removing nodes or cells."
        )


def mesh_digest(mesh: Mesh) -> str:
    """Sixteen hexadecimal digits that change with any node, cell or tag."""
    parts = {"nodes": mesh.nodes, "cells": mesh.cells}
    parts |= {f"facets {name}": mesh.facets[name] for name in sorted(mesh.facets)}
    parts |= {f"region {name}": mesh.regions[name] for name in sorted(mesh.regions)}
    digest = blake2b(digest_size=8)
    for name, array in parts.items():
        digest.update(repr((name, array.shape)).encode())
        # The same bytes on every machine.
        digest.update(np.ascontiguousarray(array, dtype=f"<{array.dtype.kind}8").tobytes())
    return digest.hexdigest()

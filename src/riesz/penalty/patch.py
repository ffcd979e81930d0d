"""Mini-patches of a mesh: for each, its rows, the cells that touch them, and their nodes.

Nodes are cut into patches so that every node lies in equally many. Each partition is a recursive
coordinate bisection (Berger & Bokhari 1987) into blocks of at most `patch_nodes` nodes, and covers
every node exactly once. Several partitions in rotated frames give overlap: where one has a cut,
another has the middle of a block.

Tables are padded to one shape and built on the host, so that a training step gathers what it needs
of a few patches and costs the same on any mesh.
"""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer
from scipy.spatial.transform import Rotation

from riesz.errors import RieszError

Corners = Int[np.ndarray, "entity corner"]
Blocks = Int[np.ndarray, "patch patch_nodes"]
Cells = Int[np.ndarray, "cell corner"]
Rows = Int[np.ndarray, "patch row"]

NUM_PARTITIONS = 4
"""In how many patches each node lies."""

PATCHES_AT_ONCE = 4096
"""Bounds the memory of the set-up."""

WIDTH_STEP = 32
"""Tables are as wide as a multiple of it, so that a step costs the same on meshes of one kind."""


def overlapping_patches(
    points: Float[np.ndarray, "node dim"], patch_nodes: int, num_partitions: int = NUM_PARTITIONS
) -> Blocks:
    """Patches as rows of node indices, padded with -1; one patch where all nodes fit into it."""
    if patch_nodes < 1:
        raise RieszError(f"a patch of {patch_nodes} nodes is empty: give it at least one node.")
    if len(points) <= patch_nodes:
        row = np.full((1, patch_nodes), -1)
        row[0, : len(points)] = np.arange(len(points))
        return row
    turns = [k / num_partitions for k in range(num_partitions)]
    if points.shape[1] == 1:
        return np.concatenate([runs_of_nodes(points[:, 0], patch_nodes, t) for t in turns])
    return np.concatenate([bisect_blocks(rotate(points, t), patch_nodes) for t in turns])


def runs_of_nodes(places: Float[np.ndarray, " node"], patch_nodes: int, shift: float) -> Blocks:
    """On a line: runs of consecutive nodes, the first cut short by a part of a patch."""
    first = patch_nodes - int(shift * patch_nodes)
    ends = np.concatenate([[0], np.arange(first, len(places), patch_nodes), [len(places)]])
    return pad_blocks(np.argsort(places), ends, patch_nodes)


def rotate(points: Float[np.ndarray, "node dim"], turn: float) -> Float[np.ndarray, "node dim"]:
    """Points of the plane or of space in a frame turned by a part of a right angle."""
    if points.shape[1] == 2:
        angle = turn * np.pi / 2
        cos, sin = np.cos(angle), np.sin(angle)
        return points @ np.array([[cos, -sin], [sin, cos]])
    return Rotation.from_rotvec(turn * np.pi / 2 * np.array([1.0, 1.0, 1.0])).apply(points)


def bisect_blocks(points: Float[np.ndarray, "node dim"], patch_nodes: int) -> Blocks:
    """Halve the nodes across the longest side of their box until all blocks are small enough.

    As few blocks as can be, of equal size within one node. All blocks of a level are halved at
    once by sorting, so that millions of nodes take seconds.
    """
    num_blocks = -(-len(points) // patch_nodes)
    ends = len(points) * np.arange(num_blocks + 1) // num_blocks
    order = np.arange(len(points))
    cuts = np.array([0, num_blocks])
    while len(cuts) <= num_blocks:
        starts = ends[cuts[:-1]]
        block = np.repeat(np.arange(len(starts)), np.diff(ends[cuts]))
        placed = points[order]
        low, high = np.minimum.reduceat(placed, starts), np.maximum.reduceat(placed, starts)
        axis = (high - low).argmax(axis=1)[:, None]
        start, length = (np.take_along_axis(a, axis, axis=1)[:, 0] for a in (low, high - low))
        along = np.take_along_axis(placed, axis[block], axis=1)[:, 0]
        extent = np.where(length > 0, length, 1.0)  # a block of one node has none
        share = (along - start[block]) / (1.01 * extent[block])  # below one: blocks stay apart
        order = order[np.argsort(block + share, kind="stable")]
        cuts = np.union1d(cuts, (cuts[:-1] + cuts[1:]) // 2)
    return pad_blocks(order, ends, patch_nodes)


def pad_blocks(
    order: Int[np.ndarray, " node"], ends: Int[np.ndarray, " block_plus_one"], width: int
) -> Int[np.ndarray, "block width"]:
    """Consecutive blocks as rows, padded with -1."""
    sizes = np.diff(ends)
    rows = np.full((len(sizes), width), -1)
    block = np.repeat(np.arange(len(sizes)), sizes)
    rows[block, np.arange(len(order)) - ends[block]] = order
    return rows


class EntityTable(eqx.Module):
    """Cells or facets that touch each patch, by their corners' places in the patch."""

    entities: Int[Array, "patch entity"]  # one past the last for none
    nodes: Integer[Array, "patch entity corner"]  # place in the patch's nodes
    rows: Integer[Array, "patch entity corner"]  # place in the patch's rows; their number for none


class Widths(NamedTuple):
    """How many nodes, cells and facets of each group a table has room for."""

    nodes: int
    cells: int
    facets: tuple[int, ...]


class PatchTable(eqx.Module):
    """Patches of nodes where the residual is tested (rows), and all nodes that it depends on."""

    rows: Int[Array, "patch row"]  # mesh nodes; -1 for none
    nodes: Int[Array, "patch node"]  # mesh nodes; repeats fill up
    cells: EntityTable
    facets: tuple[EntityTable, ...]  # for each group of facets of the problem

    @property
    def num_patches(self) -> int:
        return len(self.rows)

    @property
    def widths(self) -> "Widths":
        num_facets = tuple(table.entities.shape[1] for table in self.facets)
        return Widths(self.nodes.shape[1], self.cells.entities.shape[1], num_facets)


def patch_table(
    rows: Rows,
    cells: Cells,
    facet_corners: tuple[Int[np.ndarray, "facet corner"], ...],
    num_nodes: int,
    at_least: Widths | None = None,
) -> PatchTable:
    """The table for given rows; `facet_corners` are the corners of the cells beside facets."""
    if not rows.size or rows.max() < 0:
        raise RieszError("no node is free, so that there is nothing to test: free some unknowns.")
    least = Widths(0, 0, (0,) * len(facet_corners)) if at_least is None else at_least
    patch_cells = entities_touching(rows, cells, num_nodes, least.cells)
    nodes = nodes_of(patch_cells, cells, least.nodes)
    patch_facets = [
        entities_touching(rows, corners, num_nodes, width)
        for corners, width in zip(facet_corners, least.facets, strict=True)
    ]

    def table_of(entities, corners):
        return entity_table(entities, corners, rows, nodes, num_nodes)

    return PatchTable(
        rows=jnp.asarray(rows, dtype=jnp.int32),
        nodes=jnp.asarray(nodes, dtype=jnp.int32),
        cells=table_of(patch_cells, cells),
        facets=tuple(map(table_of, patch_facets, facet_corners)),
    )


def entities_touching(
    rows: Rows, corners: Corners, num_nodes: int, at_least: int = 0
) -> Int[np.ndarray, "patch entities"]:
    """Entities with a corner among each patch's rows, padded with their number."""
    near = pad_incidence(corners, num_nodes)
    result = (near[np.where(batch < 0, num_nodes, batch)] for batch in batches(rows))
    parts = [unique_rows(f.reshape(len(f), -1), len(corners)) for f in result]
    return stack_parts(parts, len(corners), at_least)


def nodes_of(
    patch_cells: Int[np.ndarray, "patch entities"], cells: Cells, at_least: int = 0
) -> Int[np.ndarray, "patch node"]:
    """All corners of each patch's cells; the first one again fills up."""
    corners = np.append(cells, np.full((1, cells.shape[1]), -1), axis=0).astype(np.int32)
    result = (corners[batch].reshape(len(batch), -1) for batch in batches(patch_cells))
    nodes = stack_parts([unique_rows(f, -1) for f in result], -1, at_least)
    return np.where(nodes < 0, nodes[:, :1], nodes)


def batches(rows: Rows) -> Iterator[Int[np.ndarray, "batch row"]]:
    for start in range(0, len(rows), PATCHES_AT_ONCE):
        yield rows[start : start + PATCHES_AT_ONCE]


def pad_incidence(corners: Corners, num_nodes: int) -> Int[np.ndarray, "node_plus_one valence"]:
    """Entities at each node, padded with their number; the last row is that of no node."""
    owner = corners.ravel()
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=num_nodes)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((num_nodes + 1, max(int(counts.max(initial=1)), 1)), len(corners), np.int32)
    table[owner[order], rank] = order // corners.shape[1]
    return table


def unique_rows(values: Int[np.ndarray, "row width"], nothing: int) -> Int[np.ndarray, "row less"]:
    """The distinct values of each row in order, padded at the end with `nothing`."""
    values = np.sort(values, axis=1)
    fresh = np.ones(values.shape, dtype=bool)
    fresh[:, 1:] = values[:, 1:] != values[:, :-1]
    fresh &= values != nothing
    row, _ = np.nonzero(fresh)
    counts = fresh.sum(axis=1)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    distinct = np.full((len(values), max(int(counts.max(initial=1)), 1)), nothing, values.dtype)
    distinct[row, place] = values[fresh]
    return distinct


def stack_parts(
    parts: list[np.ndarray], nothing: int, at_least: int
) -> Int[np.ndarray, "patch width"]:
    """All parts below each other, padded to one width."""
    result = max(part.shape[1] for part in parts)
    width = max(at_least, -(-result // WIDTH_STEP) * WIDTH_STEP)
    return np.concatenate(
        [np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=nothing) for p in parts]
    )


def entity_table(
    entities: Int[np.ndarray, "patch entity"],
    corners: Int[np.ndarray, "entities corner"],
    rows: Rows,
    nodes: Int[np.ndarray, "patch node"],
    num_nodes: int,
) -> EntityTable:
    """Places of the corners of each patch's entities among its nodes and rows."""
    small = np.uint8 if max(nodes.shape[1], rows.shape[1]) < 256 else np.uint16
    last = nodes.shape[1] - 1
    known = np.append(corners, corners[-1:], axis=0)  # an entity for none, never counted
    at_nodes, at_rows = [], []
    for start in range(0, len(rows), PATCHES_AT_ONCE):
        part = slice(start, start + PATCHES_AT_ONCE)
        wanted = known[entities[part]]
        none = (entities[part] == len(corners))[:, :, None]
        in_nodes = patch_positions(nodes[part], wanted, num_nodes)
        in_rows = patch_positions(rows[part], wanted, num_nodes)
        at_nodes.append(np.where(none, 0, np.minimum(in_nodes, last)).astype(small))
        at_rows.append(np.where(none, rows.shape[1], in_rows).astype(small))
    return EntityTable(
        entities=jnp.asarray(entities, dtype=jnp.int32),
        nodes=jnp.asarray(np.concatenate(at_nodes)),
        rows=jnp.asarray(np.concatenate(at_rows)),
    )


def patch_positions(
    table: Int[np.ndarray, "patch width"], wanted: Int[np.ndarray, "patch entity corner"], top: int
) -> Int[np.ndarray, "patch entity corner"]:
    """Where each wanted node stands in its patch's row of the table; the width where nowhere."""
    width = table.shape[1]
    patch = np.arange(len(table))
    keys = (patch[:, None] * (top + 1) + table + 1).ravel()  # -1, for none, comes first
    order = np.argsort(keys, kind="stable")
    goal = patch[:, None, None] * (top + 1) + wanted + 1
    spot = np.minimum(np.searchsorted(keys[order], goal), len(keys) - 1)
    result = keys[order[spot]] == goal
    return np.where(result, order[spot] % width, width)

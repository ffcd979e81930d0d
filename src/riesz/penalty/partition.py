"""Cutting nodes into mini-patches, so that every node lies in equally many.

Each partition is a recursive coordinate bisection (Berger & Bokhari 1987) into blocks of at most
`patch_nodes` nodes, and covers every node exactly once. Several partitions in rotated frames give
overlap: where one has a cut, another has the middle of a block.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.transform import Rotation

from riesz.errors import RieszError

NUM_PARTITIONS = 4
"""In how many patches each node lies."""


def overlapping_patches(
    points: Float[np.ndarray, "node dim"], patch_nodes: int, num_partitions: int = NUM_PARTITIONS
) -> Int[np.ndarray, "patch patch_nodes"]:
    """Patches as rows of node indices, padded with -1; one patch where all nodes fit into it."""
    if patch_nodes < 1:
        raise RieszError(f"a patch of {patch_nodes} nodes is empty: give it at least one node.")
    if len(points) <= patch_nodes:
        row = np.full((1, patch_nodes), -1)
        row[0, : len(points)] = np.arange(len(points))
        return row
    turns = [k / num_partitions for k in range(num_partitions)]
    if points.shape[1] == 1:
        return np.concatenate([shifted_runs(points[:, 0], patch_nodes, t) for t in turns])
    return np.concatenate([bisected(rotated(points, t), patch_nodes) for t in turns])


def shifted_runs(
    places: Float[np.ndarray, " node"], patch_nodes: int, shift: float
) -> Int[np.ndarray, "patch patch_nodes"]:
    """On a line: runs of consecutive nodes, the first cut short by a part of a patch."""
    first = patch_nodes - int(shift * patch_nodes)
    ends = np.concatenate([[0], np.arange(first, len(places), patch_nodes), [len(places)]])
    return padded(np.argsort(places), ends, patch_nodes)


def rotated(points: Float[np.ndarray, "node dim"], turn: float) -> Float[np.ndarray, "node dim"]:
    """Points of the plane or of space in a frame turned by a part of a right angle."""
    if points.shape[1] == 2:
        angle = turn * np.pi / 2
        cos, sin = np.cos(angle), np.sin(angle)
        return points @ np.array([[cos, -sin], [sin, cos]])
    return Rotation.from_rotvec(turn * np.pi / 2 * np.array([1.0, 1.0, 1.0])).apply(points)


def bisected(
    points: Float[np.ndarray, "node dim"], patch_nodes: int
) -> Int[np.ndarray, "patch patch_nodes"]:
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
    return padded(order, ends, patch_nodes)


def padded(
    order: Int[np.ndarray, " node"], ends: Int[np.ndarray, " block_plus_one"], width: int
) -> Int[np.ndarray, "block width"]:
    """Consecutive blocks as rows, padded with -1."""
    sizes = np.diff(ends)
    rows = np.full((len(sizes), width), -1)
    block = np.repeat(np.arange(len(sizes)), sizes)
    rows[block, np.arange(len(order)) - ends[block]] = order
    return rows

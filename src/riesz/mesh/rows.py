"""Rows of node indices as integers, so that equal ones are found by one sort."""

import numpy as np
from jaxtyping import Bool, Int

from riesz.errors import MeshError

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits well mixed: 2^64 over the golden ratio


def row_keys(rows: Int[np.ndarray, "row width"], num_nodes: int) -> Int[np.ndarray, " row"]:
    """One integer a row of sorted node indices, equal exactly where the rows are."""
    if num_nodes ** rows.shape[1] > np.iinfo(np.int64).max:
        raise MeshError(f"{num_nodes} nodes are too many to number the facets in 64 bits.")
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        keys = keys * num_nodes + column
    return keys


def repeats(rows: Int[np.ndarray, "row width"]) -> Bool[np.ndarray, " row"]:
    """Whether each row has the indices, in any order, of one before it."""
    ordered = np.sort(rows, axis=1)
    # Wide rows do not fit in 64 bits: sort by a hash, and compare only where that repeats.
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in ordered.T:
        hashes = (hashes ^ (hashes >> np.uint64(29))) * MULTIPLIER + column.astype(np.uint64)
    order = np.argsort(hashes, kind="stable")
    twin = hashes[order[1:]] == hashes[order[:-1]]
    repeated = np.zeros(len(rows), dtype=bool)
    if twin.any():
        doubtful = np.sort(order[np.append(twin, False) | np.append(False, twin)])
        _, first = np.unique(ordered[doubtful], axis=0, return_index=True)
        repeated[doubtful] = True
        repeated[doubtful[first]] = False
    return repeated

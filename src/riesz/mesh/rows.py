"""Rows of node indices, such as edges and facets: their order, and which of them are alike.

Meshes have millions of rows: they are held by columns, and sorted by counting, which takes a time
that grows with their number only, and knows no largest index.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int, Shaped, UInt64

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits well mixed: 2^64 over the golden ratio

Rows = Int[np.ndarray, "row width"]
Columns = Int[np.ndarray, "width row"]
Positions = Int[np.ndarray, " row"]


def index_type(count: int) -> np.dtype:
    """The smaller type that holds so many indices: half the memory is half the time."""
    return np.dtype(np.int32 if count <= np.iinfo(np.int32).max else np.int64)


def group_by_key(
    keys: Positions, num_keys: int, carried: Shaped[np.ndarray, " row"] | None = None
) -> tuple[Positions, Int[np.ndarray, " keys_plus_one"], Shaped[np.ndarray, " row"]]:
    """Positions of each key in ascending order, key by key, and where those of each key begin.

    What is carried comes along in the same order. This is a counting sort, found where sparse
    matrices are transposed.
    """
    count = len(keys)
    dtype = index_type(max(count, num_keys) + 1)
    values = np.empty(count, np.int8) if carried is None else carried
    one_a_row = (values, np.ascontiguousarray(keys, dtype), np.arange(count + 1, dtype=dtype))
    transposed = sp.csr_array(one_a_row, shape=(count, num_keys)).tocsc()
    return transposed.indices, transposed.indptr, transposed.data


class RowGroups(NamedTuple):
    """Rows in their order: by the first index, then the second, and so on."""

    order: Int[np.ndarray, " row"]  # positions; like rows are side by side, as they came
    starts: Int[np.ndarray, " distinct"]  # where each run of like rows begins
    distinct: Int[np.ndarray, "width distinct"]

    @property
    def counts(self) -> Int[np.ndarray, " distinct"]:
        """How many rows are alike in each run."""
        return np.diff(self.starts, append=len(self.order))


def row_groups(columns: Columns, num_nodes: int) -> RowGroups:
    width, count = columns.shape
    few = count < num_nodes  # there would be more to count than to compare
    if few or width not in RECORDS or index_type(count) != np.int32:
        order = np.lexsort(columns[::-1])
        ordered = list(columns[:, order])
    else:
        order, ordered = counting_sort(columns, num_nodes)
    new = np.zeros(count, dtype=bool)
    new[:1] = True
    for column in ordered:
        new[1:] |= column[1:] != column[:-1]
    return RowGroups(order, np.flatnonzero(new), np.stack([column[new] for column in ordered]))


RECORDS = {1: np.int32, 2: np.int64, 3: np.complex128, 4: np.complex128}
"""Types at least as wide as so many indices: SciPy moves their bytes and does not look inside."""


def counting_sort(columns: Columns, num_nodes: int) -> tuple[Positions, list[Positions]]:
    """The order of the rows, and their columns in it, by counting sorts from the last column on.

    Each carries along what the next ones need: to gather that afterwards would take twice as long.
    """
    width, count = columns.shape
    order, ordered = np.arange(count, dtype=np.int32), list(columns)
    for k in range(width - 1, -1, -1):
        key = np.ascontiguousarray(ordered.pop(k), dtype=np.int32)
        record = np.empty(count, RECORDS[width])
        for place, column in zip(indices_in(record), [order, *ordered], strict=False):
            place[:] = column
        del order, ordered  # the largest meshes that fit are those that fit here
        _, starts, record = group_by_key(key, num_nodes, record)
        order, *ordered = indices_in(record)[:width]
        ordered.insert(k, np.repeat(np.arange(num_nodes, dtype=np.int32), np.diff(starts)))
    return np.ascontiguousarray(order), ordered


def indices_in(records: Shaped[np.ndarray, " row"]) -> Int[np.ndarray, "place row"]:
    return records.view(np.int32).reshape(len(records), records.itemsize // 4).T


def number_rows(columns: Columns, num_nodes: int) -> tuple[Positions, RowGroups]:
    """Numbers of rows, equal exactly where the rows are and ascending with them; and the groups."""
    groups = row_groups(columns, num_nodes)
    number = np.empty_like(groups.order)
    ascending = np.arange(len(groups.starts), dtype=number.dtype)
    number[groups.order] = np.repeat(ascending, groups.counts)
    return number, groups


def find_rows(
    columns: Columns, wanted: Int[np.ndarray, "width wanted"], num_nodes: int
) -> Int[np.ndarray, " wanted"]:
    """The position of the first row that is like each wanted one, or -1 where there is none."""
    count = columns.shape[1]
    number, groups = number_rows(np.concatenate([columns, wanted], axis=1), num_nodes)
    position = groups.order[groups.starts[number[count:]]]
    return np.where(position < count, position, -1)


def sort_columns(columns: Columns) -> Columns:
    """Each row with its indices in ascending order."""
    ordered = list(columns)
    # Rows are short: exchanging neighbours takes few passes, each along memory.
    for last in range(len(ordered) - 1, 0, -1):
        for i in range(last):
            low, high = ordered[i : i + 2]
            ordered[i : i + 2] = np.minimum(low, high), np.maximum(low, high)
    return np.stack(ordered)


def may_repeat(columns: Columns) -> bool:
    """Whether two rows may be alike; if not, it is certain."""
    hashes = row_hashes(columns)
    hashes.sort()
    return bool((hashes[1:] == hashes[:-1]).any())


def row_hashes(columns: Columns) -> UInt64[np.ndarray, " row"]:
    hashes = np.zeros(columns.shape[1], dtype=np.uint64)
    for column in columns:
        hashes = (hashes ^ (hashes >> np.uint64(29))) * MULTIPLIER + column.astype(np.uint64)
    return hashes


def find_repeats(rows: Rows) -> Bool[np.ndarray, " row"]:
    """Whether each row has the indices, in any order, of one before it."""
    columns = sort_columns(rows.T)
    repeated = np.zeros(len(rows), dtype=bool)
    if may_repeat(columns):
        order = np.lexsort(columns[::-1])
        ordered = columns[:, order]
        repeated[order[1:]] = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    return repeated


def pair_keys(pairs: Int[np.ndarray, "pair 2"], num_nodes: int) -> Int[np.ndarray, " pair"]:
    """One integer a pair of node indices, equal exactly where the pairs are."""
    return pairs[:, 0] * np.int64(num_nodes) + pairs[:, 1]

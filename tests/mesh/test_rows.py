"""Rows that hold the same nodes are found, however wide the rows and high the indices."""

import numpy as np

from riesz.mesh.mesh import repeats


def test_later_rows_with_the_same_nodes_are_repeats():
    rows = np.array([[3, 1, 2], [0, 1, 2], [2, 3, 1], [1, 2, 3], [0, 1, 3]])
    assert repeats(rows).tolist() == [False, False, True, True, False]
    assert repeats(np.empty((0, 2), dtype=int)).tolist() == []


def test_repeats_agree_with_a_search_in_a_set():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 6, (500, 4)) + 2**40
    seen, told = set(), []
    for row in np.sort(rows, axis=1).tolist():
        told.append(tuple(row) in seen)
        seen.add(tuple(row))
    assert repeats(rows).tolist() == told


def test_rows_that_hash_alike_are_compared(monkeypatch):
    monkeypatch.setattr("riesz.mesh.mesh.MULTIPLIER", np.uint64(0))
    assert repeats(np.array([[0, 5], [1, 5], [5, 1]])).tolist() == [False, False, True]

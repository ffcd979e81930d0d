"""Rows that hold the same nodes are found, however wide the rows and high the indices."""

import numpy as np
import pytest

from riesz.mesh.rows import (
    find_repeats,
    find_rows,
    group_by_key,
    number_rows,
    row_groups,
    sort_columns,
)

MANY = 3_000_000
"""Nodes: three of their indices do not fit in 64 bits."""


def some_rows(width, count, num_nodes, seed=0):
    """Columns of rows, many of which are alike."""
    return np.random.default_rng(seed).integers(0, num_nodes, (width, count))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_numbers_are_those_of_a_sorted_list_without_repeats(width):
    columns = some_rows(width, 400, 4)
    expected, first, inverse = np.unique(columns.T, axis=0, return_index=True, return_inverse=True)
    number, groups = number_rows(columns, 4)
    np.testing.assert_array_equal(number, inverse.ravel())
    np.testing.assert_array_equal(groups.distinct.T, expected)
    np.testing.assert_array_equal(groups.order[groups.starts], first)
    np.testing.assert_array_equal(groups.counts, np.bincount(inverse.ravel()))


@pytest.mark.parametrize("width", [1, 2, 3])
def test_counting_and_comparing_give_one_order(width):
    columns = some_rows(width, 600, 5)
    counted, compared = row_groups(columns, 5), row_groups(columns, 601)
    for one, other in zip(counted, compared, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_rows_of_high_indices_are_told_apart(count):
    columns = MANY - 1 - some_rows(3, count, 3)
    number, _ = number_rows(columns, MANY)
    _, expected = np.unique(columns.T, axis=0, return_inverse=True)
    np.testing.assert_array_equal(number, expected.ravel())


def test_a_key_keeps_the_order_of_its_positions_and_carries_values_along():
    keys = np.random.default_rng(1).integers(0, 7, 100)
    values = np.arange(100) ** 2
    order, starts, carried = group_by_key(keys, 8, values)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(np.diff(starts), np.bincount(keys, minlength=8))
    np.testing.assert_array_equal(carried, values[order])


def test_rows_are_found_where_they_stand_first():
    columns = np.array([[4, 0, 4, 1], [5, 2, 5, 3]])
    wanted = np.array([[1, 4, 0, 0], [3, 5, 3, 2]])
    assert find_rows(columns, wanted, 6).tolist() == [3, 0, -1, 1]
    assert find_rows(columns[:, :0], wanted, 6).tolist() == [-1, -1, -1, -1]
    assert find_rows(columns, wanted[:, :0], 6).tolist() == []


def test_sorted_columns_are_sorted_rows():
    columns = some_rows(4, 200, 9)
    np.testing.assert_array_equal(sort_columns(columns), np.sort(columns, axis=0))


def test_later_rows_with_the_same_nodes_are_repeats():
    rows = np.array([[3, 1, 2], [0, 1, 2], [2, 3, 1], [1, 2, 3], [0, 1, 3]])
    assert find_repeats(rows).tolist() == [False, False, True, True, False]
    assert find_repeats(np.empty((0, 2), dtype=int)).tolist() == []


def test_repeats_agree_with_a_search_in_a_set():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 6, (500, 4)) + 2**40
    seen, told = set(), []
    for row in np.sort(rows, axis=1).tolist():
        told.append(tuple(row) in seen)
        seen.add(tuple(row))
    assert find_repeats(rows).tolist() == told


def test_rows_that_hash_alike_are_compared(monkeypatch):
    monkeypatch.setattr("riesz.mesh.rows.MULTIPLIER", np.uint64(0))
    assert find_repeats(np.array([[0, 5], [1, 5], [5, 1]])).tolist() == [False, False, True]

"""The pattern of a matrix has an entry for each pair of unknowns that share a cell, in order."""

import numpy as np
import pytest
import scipy.sparse as sp

from riesz.fem.elements.space import P2
from riesz.fem.linear.sparse import sparse_pattern
from riesz.mesh.shapes import box, interval, rectangle

NUMBERINGS = {
    "interval": interval(6).cells.T,
    "rectangle": rectangle((4, 3)).cells.T,
    "quadratic": P2(rectangle((3, 2))).cell_dofs.T,
    "box": box((2, 1, 2)).cells.T,
}


def renumbered(dofs, num_fixed, seed):
    """The unknowns in another order, the last ones of them all called by one number: fixed."""
    num_free = int(dofs.max()) + 1 - num_fixed
    order = np.random.default_rng(seed).permutation(num_free + num_fixed)
    return np.minimum(order[dofs], num_free).astype(np.int32), num_free


@pytest.mark.parametrize("num_fixed", [0, 3])
@pytest.mark.parametrize("name", list(NUMBERINGS))
def test_entries_add_up_to_the_matrix_of_all_pairs(name, num_fixed):
    dofs, size = renumbered(NUMBERINGS[name], num_fixed, seed=0)
    pattern, entries = sparse_pattern(dofs, size)
    values = np.random.default_rng(1).uniform(1, 2, entries.shape)
    expected = np.zeros((size + 1, size + 1))
    np.add.at(expected, (dofs[:, None], dofs[None, :]), values)
    data = np.zeros(len(pattern.rows) + 1)
    np.add.at(data, entries, values)
    parts = (data[:-1], np.asarray(pattern.columns), np.asarray(pattern.row_starts))
    found = sp.csr_array(parts, shape=(size, size))
    np.testing.assert_allclose(found.toarray(), expected[:size, :size])


@pytest.mark.parametrize("name", list(NUMBERINGS))
def test_a_pattern_is_sorted_and_has_nothing_twice(name):
    dofs, size = renumbered(NUMBERINGS[name], 2, seed=2)
    pattern, _ = sparse_pattern(dofs, size)
    rows, columns = np.asarray(pattern.rows), np.asarray(pattern.columns)
    assert (np.diff(rows.astype(np.int64) * size + columns) > 0).all()
    np.testing.assert_array_equal(np.diff(pattern.row_starts), np.bincount(rows))

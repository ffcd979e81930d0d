"""The pattern of a matrix has an entry for each pair of unknowns that share a cell, in order."""

import numpy as np
import pytest
import scipy.sparse as sp

from riesz.fem.elements.space import P2
from riesz.fem.linear.sparse import cell_pairs, pattern_tables
from riesz.mesh.shapes import box, interval, rectangle

NUMBERINGS = {
    "interval": interval(6).cells.T,
    "rectangle": rectangle((4, 3)).cells.T,
    "quadratic": P2(rectangle((3, 2))).cell_dofs.T,
    "box": box((2, 1, 2)).cells.T,
}


def tables_of(name, num_fixed, seed):
    """Unknowns of cells numbered at random, which number each has among the free ones, tables."""
    rng = np.random.default_rng(seed)
    num_dofs = int(NUMBERINGS[name].max()) + 1
    dofs = rng.permutation(num_dofs)[NUMBERINGS[name]].astype(np.int32)
    free = np.sort(rng.permutation(num_dofs)[num_fixed:])
    number = np.full(num_dofs, len(free), dtype=np.int32)
    number[free] = np.arange(len(free))
    return number[dofs], len(free), pattern_tables(cell_pairs(dofs, num_dofs), dofs, free, num_dofs)


@pytest.mark.parametrize("num_fixed", [0, 3])
@pytest.mark.parametrize("name", list(NUMBERINGS))
def test_entries_add_up_to_the_matrix_of_all_pairs(name, num_fixed):
    numbers, size, tables = tables_of(name, num_fixed, seed=0)
    values = np.random.default_rng(1).uniform(1, 2, tables.entries.shape)
    expected = np.zeros((size + 1, size + 1))
    np.add.at(expected, (numbers[:, None], numbers[None, :]), values)
    data = np.zeros(len(tables.rows) + 1)
    np.add.at(data, tables.entries, values)
    found = sp.csr_array((data[:-1], tables.columns, tables.row_starts), shape=(size, size))
    np.testing.assert_allclose(found.toarray(), expected[:size, :size])


@pytest.mark.parametrize("name", list(NUMBERINGS))
def test_a_pattern_is_sorted_and_has_nothing_twice(name):
    _, size, tables = tables_of(name, 2, seed=2)
    assert (np.diff(tables.rows.astype(np.int64) * size + tables.columns) > 0).all()
    np.testing.assert_array_equal(np.diff(tables.row_starts), np.bincount(tables.rows))

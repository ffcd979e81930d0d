"""Products of sparse matrices by tables are those of SciPy, however rows are put into slices."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from riesz.fem.linear.multigrid import tables
from riesz.fem.linear.multigrid.tables import combination, layout, slice_widths, table


@pytest.fixture
def slices_cost_nothing(monkeypatch):
    """Small matrices are cut into slices as large ones are."""
    monkeypatch.setattr(tables, "SLICE_COST", (0.0, 1))


@pytest.fixture
def square():
    """A matrix with a symmetric pattern, whose rows differ in length."""
    rng = np.random.default_rng(0)
    upper = sp.random_array((37, 37), density=0.1, rng=rng)
    filled = (upper + upper.T).toarray() + np.eye(37)
    filled[5, :] = filled[:, 5] = 1.0  # one row is far longer than the others
    return sp.csr_array(filled)


def test_slices_waste_little(slices_cost_nothing):
    counts = np.array([2] * 50 + [9] * 3)
    assert slice_widths(counts) == [2, 10]


@pytest.mark.slow
def test_combinations_of_rows_of_different_length_are_products(slices_cost_nothing):
    matrix = sp.csr_array(sp.random_array((40, 23), density=0.2, rng=np.random.default_rng(1)))
    product = combination(matrix)
    vector = np.arange(23.0)
    assert len(product.places) > 1
    np.testing.assert_allclose(product(jnp.asarray(vector))[:40], matrix @ vector)


def test_rows_of_a_table_are_those_of_its_matrix(slices_cost_nothing, square):
    order = np.random.default_rng(2).permutation(37)
    own = layout(square, order)
    numbered = sp.csr_array(square)
    numbered.data = np.arange(square.nnz)
    reordered = own.reorder(numbered)
    rows = table(reordered, own).fill(jnp.asarray(square.data[reordered.data]))
    assert len(rows.values) > 1
    vector = np.random.default_rng(3).normal(size=37)
    padded = np.append(vector, 0.0)[own.order]
    found = np.asarray(rows @ jnp.asarray(padded))
    np.testing.assert_allclose(found[own.position], square @ vector)
    np.testing.assert_allclose(np.asarray(rows.diagonal())[own.position], square.diagonal())

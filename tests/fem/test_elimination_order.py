"""The order of elimination: every unknown once, and far less fill than in the order of a square."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from riesz.fem.linear.host_lu import dissect, elimination_order


def five_points(side):
    line = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sp.csr_array(sp.kronsum(line, line))


@pytest.mark.parametrize(
    "pattern",
    [
        five_points(30),
        sp.eye_array(300),  # nothing hangs together
        sp.csr_array(np.ones((80, 80))),  # everything does: no layer between two parts
        sp.block_diag([five_points(12), five_points(9)]),
        sp.csr_array(np.triu(np.ones((100, 100)))),  # not symmetric
        sp.eye_array(1),
    ],
)
def test_every_unknown_has_its_turn_once(pattern):
    order = elimination_order(pattern)
    np.testing.assert_array_equal(np.sort(order), np.arange(pattern.shape[0]))


def test_no_way_leads_around_the_layer():
    matrix = abs(five_points(20))
    one, other, layer = dissect(matrix)
    assert matrix[one][:, other].nnz == 0
    assert len(layer) <= 20
    assert min(len(one), len(other)) > 0.3 * 400


def test_fill_is_that_of_nested_dissection():
    """N log N nonzeros instead of N^1.5."""
    matrix = five_points(80)
    order = elimination_order(matrix)

    def fill(reordered):
        options = {"SymmetricMode": True}
        return spla.splu(sp.csc_array(reordered), permc_spec="NATURAL", options=options).nnz

    assert fill(matrix[order][:, order]) < 0.35 * fill(matrix)

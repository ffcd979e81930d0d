"""Symmetric positive matrices of a small bandwidth are factorised as a band, others by LU."""

import numpy as np
import pytest
import scipy.sparse as sp

from riesz.fem.linear.host_band import WIDEST, BandFactors
from riesz.fem.linear.host_lu import Factors, Pattern, factorise, solve_one


def chain(length: int) -> sp.csr_array:
    """The Laplacian of a chain whose ends are free."""
    diagonal = np.full(length, 2.0)
    diagonal[[0, -1]] = 1.0
    beside = np.full(length - 1, -1.0)
    return sp.csr_array(sp.diags_array([beside, diagonal, beside], offsets=[-1, 0, 1]))


def grid(rows: int, columns: int, shift: float = 0.1) -> sp.csr_array:
    """The Laplacian of a grid, plus a multiple of the identity."""
    along = sp.kron(sp.eye_array(rows), chain(columns))
    across = sp.kron(chain(rows), sp.eye_array(columns))
    result = sp.csr_array(along + across + shift * sp.eye_array(rows * columns))
    result.sort_indices()
    return result


def parts(matrix: sp.csr_array) -> tuple[np.ndarray, Pattern]:
    return matrix.data, Pattern(matrix.indices, matrix.indptr)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_band_solves_for_one_and_for_several_right_hand_sides(transposed):
    matrix = grid(6, 9)
    assert isinstance(factorise(*parts(matrix)), BandFactors)
    sides = np.random.default_rng(0).normal(size=(54, 3))
    for side in (sides, sides[:, 0]):
        solution = solve_one(*parts(matrix), side, transposed=transposed)
        np.testing.assert_allclose(matrix @ solution, side, atol=1e-12)


def test_matrices_that_are_not_symmetric_are_left_to_lu():
    matrix = grid(6, 9)
    matrix.data[1] += 1e-6
    assert isinstance(factorise(*parts(matrix)), Factors)


def test_patterns_that_are_not_symmetric_are_left_to_lu():
    matrix = sp.csr_array(sp.eye_array(5) + sp.diags_array([np.ones(3)], offsets=[2], shape=(5, 5)))
    factors = factorise(*parts(matrix))
    assert isinstance(factors, Factors)
    np.testing.assert_allclose(matrix.T @ factors.solve(np.arange(5.0)), np.arange(5.0))


def test_matrices_that_are_not_positive_are_left_to_lu():
    assert isinstance(factorise(*parts(grid(6, 9, shift=-0.7))), Factors)


def test_wide_bands_are_left_to_lu():
    assert isinstance(factorise(*parts(grid(WIDEST + 5, WIDEST + 6))), Factors)


def test_a_singular_matrix_has_no_factors_of_either_kind():
    assert factorise(*parts(grid(6, 9, shift=0.0))) is None

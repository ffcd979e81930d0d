"""Symmetric positive matrices of a small bandwidth are factorised as a band, others by LU."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from riesz.fem.linear import host_band
from riesz.fem.linear.host_band import WIDEST, BandFactors
from riesz.fem.linear.host_lu import Pattern, elimination_of, lu_solve, solver_of


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


def as_band(matrix: sp.csr_array) -> BandFactors | None:
    values, pattern = parts(matrix)
    band = elimination_of(pattern).band
    return None if band is None else band.factorise(values)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_band_solves_for_one_and_for_several_right_hand_sides(transposed):
    matrix = grid(6, 9)
    assert as_band(matrix) is not None
    sides = np.random.default_rng(0).normal(size=(54, 3))
    for side in (sides, sides[:, 0]):
        solution = solver_of(*parts(matrix), transposed=transposed)(side)
        np.testing.assert_allclose(matrix @ solution, side, atol=1e-12)


def test_a_matrix_that_is_met_again_is_not_factorised_again(monkeypatch):
    matrix, calls = grid(6, 9, shift=0.321), []
    whole = host_band.BandMatrix.factorise
    monkeypatch.setattr(
        host_band.BandMatrix, "factorise", lambda *a: (calls.append(1), whole(*a))[1]
    )
    for side in np.random.default_rng(0).normal(size=(3, 54)):
        np.testing.assert_allclose(matrix @ solver_of(*parts(matrix), transposed=False)(side), side)
    assert len(calls) == 1


def test_threads_do_not_disturb_each_other():
    matrices = [grid(7, 11, shift=shift) for shift in np.linspace(0.1, 2, 100)]
    side = np.arange(77.0)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda matrix: solver_of(*parts(matrix), transposed=False)(side), matrices)
        for matrix, solution in zip(matrices, found, strict=True):
            np.testing.assert_allclose(matrix @ solution, side, atol=1e-10)


def unsymmetric() -> sp.csr_array:
    matrix = grid(6, 9)
    matrix.data[1] += 1e-6
    return matrix


def unsymmetric_pattern() -> sp.csr_array:
    beside = sp.diags_array([np.ones(3)], offsets=[2], shape=(5, 5))
    return sp.csr_array(sp.eye_array(5) + beside)


@pytest.mark.parametrize(
    "matrix",
    [
        pytest.param(unsymmetric(), id="not symmetric"),
        pytest.param(unsymmetric_pattern(), id="pattern not symmetric"),
        pytest.param(grid(6, 9, shift=-0.7), id="not positive"),
        pytest.param(grid(WIDEST + 5, WIDEST + 6), id="wide"),
        pytest.param(grid(6, 9, shift=1e-12), id="nearly singular"),
    ],
)
def test_others_are_left_to_lu_which_solves_them(matrix):
    assert as_band(matrix) is None
    side = np.arange(matrix.shape[0], dtype=float)
    solution = lu_solve(matrix.data, matrix.indices, matrix.indptr, side, transposed=False)
    assert np.abs(matrix @ solution - side).max() < 1e-13 * np.abs(solution).max() + 1e-12


@pytest.mark.parametrize("shift", [0.0, np.nan, np.inf])
def test_a_matrix_that_is_singular_or_not_a_number_has_no_solution(shift):
    matrix = grid(6, 9, shift=shift)
    assert as_band(matrix) is None
    assert np.isnan(solver_of(*parts(matrix), transposed=False)(np.ones(54))).all()

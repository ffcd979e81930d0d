"""The sparse LU of the host: right answers, NaN for singular matrices, factors used again."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from riesz.fem.linear import host_lu
from riesz.fem.linear.host_lu import lu_solve

resource = pytest.importorskip("resource")  # not on Windows


def parts(matrix):
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)


def laplacian(size, conductances=None):
    """Of a chain with free ends: constants are in its null space."""
    c = np.ones(size - 1) if conductances is None else conductances
    diagonal = np.concatenate([c, [0.0]]) + np.concatenate([[0.0], c])
    return sp.diags_array([diagonal, -c, -c], offsets=[0, 1, -1]).tocsr()


def on_a_square(size):
    line, one = laplacian(size), sp.eye_array(size)
    return (sp.kron(line, one) + sp.kron(one, line)).tocsr()


@pytest.mark.parametrize("transposed", [False, True])
def test_solves_unsymmetric_systems_and_their_transposes(transposed):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(20, 20)) * (rng.random((20, 20)) < 0.3) + 5 * np.eye(20)
    side = rng.normal(size=20)
    found = lu_solve(*parts(dense), side, transposed=transposed)
    np.testing.assert_allclose((dense.T if transposed else dense) @ found, side, rtol=1e-12)


@pytest.mark.parametrize("matrix", [laplacian(50), on_a_square(100)])
def test_a_singular_matrix_has_no_solution(matrix):
    side = np.zeros(matrix.shape[0])
    side[[0, -1]] = 1, -1  # compatible, but the solution is not unique
    assert np.isnan(lu_solve(*parts(matrix), side, transposed=False)).all()


def test_columns_of_zeros_have_no_solution_and_never_reach_superlu(monkeypatch):
    """Where a coefficient underflows: it has been seen to call BLAS with illegal sizes."""
    monkeypatch.setattr(host_lu.spla, "splu", None)
    values, columns, starts = parts(on_a_square(4) + sp.eye_array(16))
    values[columns == 3] = 0.0
    values[starts[3] : starts[4]] = 0.0
    assert np.isnan(lu_solve(values, columns, starts, np.ones(16), transposed=False)).all()


def test_infinite_entries_have_no_solution():
    values, columns, starts = parts(np.diag([1.0, 2.0]))
    values[0] = np.inf
    assert np.isnan(lu_solve(values, columns, starts, np.ones(2), transposed=False)).all()


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_whether_a_matrix_is_singular_does_not_depend_on_units(unit):
    regular = unit * (laplacian(30) + sp.diags_array(np.eye(30)[0]))
    found = lu_solve(*parts(regular), np.full(30, unit), transposed=False)
    np.testing.assert_allclose(regular @ found, unit, rtol=1e-10)
    assert np.isnan(lu_solve(*parts(unit * laplacian(30)), np.ones(30), transposed=False)).all()


def test_contrasts_of_sixteen_orders_of_magnitude_are_no_singularity():
    conductances = np.where(np.arange(29) < 15, 1.0, 1e-16)
    regular = laplacian(30, conductances) + sp.diags_array(np.eye(30)[0])
    side = np.concatenate([np.ones(15), np.full(15, 1e-16)])
    found = lu_solve(*parts(regular), side, transposed=False)
    assert (np.abs(regular @ found - side) <= 1e-14 * (abs(regular) @ np.abs(found))).all()


def test_a_batch_of_sides_takes_one_factorisation_and_a_batch_of_matrices_one_each(monkeypatch):
    calls = []
    factorise = host_lu.factorise
    monkeypatch.setattr(host_lu, "factorise", lambda *a: (calls.append(1), factorise(*a))[1])
    rng = np.random.default_rng(1)
    drift = sp.diags_array([rng.random(9)], offsets=[1])  # or it would be a band
    values, columns, starts = parts(sp.csr_array(laplacian(10) + drift + sp.eye_array(10)))
    sides = rng.normal(size=(6, 10))
    found = lu_solve(values[None], columns[None], starts[None], sides, transposed=False)
    assert len(calls) == 1
    for side, solution in zip(sides, found, strict=True):
        one = lu_solve(values, columns, starts, side, transposed=False)
        np.testing.assert_array_equal(one, solution)
    assert len(calls) == 1  # remembered
    scaled = values * np.array([[2.0], [3.0]])
    lu_solve(scaled, columns[None], starts[None], sides[:1], transposed=False)
    assert len(calls) == 3


def test_matrices_of_one_pattern_share_its_order_and_nothing_else():
    """Large enough to be dissected; each solution is that of its own matrix."""
    matrix = on_a_square(12)
    values, columns, starts = parts(matrix + sp.eye_array(144))
    side = np.arange(144.0)
    for scale in (1.0, 2.0, 3.0):
        scaled = values * (1 + scale * np.arange(len(values)) / len(values))
        found = lu_solve(scaled, columns, starts, side, transposed=False)
        whole = sp.csr_array((scaled, columns, starts), shape=matrix.shape)
        np.testing.assert_allclose(whole @ found, side, rtol=1e-9, atol=1e-9)


def occupied_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_factors_are_let_go_whichever_thread_asked_for_them():
    side = 40
    stencil = sp.diags_array([-1.1, 4.0, -0.9], offsets=[-1, 0, 1], shape=(side, side))
    matrix = sp.csr_array(sp.kronsum(stencil, stencil))
    load = np.ones(side**2)

    def solve(k):
        return lu_solve(
            matrix.data + 1e-3 * k, matrix.indices, matrix.indptr, load, transposed=False
        )

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(solve, range(50)))
        before = occupied_mb()
        list(threads.map(solve, range(50, 350)))
    assert occupied_mb() - before < 60  # 300 factors of 0.8 MB, of which 32 are kept

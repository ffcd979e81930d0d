"""One function decides which linear solver is taken; whoever asks for one gets it."""

import equinox as eqx
import numpy as np
import pytest

from riesz.fem import default_solver
from riesz.fem.default_solver import choose_solver, multigrid
from riesz.fem.elements.space import P1
from riesz.fem.linear.linear_solve import Automatic, ConjugateGradients, Dense, SparseLU
from riesz.fem.linear.multigrid.solver import Multigrid
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.weakform import advection, diffusion, source
from riesz.mesh.shapes import rectangle


@pytest.fixture(scope="module")
def flow():
    form = diffusion(1.0) - source(1.0)
    return boundary_value_problem(P1(rectangle((16, 16))), form, {"boundary": 0.0})


@pytest.fixture
def lu_is_slow(monkeypatch):
    """From a hundred unknowns on multigrid is the faster way."""
    monkeypatch.setattr(default_solver, "LARGEST_FOR_LU", {2: 100})


def test_small_systems_are_factorised(flow):
    assert isinstance(choose_solver(flow), SparseLU)


def test_a_solver_that_is_asked_for_is_taken(flow, lu_is_slow):
    asked = ConjugateGradients()
    assert choose_solver(flow, asked) is asked


def test_large_systems_take_multigrid_made_once_with_a_way_back(flow, lu_is_slow):
    found = choose_solver(flow, Automatic())
    assert isinstance(found, Multigrid)
    assert found.is_symmetric
    assert found.fallback
    assert choose_solver(flow) is found


def test_no_way_back_where_factors_do_not_fit_in_memory(flow, lu_is_slow, monkeypatch):
    monkeypatch.setattr(default_solver, "FITS_IN_MEMORY", {2: 200})
    found = choose_solver(flow)
    assert isinstance(found, Multigrid)
    assert not found.fallback


def test_factors_serve_many_right_hand_sides(flow, lu_is_slow):
    assert isinstance(choose_solver(flow, num_rhs=50), SparseLU)


def test_many_matrices_are_worth_the_time_that_multigrid_compiles(flow, monkeypatch):
    monkeypatch.setattr(default_solver, "LARGEST_FOR_LU", {2: 400})
    assert isinstance(choose_solver(flow), SparseLU)
    assert isinstance(choose_solver(flow, num_matrices=500), Multigrid)


def test_coefficients_by_cell_are_smoothed_more(flow):
    mesh = flow.space.mesh
    jumping = diffusion(per_cell(np.ones(mesh.num_cells))) - source(1.0)
    problem = boundary_value_problem(flow.space, jumping, {"boundary": 0.0})
    assert multigrid(problem).smoothing > multigrid(flow).smoothing


def test_transport_is_factorised_up_to_larger_sizes(flow, monkeypatch):
    monkeypatch.setattr(default_solver, "LARGEST_FOR_LU", {2: 200})
    form = diffusion(1.0) + advection(np.array([1.0, 0.0]))
    transport = boundary_value_problem(flow.space, form, {"boundary": 0.0})
    assert isinstance(choose_solver(flow), Multigrid)
    assert isinstance(choose_solver(transport), SparseLU)


def test_accelerators_do_not_call_the_host(flow, monkeypatch):
    assert isinstance(choose_solver(flow, platform="gpu"), Dense)
    monkeypatch.setattr(default_solver, "LARGEST_DENSE", 100)
    found = choose_solver(flow, platform="gpu")
    assert isinstance(found, Multigrid)
    assert not found.fallback


def test_inside_compiled_code_there_is_nothing_to_choose_by(flow, lu_is_slow):
    taken = []

    @eqx.filter_jit
    def compiled(problem):
        taken.append(choose_solver(problem))
        return problem.free

    compiled(flow)
    assert isinstance(taken[0], SparseLU)


@pytest.mark.slow
def test_a_solve_by_what_is_chosen_is_the_solve_by_lu(flow, lu_is_slow):
    by_lu = solve(flow, linear_solver=SparseLU())
    np.testing.assert_allclose(solve(flow), by_lu, atol=1e-10 * abs(by_lu).max(), rtol=0)

"""Multigrid finds the solutions that sparse LU finds, with all derivatives, in few iterations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.linalg as spla

from riesz.errors import SolveError
from riesz.fem.assembly import free_residual, jacobian, with_dirichlet
from riesz.fem.elements.space import P1, P2
from riesz.fem.levels import multigrid
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal, per_cell
from riesz.fem.terms.weakform import advection, diffusion, reaction, robin, source
from riesz.mesh.refine import Hierarchy, hierarchy
from riesz.mesh.shapes import box, interval, l_shape, rectangle

FIXED = {"boundary": 0.0}
GRID = hierarchy(rectangle((4, 4)), 3)
COEFFICIENTS = {"diffusivity": np.ones(()), "rate": np.asarray(2.0)}


def jumps(mesh):
    """One or 1e4, at random from cell to cell."""
    return per_cell(1e4 ** np.random.default_rng(0).integers(0, 2, mesh.num_cells).astype(float))


def transport(peclet, velocity):
    """SUPG at a cell Peclet number on the grid, whose cells have sides of 1/16."""
    strength = float(np.linalg.norm(velocity))
    form = diffusion(strength / (32 * peclet)) + advection(jnp.asarray(velocity), supg=True)
    return form - source(1.0)


def nested(levels, element, form, dirichlet):
    mesh = levels.meshes[-1]
    return boundary_value_problem(element(mesh), form(mesh), dirichlet), levels


def alone(mesh, form, dirichlet):
    return boundary_value_problem(P1(mesh), form(mesh), dirichlet), None


CASES = {
    "interval": lambda: nested(
        hierarchy(interval(40), 4), P1, lambda _: diffusion(1.0) - source(1.0), FIXED
    ),
    "robin and jumps": lambda: nested(
        GRID, P1, lambda mesh: diffusion(jumps(mesh)) + robin(2.0, 1.0) - source(1.0), None
    ),
    "quadratic": lambda: nested(
        hierarchy(rectangle((4, 4)), 2), P2, lambda _: diffusion(1.0) - source(1.0), FIXED
    ),
    "box": lambda: nested(
        hierarchy(box((4, 4, 4)), 2), P1, lambda mesh: diffusion(jumps(mesh)) - source(1.0), FIXED
    ),
    "no hierarchy": lambda: alone(l_shape(12), lambda _: diffusion(1.0) - source(1.0), FIXED),
    "reaction, no hierarchy": lambda: alone(
        rectangle((15, 17)), lambda mesh: diffusion(jumps(mesh)) + reaction(2.0) - source(1.0), None
    ),
    "transport at Peclet 10": lambda: nested(GRID, P1, lambda _: transport(10, [1.0, 0.5]), FIXED),
    "transport at Peclet 100": lambda: nested(
        GRID, P1, lambda _: transport(100, [-0.3, 1.0]), FIXED
    ),
}


def system(problem, z=None):
    start = with_dirichlet(problem, jnp.zeros(problem.num_free), z)
    return jacobian(problem, start, z), -free_residual(problem, start, z)


LIKE_OTHERS = (
    "interval",
    "no hierarchy",
    "reaction, no hierarchy",
    "transport at Peclet 10",
    "box",
    "quadratic",
)
"""Cases that take a compilation each and differ little from others."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LIKE_OTHERS)) for name in CASES],
)
def test_agrees_with_sparse_lu_within_forty_iterations(name):
    problem, levels = CASES[name]()
    matrix, side = system(problem)
    found = multigrid(problem, levels).outcome(matrix, side)
    exact = spla.spsolve(matrix.to_scipy().tocsc(), np.asarray(side))
    np.testing.assert_allclose(found.solution, exact, atol=1e-9 * abs(exact).max(), rtol=0)
    assert found.iterations <= 40
    assert found.relative_residual <= 1e-11


@pytest.fixture(scope="module")
def flow():
    """An equation with unknown coefficients that is symmetric, and its solver."""
    form = diffusion("diffusivity") + reaction("rate") - source(1.0)
    problem = boundary_value_problem(P1(GRID.meshes[-1]), form, {"left": 1.0})
    return problem, multigrid(problem, GRID)


@pytest.fixture(scope="module")
def latents(flow):
    rng = np.random.default_rng(1)
    point, direction = (jnp.asarray(rng.normal(size=289)) for _ in range(2))
    return point, direction


@pytest.fixture(scope="module")
def functional(flow):
    """A nonlinear functional of the solution, as a function of the log-diffusivity at the nodes."""
    problem, solver = flow

    @jax.jit
    def of(log_diffusivity, solver):
        z = {"diffusivity": nodal(jnp.exp(log_diffusivity)), "rate": jnp.asarray(2.0)}
        return jnp.sum(solve(problem, z, linear_solver=solver) ** 3)

    return lambda log_diffusivity: of(log_diffusivity, solver)


@pytest.mark.slow  # quickly: that of sparse LU
def test_gradient_passes_the_taylor_test_and_agrees_with_the_forward_derivative(
    functional, latents
):
    point, direction = latents
    both = jax.value_and_grad(functional)  # values by the same program
    value, gradient = both(point)
    slope = float(gradient @ direction)
    steps = 0.02 * 0.5 ** np.arange(3)
    left = [abs(both(point + h * direction)[0] - value - h * slope) for h in steps]
    rates = np.log2(np.array(left[:-1]) / np.array(left[1:]))
    assert abs(rates - 2).max() < 0.05, rates
    _, forward = jax.jvp(functional, (point,), (direction,))
    np.testing.assert_allclose(forward, slope, rtol=1e-8)


@pytest.mark.slow  # compiles everything for batches
def test_a_batch_is_solved_as_its_members_are(flow):
    problem, solver = flow
    matrix, side = system(problem, COEFFICIENTS)
    factors = jnp.asarray([1.0, 3.0, 0.2])
    sides = jnp.stack([side, 1 + side, 2 - side])

    def solved(factor, side):
        return solver(SparseMatrix(matrix.pattern, factor * matrix.values), side)

    together = jax.vmap(solved)(factors, sides)
    for factor, own, solution in zip(factors, sides, together, strict=True):
        exact = spla.spsolve(float(factor) * matrix.to_scipy().tocsc(), np.asarray(own))
        np.testing.assert_allclose(solution, exact, atol=1e-9 * abs(exact).max(), rtol=0)


@pytest.mark.slow
def test_a_cycle_in_single_precision_gives_the_same_result(flow):
    problem, solver = flow
    matrix, side = system(problem, COEFFICIENTS)
    single = dataclasses.replace(solver, single_precision=True).outcome(matrix, side)
    exact = spla.spsolve(matrix.to_scipy().tocsc(), np.asarray(side))
    np.testing.assert_allclose(single.solution, exact, atol=1e-10 * abs(exact).max(), rtol=0)


def test_what_does_not_converge_raises_as_a_singular_matrix_does(flow):
    problem, solver = flow
    with pytest.raises(SolveError, match="no unique solution"):
        solve(problem, COEFFICIENTS, linear_solver=dataclasses.replace(solver, max_steps=2))


def test_constants_in_the_null_space_are_noticed():
    problem = boundary_value_problem(P1(rectangle((8, 8))), diffusion(1.0) - source(0.0))
    matrix, _ = system(problem)
    balanced = np.zeros(problem.num_free)
    balanced[[3, 40]] = 1.0, -1.0
    assert jnp.isnan(multigrid(problem).outcome(matrix, jnp.asarray(balanced)).solution).all()


@pytest.mark.slow
def test_falls_back_to_sparse_lu_where_told_to(flow):
    problem, solver = flow
    matrix, side = system(problem, COEFFICIENTS)
    short = dataclasses.replace(solver, max_steps=2, fallback=True)
    exact = spla.spsolve(matrix.to_scipy().tocsc(), np.asarray(side))
    np.testing.assert_allclose(short(matrix, side), exact, rtol=1e-9)


def test_no_factors_are_made_where_the_iteration_converges(flow, monkeypatch):
    """Compilers move out of a loop what does not change in it: the way back must not be taken."""
    problem, solver = flow
    matrix, side = system(problem, COEFFICIENTS)
    calls = []

    def factorised(*parts, transposed):
        calls.append(transposed)
        return np.zeros_like(parts[-1])

    monkeypatch.setattr("riesz.fem.linear.linear_solve.lu_solve", factorised)
    careful = dataclasses.replace(solver, fallback=True)

    @jax.jit
    def solved(scales):
        scaled = lambda scale: SparseMatrix(matrix.pattern, scale * matrix.values)  # noqa: E731
        return jax.lax.map(lambda scale: careful(scaled(scale), side), scales)

    jax.block_until_ready(solved(jnp.array([1.0, 2.0])))
    assert not calls


def test_a_solver_for_another_pattern_is_refused(flow):
    _, solver = flow
    other = boundary_value_problem(P1(rectangle((3, 3))), diffusion(1.0), FIXED)
    matrix, side = system(other)
    with pytest.raises(SolveError, match="make one for this problem"):
        solver.outcome(matrix, side)


def test_a_hierarchy_of_another_mesh_is_refused(flow):
    problem, _ = flow
    with pytest.raises(SolveError, match=r"build the problem on hierarchy.meshes\[-1\]"):
        multigrid(problem, Hierarchy((rectangle((3, 3)),), ()))

"""Multigrid finds the solutions that sparse LU finds, with all derivatives, in few iterations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from riesz.errors import SolveError
from riesz.fem.assembly import free_residual, jacobian, with_dirichlet
from riesz.fem.default_solver import multigrid, prolongations_of, representative_matrix
from riesz.fem.elements.space import P1, P2
from riesz.fem.linear.multigrid.aggregation import smoothed_aggregation
from riesz.fem.linear.multigrid.krylov import conjugate_gradients
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal, per_cell
from riesz.fem.terms.weakform import advection, diffusion, reaction, robin, source
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesh.shapes import box, interval, l_shape, rectangle

FIXED = {"boundary": 0.0}
QUICK_DIRECTED = ("layers of cells 1:100", "anisotropy, plane")
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


def layers(mesh):
    """An aquitard between two aquifers."""
    top = mesh.nodes[:, -1].max()
    part = np.searchsorted([top / 3, 2 * top / 3], mesh.nodes[mesh.cells].mean(axis=1)[:, -1])
    return diffusion(per_cell(np.array([10.0, 1e-4, 5.0])[part])) - source(1.0)


def flat(*ratios):
    return diffusion(jnp.diag(jnp.asarray(ratios))) - source(1.0)


DIRECTED = {
    "layers of cells 1:100, plane": lambda: nested(
        hierarchy(rectangle((8, 6), upper=(1.0, 0.0075)), 3), P1, layers, {"left": 0.0}
    ),
    "layers of cells 1:100": lambda: nested(
        hierarchy(box((4, 4, 3), upper=(1.0, 1.0, 0.0075)), 3), P1, layers, {"left": 0.0}
    ),
    "layers, one mesh": lambda: alone(
        box((16, 16, 8), upper=(1.0, 1.0, 0.005)), layers, {"left": 0.0}
    ),
    "anisotropy, plane": lambda: nested(
        hierarchy(rectangle((8, 8)), 4), P1, lambda _: flat(1.0, 1e-3), {"left": 0.0}
    ),
    "anisotropy, sheets": lambda: nested(
        hierarchy(box((4, 4, 4)), 3), P1, lambda _: flat(1.0, 1.0, 1e-3), {"left": 0.0}
    ),
    "anisotropy, columns": lambda: nested(
        hierarchy(box((4, 4, 4)), 3), P1, lambda _: flat(1e-3, 1e-3, 1.0), {"left": 0.0}
    ),
}
"""Couplings in some directions are a thousand times those in others, or more."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK_DIRECTED))
        for name in DIRECTED
    ],
)
def test_couplings_in_one_direction_take_no_more_than_thirty_iterations(name):
    problem, levels = DIRECTED[name]()
    matrix, side = system(problem)
    found = multigrid(problem, levels).outcome(matrix, side)
    exact = spla.spsolve(matrix.to_scipy().tocsc(), np.asarray(side))
    np.testing.assert_allclose(found.solution, exact, atol=1e-6 * abs(exact).max(), rtol=0)
    assert found.iterations <= 30


def test_coarser_meshes_are_taken_where_couplings_go_in_all_directions_and_there_only():
    meshes = hierarchy(rectangle((8, 8)), 3)
    problem = boundary_value_problem(P1(meshes.meshes[-1]), diffusion("a") - source(1.0))
    for ratio, is_nested in ((1.0, True), (0.5, True), (1e-3, False)):
        own = prolongations_of(problem, meshes, {"a": jnp.diag(jnp.asarray([1.0, ratio]))})[0]
        assert (own.shape == meshes.prolongations[-1].shape) == is_nested


def test_unknown_coefficients_count_as_one_until_values_are_known():
    meshes = hierarchy(rectangle((8, 8)), 3)
    problem = boundary_value_problem(
        P1(meshes.meshes[-1]), diffusion("a") + reaction(lambda x, z: z["b"]) - source(1.0)
    )
    np.testing.assert_array_equal(
        representative_matrix(problem).toarray(),
        representative_matrix(problem, {"a": 1.0, "b": 1e9}).toarray(),
    )
    assert prolongations_of(problem, meshes)[0].shape == meshes.prolongations[-1].shape


@pytest.mark.parametrize(
    "space",
    [P1(GRID.meshes[-1]), P2(GRID.meshes[-1]), P1(GRID.meshes[-1], axisymmetric=True)],
    ids=["linear", "quadratic", "axisymmetric"],
)
def test_couplings_are_those_of_diffusion_alone_in_cells_and_along_facets(space):
    tensor = jnp.asarray([[2.0, 0.5], [0.5, 1.0]])
    form = diffusion(lambda x: (1 + x[0]) * tensor) + diffusion(0.3, on="top")
    linear = P1(space.mesh, axisymmetric=space.axisymmetric)
    wanted = boundary_value_problem(linear, form, {"left": 0.0})
    problem = boundary_value_problem(space, form + reaction("k") + robin(2.0, 1.0), {"left": 0.0})
    exact = jacobian(wanted, jnp.zeros(linear.num_dofs)).to_scipy().toarray()
    np.testing.assert_allclose(representative_matrix(problem).toarray(), exact, atol=1e-12)


def test_setting_up_compiles_few_programs():
    """Compilation was most of its time when it asked for a whole matrix: some twenty programs."""
    meshes, programs = hierarchy(box((3, 4, 5)), 2), []
    problem = boundary_value_problem(P1(meshes.meshes[-1]), diffusion("a") - source(1.0), FIXED)

    def listen(event, duration, **_):
        if "backend_compile" in event:
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    multigrid(problem, meshes)
    jax.monitoring.clear_event_listeners()
    assert len(programs) <= 4


@pytest.mark.parametrize("contrast", [1.0, 1e12])
def test_aggregates_of_a_chain_with_weak_links_are_finite_and_keep_constants(contrast):
    """Weak entries may leave nothing on the diagonal of an unknown between two others."""
    links = np.where(np.arange(59) % 4 < 2, 1.0, contrast)
    step = sp.diags_array([-np.ones(59), np.ones(59)], offsets=[0, 1], shape=(59, 60))
    matrix = sp.csr_array(step.T @ sp.diags_array(links) @ step)
    prolongation = smoothed_aggregation(matrix)
    assert np.isfinite(prolongation.data).all()
    np.testing.assert_allclose(prolongation.sum(axis=1), 1.0, rtol=1e-9)
    assert prolongation.shape[1] <= 30


def test_an_iteration_that_will_not_end_in_time_gives_up_early(flow):
    _, side = system(flow[0], COEFFICIENTS)
    eigenvalues = jnp.geomspace(1e-12, 1.0, len(side))
    ends = [
        conjugate_gradients(
            lambda x: eigenvalues * x, lambda r: r, side, 1e-11, 100, gives_up=gives_up
        )
        for gives_up in (True, False)
    ]
    assert int(ends[0].iterations) <= 30
    assert int(ends[1].iterations) == 100
    good = conjugate_gradients(
        lambda x: (1 + eigenvalues) * x, lambda r: r, side, 1e-11, 100, gives_up=True
    )
    assert good.relative_residual <= 1e-11


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

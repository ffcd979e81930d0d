"""The solution map and its derivatives, on one problem with every kind of latent."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import SolveError
from riesz.fem.assembly import free_residual, with_dirichlet
from riesz.fem.elements.space import P1
from riesz.fem.fluxes import budget
from riesz.fem.linear import host_lu
from riesz.fem.linear.linear_solve import ConjugateGradients, Dense, SparseLU
from riesz.fem.linear.sparse import SparseMatrix, cell_pairs, pattern_tables
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.weakform import advection, diffusion, integral, reaction, robin, source
from riesz.mesh.shapes import interval, rectangle

TAYLOR_STEPS = 0.02 * 0.5 ** np.arange(3)


def thickening(x, z, u, grad_u):
    return z["nonlinearity"] * u * u


@pytest.fixture(scope="module")
def problem():
    form = (
        diffusion("diffusivity")
        + diffusion(thickening)
        + advection("velocity")
        + reaction("rate")
        - source("strength")
        + robin("conductance", "level", on="right")
    )
    return boundary_value_problem(P1(rectangle((4, 4))), form, {"left": "head"})


@pytest.fixture(scope="module")
def parameters():
    """A generic point: everything present, moderately nonlinear."""
    rng = np.random.default_rng(0)
    values = {
        "log_diffusivity": 0.3 * rng.normal(size=25),
        "nonlinearity": 0.4,
        "velocity": np.array([0.8, -0.5]),
        "rate": 0.7,
        "strength": 2.0,
        "conductance": 1.5,
        "level": 0.6,
        "head": 1.2,
    }
    return {name: jnp.asarray(np.asarray(value)) for name, value in values.items()}


def latents(parameters):
    z = {k: v for k, v in parameters.items() if k != "log_diffusivity"}
    return {**z, "diffusivity": nodal(jnp.exp(parameters["log_diffusivity"]))}


@pytest.fixture(scope="module")
def objective(problem):
    weights = jnp.asarray(np.random.default_rng(1).normal(size=problem.space.num_dofs))

    def objective(parameters):
        u = solve(problem, latents(parameters))
        return weights @ u + jnp.sum(u * u)

    return objective


@pytest.fixture(scope="module")
def value_and_slope(objective):
    """(J, dJ along a direction) by forward mode."""
    return jax.jit(lambda at, along: jax.jvp(objective, (at,), (along,)))


@pytest.fixture(scope="module")
def gradient_and_curvature(objective):
    """(grad J, Hessian times a direction): forward over reverse."""
    return jax.jit(lambda at, along: jax.jvp(jax.grad(objective), (at,), (along,)))


def direction(parameters, *names):
    """A random tangent in the named parameters, zero in the others."""
    rng = np.random.default_rng(2)
    return {
        name: jnp.asarray(rng.normal(size=value.shape)) * float(name in names)
        for name, value in parameters.items()
    }


def moved(parameters, along, step):
    return jax.tree.map(lambda p, d: p + step * d, parameters, along)


def inner(a, b):
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return float(sum(jax.tree.leaves(products)))


LATENTS = (
    "log_diffusivity",
    "nonlinearity",
    "velocity",
    "rate",
    "strength",
    "conductance",
    "level",
    "head",
)


@pytest.mark.parametrize("name", LATENTS)
def test_gradient_passes_the_taylor_test(parameters, value_and_slope, gradient_and_curvature, name):
    along = direction(parameters, name)
    gradient, _ = gradient_and_curvature(parameters, along)
    start, slope = value_and_slope(parameters, along)
    assert float(slope) == pytest.approx(inner(gradient, along), rel=1e-8)  # forward = reverse
    remainders = [
        abs(float(value_and_slope(moved(parameters, along, h), along)[0] - start - h * slope))
        for h in TAYLOR_STEPS
    ]
    rates = np.diff(np.log(remainders)) / np.diff(np.log(TAYLOR_STEPS))
    assert rates[-1] == pytest.approx(2, abs=0.05), f"rates {rates} of remainders {remainders}"


def test_second_derivative_agrees_with_differences_of_gradients(parameters, gradient_and_curvature):
    along = direction(parameters, *LATENTS)
    _, curvature = gradient_and_curvature(parameters, along)
    step = 1e-4
    after, _ = gradient_and_curvature(moved(parameters, along, step), along)
    before, _ = gradient_and_curvature(moved(parameters, along, -step), along)
    for name in LATENTS:
        difference = (after[name] - before[name]) / (2 * step)
        scale = float(jnp.abs(curvature[name]).max())
        np.testing.assert_allclose(curvature[name], difference, atol=1e-6 * max(scale, 1))


def test_the_solution_leaves_no_residual_and_compiled_equals_eager(
    problem, parameters, objective, value_and_slope
):
    z = latents(parameters)
    u = solve(problem, z)
    start = with_dirichlet(problem, jnp.zeros(problem.num_free), z)
    left = jnp.linalg.norm(free_residual(problem, u, z))
    assert left <= 1e-9 * jnp.linalg.norm(free_residual(problem, start, z))
    np.testing.assert_array_equal(u[problem.fixed], parameters["head"])
    compiled, _ = value_and_slope(parameters, direction(parameters))
    assert float(objective(parameters)) == pytest.approx(float(compiled), rel=1e-12)


def test_the_solution_is_where_the_iteration_stays(problem, parameters):
    z = latents(parameters)
    u = solve(problem, z)
    np.testing.assert_allclose(solve(problem, z, initial=u), u, rtol=1e-9)


def test_another_python_number_is_no_new_program():
    plain = boundary_value_problem(
        P1(interval(4)), diffusion("a") - source("f"), {"left": 0.0, "right": 0.0}
    )
    before, programs = solve(plain, {"a": 0.5, "f": 1}), []

    def listen(event, duration, **_):
        if "backend_compile" in event:
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    after = solve(plain, {"a": 0.25, "f": 2})
    jax.monitoring.clear_event_listeners()
    assert programs == []
    np.testing.assert_allclose(after, 4 * np.asarray(before))


@pytest.mark.slow
def test_vmap_over_all_latents_equals_a_loop(problem, parameters):
    many = [moved(parameters, direction(parameters, *LATENTS), h) for h in (0.0, 0.1, 0.2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *many)
    found = jax.vmap(lambda p: solve(problem, latents(p)))(stacked)
    for u, one in zip(found, many, strict=True):
        np.testing.assert_allclose(u, solve(problem, latents(one)), rtol=1e-10)


@pytest.mark.slow
def test_vmap_over_sources_and_heads_takes_one_factorisation(problem, parameters, monkeypatch):
    linear = {**parameters, "nonlinearity": jnp.zeros(()), "rate": jnp.asarray(0.123)}
    calls = []
    factorise = host_lu.factorise
    monkeypatch.setattr(host_lu, "factorise", lambda *a: (calls.append(1), factorise(*a))[1])
    strengths, heads = jnp.linspace(1, 2, 5), jnp.linspace(-1, 1, 5)

    def with_load(strength, head):
        return solve(problem, latents({**linear, "strength": strength, "head": head}))

    found = jax.vmap(with_load)(strengths, heads)
    assert len(calls) == 1
    for u, strength, head in zip(found, strengths, heads, strict=True):
        np.testing.assert_allclose(u, with_load(strength, head), rtol=1e-10)


def test_linear_solvers_agree_on_a_symmetric_problem(problem, parameters):
    z = latents({**parameters, "velocity": jnp.zeros(2), "nonlinearity": jnp.zeros(())})
    expected = solve(problem, z, linear_solver=SparseLU())
    for linear_solver in (Dense(), ConjugateGradients()):
        found = solve(problem, z, linear_solver=linear_solver)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_conjugate_gradients_do_not_pass_silently_on_an_unsymmetric_problem(problem, parameters):
    z = latents({**parameters, "velocity": jnp.asarray([300.0, -500.0])})
    with pytest.raises(SolveError, match=r"Conjugate gradients also need"):
        solve(problem, z, linear_solver=ConjugateGradients())


@pytest.mark.parametrize("linear_solver", [SparseLU(), Dense(), ConjugateGradients()])
def test_adjoint_solves_use_the_transpose(linear_solver):
    """Where conjugate gradients do converge on an unsymmetric matrix, so do their adjoints."""
    dofs = np.stack([np.arange(7), np.arange(1, 8)])
    pattern = pattern_tables(cell_pairs(dofs, 8), dofs, np.arange(8), 8).on_device()
    rng = np.random.default_rng(3)
    values = 1e-3 * rng.normal(size=len(pattern.rows))
    values = jnp.asarray(values + 2.0 * np.asarray(pattern.rows == pattern.columns))
    matrix = SparseMatrix(pattern, values)
    side, weights = jnp.asarray(rng.normal(size=(2, 8)))
    _, pull_back = jax.vjp(lambda b: linear_solver(matrix, b), side)
    expected = np.linalg.solve(np.asarray(matrix.to_dense()).T, np.asarray(weights))
    np.testing.assert_allclose(pull_back(weights)[0], expected, rtol=1e-9)


@pytest.mark.slow
def test_rounding_on_a_fine_mesh_is_no_failure():
    """With 20000 cells the residual of the best solution is above the relative tolerance."""
    mesh = interval(20_000)
    problem = boundary_value_problem(P1(mesh), diffusion(1.0) - source(1.0), {"boundary": 0.0})
    exact = mesh.nodes[:, 0] * (1 - mesh.nodes[:, 0]) / 2
    np.testing.assert_allclose(solve(problem), exact, atol=1e-8)


STRESS = """
    import os

    if hasattr(os, "sched_setaffinity"):  # one core is the hardest case: one worker thread
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    from riesz.fem.terms.coefficient import nodal
    from riesz.fem.problem import boundary_value_problem
    from riesz.fem.solve import solve
    from riesz.fem.elements.space import P1
    from riesz.fem.terms.weakform import diffusion, source
    from riesz.mesh.shapes import rectangle

    space = P1(rectangle((128, 128)))
    form = diffusion("a") - source("f")
    problem = boundary_value_problem(space, form, {"boundary": 0.0})

    def objective(a, f):
        return jnp.sum(solve(problem, {"a": a, "f": nodal(f)}) ** 2)

    gradient = jax.jit(jax.vmap(jax.grad(objective, argnums=1), in_axes=(0, None)))
    load, pending = jnp.ones(space.num_dofs), []
    for k in range(4):  # not awaited: several are in flight, each fed by the one before
        pending.append(gradient(jnp.linspace(1, 2, 2) + k, load))
        load = load + pending[-1][0]
    jax.block_until_ready(pending)
    print("finished")
"""


@pytest.mark.slow
def test_compiled_solves_with_large_arrays_never_hang():
    """Mapped gradients of 129 x 129 nodes, in flight together; a deadlock is cut off and told."""
    limit = 120
    try:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(STRESS)],
            capture_output=True,
            text=True,
            timeout=limit,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"compiled solves did not finish in {limit} s: a callback waits for itself")
    assert done.stdout.split() == ["finished"], done.stderr


def test_an_ill_conditioned_equation_is_refined_to_its_solution():
    """Nearly nothing holds u, which is 3 everywhere."""
    form = diffusion(1.0) + robin(1e-10, 3.0)
    problem = boundary_value_problem(P1(rectangle((4, 4))), form)
    np.testing.assert_allclose(solve(problem), 3.0, rtol=1e-8)


@pytest.mark.slow  # quickly, the gradient by a velocity
def test_the_gradient_of_stabilised_transport_is_right_where_nothing_flows():
    form = diffusion(0.1) + advection("tau", supg=True) - source(1.0)
    problem = boundary_value_problem(P1(rectangle((4, 4))), form, {"left": 0.0})

    @jax.jit
    def total(tau):
        return jnp.sum(solve(problem, {"tau": tau}))

    gradient = jax.jit(jax.grad(total))(jnp.zeros(2))
    steps = 1e-5 * jnp.eye(2)
    differences = [(total(step) - total(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_budget_can_be_compiled_and_keeps_terms_called_diffusion():
    def diffusion_and_decay(u, v):
        return u.grad @ v.grad + u.value * v.value

    diffusion_and_decay.__name__ = "diffusion"
    form = integral(diffusion_and_decay) - source("f")
    problem = boundary_value_problem(P1(rectangle((4, 4))), form, {"left": 0.0})

    @jax.jit
    def imbalance(f):
        z = {"f": f}
        return budget(problem, solve(problem, z), z).imbalance

    assert abs(imbalance(1.0)) < 1e-12


@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd, jax.hessian])
@pytest.mark.parametrize(
    "diffusivity", [lambda x, z: 2.0 + x[0], lambda x, z: jnp.where(x[0] < z["c"], 1.0, 3.0)]
)
def test_the_derivative_by_what_only_comparisons_read_is_zero(diffusivity, derivative):
    form = diffusion(diffusivity) - source(1.0)
    own = boundary_value_problem(P1(rectangle((3, 3))), form, {"boundary": 0.0})
    assert float(derivative(lambda c: solve(own, {"c": c}).sum())(0.5)) == 0.0

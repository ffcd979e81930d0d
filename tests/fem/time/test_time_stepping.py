"""Solutions in time against manufactured ones, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.errors import SolveError
from riesz.fem.default_solver import choose_solver, default_multigrid
from riesz.fem.time import time_stepping as marching
from riesz.fem.time.fixed import has_changing_matrix
from riesz.fem.time.time_stepping import integrate_in_time, loop_lengths

NUM_CELLS = 6


def solution(x, t):
    """Linear in space, so that a mesh of any size is exact, and curved in time."""
    return (1 + 2 * x[0]) * jnp.exp(-t) + jnp.sin(2 * t)


def decaying(times, scheme, *, nonlinear):
    """s du/dt - (k u')' = f with values of the solution at both ends."""
    capacity = (lambda x, z, u, grad_u: 1 + 0.5 * u**2) if nonlinear else 1.5
    diffusivity = (lambda x, z, u, grad_u: 1 + u**2) if nonlinear else 0.7

    def strength(x, z):
        t, slope = z["t"], 2 * jnp.exp(-z["t"])
        u, change = solution(x, t), jax.grad(solution, 1)(x, t)
        if nonlinear:
            return (1 + 0.5 * u**2) * change - 2 * u * slope**2
        return 1.5 * change

    return rz.transient_problem(
        rz.P1(rz.interval(NUM_CELLS)),
        rz.storage(capacity) + rz.diffusion(diffusivity) - rz.source(strength),
        {"boundary": lambda x, z: solution(x, z["t"])},
        times=times,
        initial=lambda x: solution(x, 0.0),
        scheme=scheme,
    )


def test_what_is_recorded_is_read_off_the_states():
    problem = decaying(np.linspace(0.0, 1.0, 5), "sdirk2", nonlinear=False)

    def record(state, z):
        return {"ends": state[jnp.array([0, -1])], "time": z["t"]}

    recorded, states = rz.solve(problem, record=record), rz.solve(problem)
    np.testing.assert_allclose(recorded["ends"], states[:, [0, -1]])
    np.testing.assert_allclose(recorded["time"], problem.axis.times)
    mesh = rz.interval(4)
    steady = rz.boundary_value_problem(
        rz.P1(mesh), rz.diffusion("a") - rz.source(1.0), {"boundary": 0.0}
    )
    scaled = rz.solve(steady, {"a": 2.0}, record=lambda state, z: z["a"] * state[2])
    assert float(scaled) == pytest.approx(0.125)


def test_a_problem_in_time_has_its_own_initial_state():
    problem = decaying([0.0, 1.0], "euler", nonlinear=False)
    with pytest.raises(SolveError, match="which has its own"):
        rz.solve(problem, initial=0.0)


def last_error(num_steps, scheme, *, nonlinear):
    """With every other step half as long again as the one before."""
    steps = np.where(np.arange(num_steps) % 2, 1.5, 1.0)
    times = np.concatenate([[0.0], np.cumsum(steps)]) * 2 / steps.sum()
    states = rz.solve(decaying(times, scheme, nonlinear=nonlinear))
    nodes = jnp.linspace(0, 1, NUM_CELLS + 1)[:, None]
    exact = jax.vmap(lambda x: solution(x, times[-1]))(nodes)
    return float(jnp.max(jnp.abs(states[-1] - exact)))


@pytest.mark.parametrize(
    ("scheme", "order"), [pytest.param("euler", 1, marks=pytest.mark.slow), ("sdirk2", 2)]
)
def test_errors_fall_by_the_order_of_the_scheme_with_steps_of_changing_length(scheme, order):
    coarse, fine = (last_error(count, scheme, nonlinear=False) for count in (40, 80))
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "order"), [("euler", 1), ("sdirk2", 2)])
def test_so_they_do_where_storage_and_diffusivity_hang_on_the_state(scheme, order):
    coarse, fine = (last_error(count, scheme, nonlinear=True) for count in (80, 160))
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.15)


@pytest.mark.slow
def test_errors_in_space_fall_by_four_where_cells_are_halved():
    def error(count):
        mesh = rz.rectangle((count, count))

        def wave(x, t):
            return jnp.exp(-t) * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

        def strength(x, z):
            return (2 * jnp.pi**2 - 1) * wave(x, z["t"])

        problem = rz.transient_problem(
            rz.P1(mesh),
            rz.storage(1.0) + rz.diffusion(1.0) - rz.source(strength),
            {"boundary": 0.0},
            times=np.linspace(0, 0.2, 81),
            initial=lambda x: wave(x, 0.0),
        )
        exact = jax.vmap(lambda x: wave(x, 0.2))(jnp.asarray(mesh.nodes))
        return float(jnp.max(jnp.abs(rz.solve(problem)[-1] - exact)))

    assert np.log2(error(8) / error(16)) == pytest.approx(2, abs=0.2)


def heated(times=None, **latents):
    """Numbers that an equation in time reads, on few cells."""
    wells = rz.point_source([[0.4]], rz.series([0.0, 0.5], [[1.0], [3.0]], factor="q"))
    return rz.transient_problem(
        rz.P1(rz.interval(NUM_CELLS)),
        rz.storage("s") + rz.diffusion("k") - rz.source("f") - wells,
        {"left": 0.0},
        times=np.linspace(0, 1, 13) if times is None else times,
        initial="start",
    )


HERE = {"s": 1.2, "k": 0.4, "f": 0.7, "q": 0.5, "start": 0.3}


def seen(problem, z):
    """A number that all steps have a part in."""
    solver = choose_solver(problem.step)
    found = integrate_in_time(problem, z, solver, lambda state, z: state[-2:])
    return jnp.sum(found.recorded**2)


@pytest.fixture(scope="module")
def derivatives():
    """Of `seen` at one place: value, gradient, and the product with a direction, compiled once."""
    problem, here = heated(), {name: jnp.asarray(value) for name, value in HERE.items()}
    value = jax.jit(lambda z: seen(problem, z))
    return value, here, jax.jit(jax.grad(value))(here)


@pytest.mark.parametrize("name", HERE)
def test_gradients_leave_remainders_of_second_order(derivatives, name):
    value, here, gradient = derivatives
    slope = float(gradient[name])

    def remainder(length):
        moved = here | {name: here[name] + length}
        return abs(float(value(moved)) - float(value(here)) - length * slope)

    first, second = remainder(0.002), remainder(0.001)
    linear_in = first < 1e-10 * abs(float(value(here)))
    assert linear_in or np.log2(first / second) == pytest.approx(2, abs=0.05)


def test_forward_derivatives_are_those_of_reverse(derivatives):
    value, here, gradient = derivatives
    direction = {name: jnp.asarray(float(i + 1)) for i, name in enumerate(here)}
    forward = jax.jvp(value, (here,), (direction,))[1]
    backward = sum(gradient[name] * direction[name] for name in here)
    assert float(forward) == pytest.approx(float(backward), rel=1e-11)


@pytest.mark.slow
def test_loops_within_loops_give_the_same_numbers(derivatives, monkeypatch):
    _, here, gradient = derivatives
    monkeypatch.setattr(marching, "KEPT_NUMBERS", 1)
    assert loop_lengths(12, NUM_CELLS + 1) == (2, 3, 3)
    # Another axis object, so that the program is made anew.
    found = jax.grad(lambda z: seen(heated(), z))(here)
    for name in here:
        assert float(found[name]) == pytest.approx(float(gradient[name]), rel=1e-11)


@pytest.mark.slow
def test_a_gradient_over_a_thousand_steps_keeps_at_most_eighty_states_more_than_over_27(
    monkeypatch,
):
    monkeypatch.setattr(marching, "KEPT_NUMBERS", 1)
    monkeypatch.setattr(marching, "fits_all_at_once", lambda *_: False)
    mesh = rz.rectangle((40, 40))
    here = {"s": jnp.asarray(1.0), "k": jnp.asarray(0.2)}

    def bytes_of(num_steps):
        problem = rz.transient_problem(
            rz.P1(mesh),
            rz.storage("s") + rz.diffusion("k") - rz.source(1.0),
            {"boundary": 0.0},
            times=np.linspace(0, 1, num_steps + 1),
            initial=0.0,
        )
        compiled = jax.jit(jax.grad(lambda z: seen(problem, z))).lower(here).compile()
        analysis = compiled.memory_analysis()
        assert analysis is not None
        return analysis.temp_size_in_bytes

    more = (bytes_of(1000) - bytes_of(27)) / (8 * mesh.num_nodes)
    assert 0 < more <= 80


def test_a_march_begins_with_the_steady_state_of_its_first_stresses():
    rates = rz.series([0.0, 1.0], [2.0, 5.0])
    problem = rz.transient_problem(
        rz.P1(rz.interval(NUM_CELLS)),
        rz.storage(1.0) + rz.diffusion(1.0) - rz.source(rates),
        {"boundary": 0.0},
        times=[0.0, 0.5, 1.0, 1.5],
    )
    states = rz.solve(problem)
    x = problem.space.mesh.nodes[:, 0]
    steady = x * (1 - x)  # of -u'' = 2
    np.testing.assert_allclose(states[0], steady, atol=1e-12)
    # A value is held up to the next row's time, and the step that ends there sees it still.
    np.testing.assert_allclose(states[2], steady, atol=1e-12)
    assert float(states[3].max()) > 1.01 * steady.max()


@pytest.mark.parametrize("scheme", ["euler", "sdirk2"])
def test_a_budget_over_a_run_closes(scheme):
    problem = rz.transient_problem(
        rz.P1(rz.interval(NUM_CELLS)),
        rz.storage(1.5) + rz.diffusion(0.3) + rz.robin(2.0, 0.5, on="left") - rz.source(1.0),
        {"right": 0.0},
        times=np.cumsum([0.0, 0.1, 0.2, 0.15, 0.3]),
        initial=lambda x: 1 + x[0],
        scheme=scheme,
    )
    states = rz.solve(problem)
    found = rz.fem.budget(problem, states)
    assert abs(float(found.imbalance)) < 1e-10
    assert float(found.gains["source"]) == pytest.approx(0.75, rel=1e-12)  # one a unit of time
    weights = np.full(NUM_CELLS + 1, 1 / NUM_CELLS)
    weights[[0, -1]] /= 2
    filled = 1.5 * float((states[-1] - states[0]) @ weights)
    assert float(found.gains["storage"]) == pytest.approx(-filled, rel=1e-10)


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        (rz.diffusion(1.0) - rz.source(lambda x, z: z["t"]), False),
        (rz.diffusion(lambda x, z: 1 + z["a"] * x[0]), False),
        (rz.diffusion(lambda x, z: 1 + z["t"]), True),
        (rz.diffusion(1.0) + rz.reaction(rz.series([0.0], [1.0])), True),
        (rz.diffusion(1.0) - rz.source(rz.series([0.0], [1.0])), False),
    ],
)
def test_a_matrix_changes_in_time_where_what_it_is_made_of_does(form, changes):
    whole = rz.storage(1.0) + form
    step = rz.boundary_value_problem(rz.P1(rz.interval(4)), whole, {"boundary": 0.0})
    z = {"t": jnp.asarray(0.0), "a": jnp.asarray(1.0)}
    assert has_changing_matrix(step, z) is changes


def test_steps_of_one_kind_have_equal_lengths():
    assert rz.fem.time_axis([0.0, 0.1, 0.2, 0.3, 0.5, 0.7]).kinds == (0, 0, 0, 1, 1)
    growing = rz.fem.time_axis(np.append(0.0, 1e-9 * 1.5 ** np.arange(80)))
    assert len(set(growing.kinds)) == growing.num_steps


def test_steps_of_one_kind_have_the_same_weights_to_the_last_digit():
    axis = rz.fem.time_axis(np.arange(0.0, 1.05, 0.1))
    assert len(np.unique(axis.steps)) > 1
    weights = marching.weights_of(axis, "sdirk2", jnp.float64)
    assert len(np.unique(np.asarray(weights.now))) == 1


def with_flow(speed: float):
    """Transport with stored capacity of its own, an inflow that changes and a well."""
    inflow = rz.series([0.0, 0.3], [1.0, 2.0])
    return rz.transient_problem(
        rz.P1(rz.interval(8)),
        rz.storage("s")
        + rz.diffusion("k")
        + rz.advection((speed,), supg=True)
        - rz.point_source([[0.4]], rz.series([0.0, 0.5], [1.0, 0.0])),
        {"left": inflow},
        times=[0.0, 0.1, 0.2, 0.3, 0.5, 0.7],
        initial=lambda x: x[0],
    )


@pytest.mark.slow
def test_matrices_assembled_once_give_what_those_of_each_step_do(monkeypatch):
    problem, here = with_flow(5.0), {"s": jnp.asarray(0.7), "k": jnp.asarray(0.02)}

    def states(z):
        return integrate_in_time(problem, z, rz.solvers.SparseLU(), lambda state, z: state).recorded

    def found():
        return states(here), jax.grad(lambda z: jnp.sum(states(z) ** 3))(here)

    once, slopes = found()
    monkeypatch.setattr(marching, "assemble_constant_matrices", lambda *_: None)
    jax.clear_caches()
    anew, same = found()
    assert np.asarray(once) == pytest.approx(np.asarray(anew), abs=1e-12)
    for name in here:
        assert float(slopes[name]) == pytest.approx(float(same[name]), rel=1e-9)


@pytest.mark.slow
def test_matrices_that_are_kept_for_multigrid_give_the_same_numbers():
    problem = rz.transient_problem(
        rz.P1(rz.rectangle((16, 16))),
        rz.storage("s") + rz.diffusion("k") - rz.source(1.0),
        {"boundary": 0.0},
        times=np.linspace(0, 1, 7),
        initial=0.0,
    )
    here = {"s": jnp.asarray(1.0), "k": jnp.asarray(0.2)}
    iterated = default_multigrid(problem.step, fallback=False)

    def sums(solver):
        def value(z):
            found = integrate_in_time(problem, z, solver, lambda state, z: state[:40])
            return jnp.sum(found.recorded**2)

        return jax.value_and_grad(value)(here)

    (value, slope), (own, slopes) = sums(rz.solvers.SparseLU()), sums(iterated)
    assert float(own) == pytest.approx(float(value), rel=1e-8)
    for name in here:
        assert float(slopes[name]) == pytest.approx(float(slope[name]), rel=1e-7)


def rained_upon():
    """A source that changes beside terms that do not, a level outside and a steady beginning."""
    return rz.transient_problem(
        rz.P1(rz.interval(8)),
        rz.storage("s")
        + rz.diffusion("k")
        + rz.fem.leakage(0.3, 1.0, 1.5)
        - rz.source(rz.series([0.0, 0.3, 0.4], [1.0, 2.0, 0.5], factor="s"))
        - rz.point_source([[0.4]], rz.series([0.0, 0.5], [1.0, 0.0])),
        {"left": 0.4},
        times=[0.0, 0.1, 0.2, 0.3, 0.5, 0.7],
    )


@pytest.mark.parametrize("problem", [with_flow(5.0), rained_upon()], ids=["flow", "rain"])
def test_all_steps_together_give_what_one_after_the_other_does(problem, monkeypatch):
    here = {"s": jnp.asarray(0.7), "k": jnp.asarray(0.02)}

    def states(z):
        return integrate_in_time(problem, z, rz.solvers.SparseLU(), lambda state, z: state).recorded

    def found():
        slopes = jax.grad(lambda z: jnp.sum(states(z) ** 3))(here)
        several = {"s": jnp.array([0.7, 0.9]), "k": here["k"]}
        mapped = jax.vmap(states, in_axes=({"s": 0, "k": None},))(several)
        return states(here), mapped, slopes["s"], slopes["k"]

    together = found()
    monkeypatch.setattr(marching, "fits_all_at_once", lambda *_: False)
    jax.clear_caches()
    for whole, by_steps in zip(together, found(), strict=True):
        np.testing.assert_allclose(whole, by_steps, rtol=1e-9, atol=1e-12)
    monkeypatch.undo()
    monkeypatch.setattr(marching, "assemble_constant_matrices", lambda *_: None)
    jax.clear_caches()
    np.testing.assert_allclose(together[0], states(here), rtol=1e-9, atol=1e-12)

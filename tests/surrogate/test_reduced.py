"""The equation in the span of exact states: right in the span, with as few terms as there are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.fem.assembly import jacobian
from riesz.surrogate.reduced import at_rim, pod_basis, reduced_equation

NUM_STATES = 12


@pytest.fixture(scope="module")
def forward():
    """Every kind of term that an unknown may enter: cells, facets, wells, prescribed values."""
    mesh = rz.rectangle((6, 6))
    half = np.array([[0, 0], [0.5, 0], [0.5, 1], [0, 1], [0, 0]])
    mesh = rz.mesh.tag_region(mesh, "west", half)
    coefficient = rz.by_region(mesh, {"west": "a"}, rest=1.0)
    equation = (
        rz.diffusion(coefficient)
        + rz.advection("tau")
        + rz.robin(1.0, "level", on="top")
        - rz.source(lambda x, z: z["f"] * x[0])
        - rz.point_source([[0.3, 0.6]], "rate")
    )
    return rz.boundary_value_problem(rz.P1(mesh), equation, {"left": "rim"})


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    return {
        "a": jnp.asarray(rng.lognormal(size=NUM_STATES)),
        "tau": jnp.asarray(rng.normal(size=(NUM_STATES, 2))),
        "level": jnp.asarray(rng.normal(size=NUM_STATES)),
        "f": jnp.asarray(rng.normal(size=NUM_STATES)),
        "rate": jnp.asarray(rng.normal(size=(NUM_STATES, 1))),
        "rim": jnp.asarray(rng.normal(size=NUM_STATES)),
    }


def one_of(values, number):
    return jax.tree.map(lambda leaf: leaf[number], values)


@pytest.fixture(scope="module")
def states(forward, values):
    each = [rz.solve(forward, one_of(values, i)) for i in range(NUM_STATES)]
    return np.stack(each)[:, np.asarray(forward.free)]


@pytest.fixture(scope="module")
def energy(forward, values):
    z = one_of(values, 0)
    matrix = jacobian(forward, at_rim(forward, z), z).to_scipy()
    return (matrix + matrix.T) / 2


def test_modes_of_all_states_make_each_of_them(states, energy):
    basis = pod_basis(states, energy, NUM_STATES, 0.0)
    np.testing.assert_allclose(basis.modes.T @ (energy @ basis.modes), np.eye(11), atol=1e-6)
    offsets = states - basis.mean
    again = (offsets @ (energy @ basis.modes)) @ basis.modes.T
    np.testing.assert_allclose(again, offsets, atol=1e-9)


def test_fewer_modes_leave_no_more_than_the_share_that_may_be_neglected(states, energy):
    basis = pod_basis(states, energy, NUM_STATES, 0.1)
    offsets = states - basis.mean
    left = offsets - (offsets @ (energy @ basis.modes)) @ basis.modes.T
    assert 0 < basis.modes.shape[1] < NUM_STATES - 1
    squares = [np.sum(one * (energy @ one.T).T) for one in (left, states)]
    assert squares[0] <= 0.1**2 * squares[1]
    assert pod_basis(states, energy, 2, 0.1).modes.shape[1] == 2


@pytest.fixture(scope="module")
def reduced(forward, values, states, energy):
    basis = pod_basis(states, energy, NUM_STATES, 0.0)
    return reduced_equation(forward, values, basis, 0.0), basis


@pytest.mark.slow
def test_it_finds_the_states_that_span_it(forward, values, states, reduced):
    equation, basis = reduced
    found = jax.jit(lambda z: jax.lax.map(lambda one: equation.solve(forward, one), z))(values)
    np.testing.assert_allclose(basis.mean + np.asarray(found) @ basis.modes.T, states, atol=1e-6)


def test_it_has_a_term_for_each_way_in_which_the_equation_can_change(reduced):
    equation, _ = reduced
    # Of matrices the west, the rest with what holds at the top, and two winds; of loads the level,
    # the source, and the prescribed value times those three matrices that touch it.
    assert len(equation.matrices) == 4
    assert len(equation.loads) == 5


def test_its_gradients_are_those_of_differences(forward, values, reduced):
    equation, _ = reduced
    z = one_of(values, 3)

    @jax.jit
    @jax.value_and_grad
    def height(a):
        return jnp.sum(equation.solve(forward, {**z, "a": a}) ** 2)

    step = 1e-5
    rise = (height(z["a"] + step)[0] - height(z["a"] - step)[0]) / (2 * step)
    np.testing.assert_allclose(height(z["a"])[1], rise, rtol=1e-6)

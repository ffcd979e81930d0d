"""Surrogates: boundary values by construction, recovered gradients, affine coordinates."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.errors import RieszError
from riesz.penalty.rows import Place, value_at
from riesz.priors.latent import latent_space
from riesz.surrogate.networks import trunk_branch, with_more_features
from riesz.surrogate.surrogate import (
    COORDINATES,
    SteadySurrogate,
    boundary_values,
    frame_of,
    nodal_functions,
    nodal_states,
    recover_gradients,
)


@pytest.mark.parametrize("mesh", [rz.interval(9), rz.mesh.disc(6), rz.mesh.box((3, 3, 3))])
def test_gradients_of_quadratics_are_recovered_exactly(mesh):
    x = mesh.nodes
    values = np.stack([x[:, 0] ** 2 + x.sum(axis=1), x[:, 0] * x[:, -1]], axis=1)
    expected = np.zeros((len(x), mesh.dim, 2))
    expected[:, 0, 0] = 2 * x[:, 0]
    expected[:, :, 0] += 1
    expected[:, 0, 1] += x[:, -1]
    expected[:, -1, 1] += x[:, 0]
    np.testing.assert_allclose(recover_gradients(mesh, values), expected, atol=1e-5)


def test_recovered_gradients_are_second_order_accurate_up_to_the_boundary():
    errors = []
    for cells in (16, 32):
        mesh = rz.rectangle((cells, cells))
        x, y = mesh.nodes.T
        found = recover_gradients(mesh, (np.sin(2 * x) * np.exp(y))[:, None])[:, 0, 0]
        errors.append(np.abs(found - 2 * np.cos(2 * x) * np.exp(y)).max())
    assert errors[1] < errors[0] / 3.5, errors


@pytest.mark.slow
def test_a_nodal_function_has_the_recovered_gradient_as_derivative():
    mesh = rz.rectangle((4, 4))
    functions = nodal_functions(mesh, mesh.nodes[:, :1] ** 2, np.dtype(float))
    corners = jnp.asarray(mesh.cells[5])
    weights = jnp.asarray([0.2, 0.3, 0.5])
    x = weights @ jnp.asarray(mesh.nodes)[corners]
    slope = jax.grad(lambda p: functions.at(Place(p, corners, weights))[0])(x)
    np.testing.assert_allclose(slope, [2 * x[0], 0.0], atol=1e-6)


PRIORS = {"level": dist.Normal(2.0, 0.5), "a": dist.LogNormal(0.0, 1.0)}


def mixed_problem(mesh):
    """Prescribed on the left by an unknown and on the right by a function; free elsewhere."""
    latents = latent_space(PRIORS, mesh)
    problem = rz.boundary_value_problem(
        rz.P1(mesh),
        rz.diffusion("a") - rz.source(1.0),
        {"left": "level", "right": lambda x: 1 + x[1]},
    )
    return problem, latents


def surrogate_on(problem, latents, network):
    boundary = boundary_values(problem, latents)
    return SteadySurrogate(network, boundary, frame_of(problem.space.mesh, 3.0, problem.dtype))


def test_boundary_values_hold_exactly_and_only_where_they_are_prescribed():
    problem, latents = mixed_problem(rz.rectangle((6, 6)))
    network = trunk_branch(2, 2, jr.key(0), dtype=problem.dtype)
    surrogate = surrogate_on(problem, latents, network)
    coordinates = jnp.asarray([[0.4, -1.0], [-2.0, 0.3]])
    nodes = problem.cells.domain.nodes.T
    states = eqx.filter_jit(nodal_states)(surrogate, nodes, coordinates)
    left, right = nodes[:, 0] == 0, nodes[:, 0] == 1
    np.testing.assert_allclose(states[:, left], 2 + 0.5 * coordinates[:, :1] * jnp.ones((1, 7)))
    np.testing.assert_allclose(states[:, right], jnp.broadcast_to(1 + nodes[right, 1], (2, 7)))
    free = ~(left | right)
    factor = surrogate.boundary.functions.values[:, 0]
    assert factor[free].min() > 0
    assert factor.max() == 1


def test_values_that_depend_on_unknowns_in_curves_are_refused():
    mesh = rz.rectangle((3, 3))
    problem = rz.boundary_value_problem(rz.P1(mesh), rz.diffusion(1.0), {"left": "level"})
    latents = latent_space({"level": dist.LogNormal(0.0, 1.0)}, mesh)
    with pytest.raises(RieszError, match="not affinely"):
        boundary_values(problem, latents)


def test_a_factorised_network_is_affine_where_it_must_be():
    network = trunk_branch(2, 3, jr.key(1), linear=np.array([0, 2]), dtype=np.dtype(float))
    x, start = jnp.asarray([0.3, -0.2]), jnp.asarray([0.1, 0.5, -0.4])
    step = jnp.asarray([1.0, 0.0, -2.0])
    values = [network(x, start + t * step) for t in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(values[2] - values[1], values[1] - values[0], rtol=1e-12)
    assert abs(network(x, start.at[1].add(1.0)) - values[0]) > 1e-3


@pytest.mark.slow
def test_a_placed_state_can_be_asked_anywhere():
    problem, latents = mixed_problem(rz.rectangle((4, 4)))
    surrogate = surrogate_on(problem, latents, trunk_branch(2, 2, jr.key(0), dtype=problem.dtype))
    z = {COORDINATES: jnp.zeros(2)}
    corner = jnp.asarray(problem.space.mesh.cells[0])
    x = jnp.asarray(problem.space.mesh.nodes)[corner[1]]
    here = value_at(surrogate, Place(x, corner, jnp.asarray([0.0, 1.0, 0.0])), z)
    nodal = nodal_states(surrogate, problem.cells.domain.nodes.T, jnp.zeros((1, 2)))[0]
    np.testing.assert_allclose(here, nodal[corner[1]])


@pytest.mark.slow
def test_more_functions_of_place_change_nothing_until_they_are_used():
    network = trunk_branch(2, 3, jr.key(0), width=6, features=5, dtype=np.dtype(float))
    grown = with_more_features(network, 12, jr.key(1))
    x, coordinates = jnp.asarray([0.3, -0.2]), jnp.asarray([0.5, 1.0, -2.0])
    assert grown.readout.shape == (7, 12)
    np.testing.assert_allclose(grown(x, coordinates), network(x, coordinates), rtol=1e-12)
    assert jnp.all(grown.features(x)[5:] != 0)

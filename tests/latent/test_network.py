"""Network fields: smooth, of order one, and evaluated where asked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.fem.assembly import residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import Function
from riesz.fem.terms.weakform import diffusion
from riesz.latent.network import NetworkField
from riesz.mesh.shapes import rectangle

MESH = rectangle((5, 5), (100.0, 0.0), (300.0, 100.0))


def test_the_number_of_weights_is_that_of_the_layers():
    latent = NetworkField(width=8, depth=2).on(MESH)
    assert latent.num_coordinates == (2 * 8 + 8) + (8 * 8 + 8) + 8


def test_the_output_is_that_of_the_layers_written_out(normals):
    latent = NetworkField(width=3, depth=1, sd=2.0, mean=1.0).on(MESH)
    weights = normals(0, latent.num_coordinates)
    matrix, bias, last = weights[:6].reshape(3, 2), weights[6:9], weights[9:]
    x = jnp.array([250.0, 25.0])
    inputs = jnp.array([0.5, -0.25])  # relative to the middle, in units of half the longest side
    expected = 1 + 2 * last @ jnp.tanh(matrix @ inputs / np.sqrt(2) + bias) / np.sqrt(3)
    np.testing.assert_allclose(latent.field.at_place(x, weights), expected)


def test_values_are_of_the_order_of_sd(normals):
    latent = NetworkField(width=32, sd=3.0).on(MESH)
    draws = normals(1, 200, latent.num_coordinates)
    values = jax.vmap(latent.field.nodal)(draws)
    assert abs(float(values.mean())) < 0.3
    assert 1.0 < float(values.std()) < 3.0


def test_the_field_in_an_equation_is_the_function_of_the_place(normals):
    latent = NetworkField(width=4, transform=jnp.exp).on(MESH)
    weights = normals(0, latent.num_coordinates)
    by_hand = Function(lambda x: latent.field.at_place(x, weights), 1)
    state = normals(1, MESH.num_nodes)
    form = diffusion(latent.coefficient("a")) - diffusion(by_hand)
    difference = residual(boundary_value_problem(P1(MESH), form), state, {"a": weights})
    np.testing.assert_allclose(difference, 0.0, atol=1e-13)


def test_nodal_values_are_those_of_the_function(normals):
    latent = NetworkField(width=4, mean=lambda x: x[0] / 100).on(MESH)
    weights = normals(0, latent.num_coordinates)
    at_nodes = jax.vmap(latent.field.at_place, in_axes=(0, None))(jnp.asarray(MESH.nodes), weights)
    np.testing.assert_allclose(latent.field.nodal(weights), at_nodes)


def test_the_description_is_in_physical_units():
    text = NetworkField(transform=jnp.exp, mean=float(np.log(5.0))).on(MESH).describe()
    assert "2 layers of 16 tanh units" in text
    assert "median 5" in text


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NetworkField(width=0), "2 layers of 0 units"),
        (lambda: NetworkField(depth=0), "0 layers"),
        (lambda: NetworkField(sd=-1.0), "sd of a network field is -1.0"),
        (lambda: NetworkField(mean=np.nan), "mean of a field is nan"),
    ],
)
def test_bad_networks_are_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()

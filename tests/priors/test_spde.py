"""Fields by a stochastic PDE: the covariance they were asked for, one unknown a node."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from riesz.errors import RieszError
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.priors.fields import FieldWeights
from riesz.priors.spde import SPDEField


@pytest.fixture(scope="module")
def mesh():
    return rectangle((40, 40))


@pytest.fixture(scope="module")
def covariance(mesh):
    """All of it, column by column."""
    latent = SPDEField(sd=2.0, length_scale=0.1).on(mesh)
    columns = jax.jit(jax.vmap(latent.value))(jnp.eye(mesh.num_nodes))
    return np.asarray(columns.T @ columns)


def test_the_standard_deviation_is_that_asked_for(covariance):
    sd = np.sqrt(np.diag(covariance))
    assert np.sqrt(np.mean(sd**2)) == pytest.approx(2.0, rel=0.1)
    assert sd.max() < 1.35 * sd.min()  # the boundary raises it but little


def test_correlations_are_those_of_the_matern_kernel(mesh, covariance):
    """Of smoothness one in the plane: a r K_1(a r) with a = sqrt(2) / length."""
    middle = int(np.argmin(np.sum((mesh.nodes - 0.5) ** 2, axis=1)))
    distance = np.linalg.norm(mesh.nodes - mesh.nodes[middle], axis=1)
    near = (distance > 0) & (distance < 0.2)
    scaled = np.sqrt(2) * distance[near] / 0.1
    wanted = scaled * scipy.special.k1(scaled)
    found = covariance[middle, near] / covariance[middle, middle]
    np.testing.assert_allclose(found, wanted, atol=0.05)  # four cells to a length scale


@pytest.mark.slow  # quickly, its moments, and other fields in equations
def test_it_stands_in_an_equation_with_its_mean_and_transform():
    mesh = rectangle((8, 8))
    latent = SPDEField(sd=1.0, length_scale=0.3, mean=0.5, transform=jnp.exp).on(mesh)
    zeros = latent.value(jnp.zeros(mesh.num_nodes))
    np.testing.assert_array_equal(zeros, 0.0)
    np.testing.assert_allclose(latent.field.nodal(zeros), np.exp(0.5))
    equation = diffusion(latent.coefficient("a")) - source(1.0)
    unknown = boundary_value_problem(P1(mesh), equation, {"boundary": 0.0})
    known = boundary_value_problem(
        P1(mesh), diffusion(float(np.exp(0.5))) - source(1.0), {"boundary": 0.0}
    )
    found = solve(unknown, {"a": FieldWeights(zeros)})
    np.testing.assert_allclose(found, solve(known), rtol=1e-9, atol=1e-12)
    assert "one unknown a node" in latent.describe()


@pytest.mark.parametrize(
    "wrong", [{"sd": 0.0}, {"length_scale": -1.0}, {"sd": float("nan")}, {"sd": None}]
)
def test_scales_must_be_positive(wrong):
    with pytest.raises(RieszError, match="must be positive"):
        SPDEField(**{"sd": 1.0, "length_scale": 0.2, **wrong})

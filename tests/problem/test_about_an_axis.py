"""Inverse problems about an axis: which engines take them, and what is measured there."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.errors import RieszError

RATE, REACH = 40.0, 100.0
RADII = np.array([[2.0], [5.0], [20.0]])


def cone(transmissivity, radius):
    """Thiem's: what a well takes comes from an island's shore."""
    return RATE / (2 * np.pi * transmissivity) * np.log(radius / REACH)


@pytest.fixture(scope="module")
def problem():
    areas, heads = rz.observe.AverageOver([[0.0, REACH]]), rz.observe.AtPoints(RADII)
    # The first cells are a well's, whose radius is a tenth of the nearest piezometer's distance.
    mesh = rz.interval(np.concatenate([[0.0], rz.mesh.geometric_ticks(0.2, REACH, 200)]))
    return rz.inverse_problem(
        rz.P1(mesh, axisymmetric=True),
        rz.diffusion("T") - rz.point_source([[0.2]], [-RATE]),
        latents={"T": dist.LogNormal(1.0, 2.0)},
        observations=[
            rz.observations(heads, cone(3.0, RADII[:, 0])),
            rz.observations(areas, [0.0]),
        ],
        likelihood=[rz.Gaussian(0.01), rz.Gaussian(100.0)],
        dirichlet={"right": 0.0},
    )


@pytest.mark.slow
def test_the_state_is_thiems_cone_and_its_average_is_over_the_disc(problem):
    coordinates = jnp.asarray([(np.log(3.0) - 1.0) / 2.0])
    state = jax.jit(problem.state)(coordinates)
    *heads, mean = problem.predict(state, problem.z(coordinates))
    np.testing.assert_allclose(heads, cone(3.0, RADII[:, 0]), rtol=1e-3)
    # The mean of log(r / R) over a disc of radius R is -1/2.
    np.testing.assert_allclose(mean, -RATE / (2 * np.pi * 3.0) / 2, rtol=1e-2)


@pytest.mark.slow
def test_a_transmissivity_is_found_from_the_cone(problem):
    posterior = rz.fit(problem, pair("laplace"), seed=0, check=False)
    assert abs(float(jnp.exp(1.0 + 2.0 * posterior.coordinate_mean()[0])) - 3.0) < 0.01


def test_the_description_tells_the_axis_and_surrogates_refuse_it(problem):
    assert "about the axis r = 0" in problem.describe()
    with pytest.raises(RieszError, match="surrogate works on mini-patches, which know no axis"):
        pair("gaussian-vi(surrogate)").check(problem)

"""A well at an unknown place: exact where it is known, differentiable, and found from data."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.fem.problem import wells_at_known_points

MESH = rz.rectangle((4, 4))
POINTS = [[0.2, 0.3], [0.5, 0.8], [0.8, 0.4], [0.4, 0.15]]
TRUTH = np.array([0.56, 0.43])
HELD = {"boundary": 0.0}


def posed(values, noise_sd):
    return rz.inverse_problem(
        MESH,
        rz.diffusion(1.0) - rz.point_source("place", 1.0),
        latents={"place": dist.Uniform(0.1, 0.9).expand([2]).to_event(1)},
        dirichlet=HELD,
        observations=rz.observations(POINTS, values),
        likelihood=rz.Gaussian(noise_sd),
    )


def known(place):
    form = rz.diffusion(1.0) - rz.point_source([place], [1.0])
    return rz.solve(rz.boundary_value_problem(rz.P1(MESH), form, HELD))


def test_the_place_of_a_well_is_inferred():
    clean = np.asarray(posed(np.zeros(4), 1.0).simulate({"place": TRUTH}))
    sensors = rz.fem.point_operator(rz.P1(MESH), POINTS)
    np.testing.assert_allclose(clean, sensors @ known(TRUTH), rtol=1e-9)
    posterior = rz.fit(posed(clean, 0.002), "laplace", seed=0, progress=False, check=False)
    assert (np.abs(posterior.mean("place") - TRUTH) < 3 * posterior.sd("place")).all()
    assert (posterior.sd("place") < 0.1).all()


def test_points_may_be_traced_and_differentiated():
    """Values at a place are linear in it within a cell, and NaN outside."""
    space, state = rz.P1(MESH), jnp.asarray(MESH.nodes @ [2.0, -3.0])
    at = jax.jit(lambda x: (rz.fem.point_operator(space, x[None]) @ state)[0])
    value, slope = jax.value_and_grad(at)(jnp.asarray(TRUTH))
    np.testing.assert_allclose(value, 2 * TRUTH[0] - 3 * TRUTH[1])
    np.testing.assert_allclose(slope, [2.0, -3.0])
    assert np.isnan(at(jnp.array([1.5, 0.5])))


def test_what_cannot_be_done_is_told():
    with pytest.raises(rz.errors.FormError, match=r"made outside of jit.*point_source\('place'"):
        jax.jit(lambda x: rz.point_source(x[None], [1.0]))(jnp.asarray(TRUTH))
    problem = posed(np.zeros(4), 1.0)
    assert "point_source(at the unknown 'place'" in str(problem)
    with pytest.raises(rz.RieszError, match="place of a point source is unknown"):
        wells_at_known_points(problem.forward)  # which engines without exact solves ask for
    with pytest.raises(rz.RieszError, match=r"needs \(2,\)"):
        rz.inverse_problem(
            MESH,
            rz.diffusion(1.0) - rz.point_source("place", 1.0),
            latents={"place": dist.Normal(0.0, 1.0).expand([3])},
            dirichlet=HELD,
            observations=rz.observations(POINTS, np.zeros(4)),
            likelihood=rz.Gaussian(1.0),
        )

"""Which unknowns are linear, and that it is found once for each problem."""

import gc
import weakref

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.errors import RieszError
from riesz.problem.linearity import (
    affine_coordinates,
    by_equation,
    linear_parts,
    without_derivative,
)
from riesz.problem.posing import with_observations

SEEN = rz.observations([[0.3, 0.4], [0.6, 0.7]], [0.1, 0.2])
KNOWN = rz.diffusion(1.0) - rz.source(1.0)  # or the common scale of all would not be identified
LINEAR = KNOWN + rz.diffusion("a") - rz.source("f") - rz.source("g")
LINEAR = LINEAR - rz.source(lambda x, z: z["h"] * x[0])
PRIORS = {
    "a": dist.LogNormal(0.0, 1.0),
    "f": dist.Normal(0.0, 1.0),
    "g": dist.LogNormal(0.0, 1.0),
    "h": dist.Normal(0.0, 1.0),
}


def posed(equation, value=0.0, noise=0.1, **more):
    return rz.inverse_problem(
        rz.rectangle((4, 4)),
        equation,
        latents=PRIORS | more,
        dirichlet={"boundary": value},
        observations=SEEN,
        likelihood=rz.Gaussian(noise),
    )


def test_affine_coordinates_are_those_of_sources_in_linear_equations():
    np.testing.assert_array_equal(affine_coordinates(posed(LINEAR)), [1, 3])
    curved = LINEAR + rz.reaction(lambda x, z, u, du: u)
    assert len(affine_coordinates(posed(curved))) == 0


def test_a_problem_is_asked_once_and_another_one_anew():
    problem = posed(LINEAR, "level", level=dist.Normal(0.0, 1.0))
    for found in (affine_coordinates, by_equation, linear_parts):
        assert found(problem) is found(problem)
    np.testing.assert_array_equal(linear_parts(problem).linear, [1, 3, 4])
    learned = with_observations(problem, SEEN, rz.Gaussian(lambda z: 1 + z["f"] ** 2))
    np.testing.assert_array_equal(linear_parts(learned).linear, [3, 4])
    with pytest.raises(RieszError, match="needs normal noise"):
        linear_parts(with_observations(problem, SEEN, rz.StudentT(0.1)))


def test_unknowns_that_only_comparisons_read_have_no_derivative():
    edge = rz.diffusion(lambda x, z: jnp.where(x[0] < z["f"], 1.0, jnp.exp(z["h"])))
    seen = rz.Gaussian(lambda z: jnp.where(z["c"] > 1.0, 0.1, 0.2))
    more = {"c": dist.Normal(0.0, 1.0)}
    assert without_derivative(posed(LINEAR + edge, noise=seen.sd, **more)) == ("c",)
    without_f = KNOWN + rz.diffusion("a") - rz.source("g") + edge
    assert without_derivative(posed(without_f, "h")) == ("f",)


@pytest.mark.slow
def test_what_was_found_does_not_keep_a_problem_alive():
    problem = posed(LINEAR)
    linear_parts(problem), by_equation(problem)
    gone = weakref.ref(problem)
    del problem
    gc.collect()
    assert gone() is None

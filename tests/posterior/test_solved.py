"""States of draws that are solved for outside of programs are those of Newton's iteration."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.fem.linear.linear_solve import SparseLU
from riesz.posterior.linear_states import linear_states

MESH = rz.rectangle((5, 4))
SEEN = rz.observations([[0.3, 0.4], [0.6, 0.7]], [0.1, 0.2])
DRAWS = jnp.asarray(np.random.default_rng(3).normal(size=(5, 2)))


POSITIVE = dist.LogNormal(0.0, 0.5)


def of_draws(problem, draws):
    return problem.latents.entries(problem.latents.of_draws(draws))


def posed(equation, first=POSITIVE):
    return rz.inverse_problem(
        MESH,
        equation,
        latents={"a": first, "f": dist.Normal(0.0, 1.0)},
        dirichlet={"boundary": lambda x, z: z["f"] * x[0]},
        observations=SEEN,
        likelihood=rz.Gaussian(0.1),
    )


@pytest.mark.parametrize(
    "equation",
    [
        pytest.param(rz.diffusion(1.0) - rz.source("a"), id="one matrix"),
        pytest.param(rz.diffusion("a") - rz.source("f") - rz.source(1.0), id="a matrix each"),
    ],
)
def test_linear_equations_have_the_states_of_newtons_iteration(equation):
    problem = posed(equation)
    expected = jax.jit(lambda rows: jax.lax.map(lambda c: problem.solve(c, SparseLU()), rows))
    found = linear_states(problem, of_draws(problem, DRAWS))
    np.testing.assert_allclose(found, expected(DRAWS), rtol=1e-10, atol=1e-12)


def test_where_there_is_no_solution_the_state_is_nan_and_others_are_not():
    with pytest.warns(UserWarning, match="must be positive"):
        problem = posed(rz.diffusion("a") - rz.source(1.0), dist.Normal(1.0, 1.0))
    draws = jnp.array([[-1.0, 0.0], [0.0, 0.0]])  # a is 0, then 1
    found = linear_states(problem, of_draws(problem, draws))
    assert np.isnan(found[0]).any()
    assert np.isfinite(found[1]).all()


def test_equations_that_are_not_linear_are_left_to_programs():
    curved = rz.diffusion("a") - rz.source(1.0) + rz.reaction(lambda x, z, u, du: u**2)
    problem = posed(curved)
    assert linear_states(problem, of_draws(problem, DRAWS)) is None

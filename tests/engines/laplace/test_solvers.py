"""Engines find by the solver that is chosen what they find by sparse LU."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import riesz as rz
from riesz.fem import choice
from riesz.fem.linear.linear_solve import Automatic


@pytest.mark.slow
def test_laplace_by_multigrid_is_laplace_by_lu_and_is_kept_without_its_tables(monkeypatch):
    rng = np.random.default_rng(3)
    problem = rz.inverse_problem(
        rz.rectangle((14, 14)),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": rz.SPDEField(0.8, 0.4, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(
            rng.uniform(0.1, 0.9, (12, 2)), 0.06 + 0.01 * rng.normal(size=12)
        ),
        likelihood=rz.Gaussian(0.005),
    )
    by_lu = rz.Laplace(linear_solver=rz.SparseLU()).run(problem)
    monkeypatch.setattr(choice, "LARGEST_FOR_LU", {2: 10})
    by_choice = rz.Laplace().run(problem)
    assert isinstance(problem.suited(), rz.Multigrid)
    assert isinstance(by_choice.states.linear_solver, Automatic)
    np.testing.assert_allclose(
        by_choice.coordinate_mean(), by_lu.coordinate_mean(), atol=1e-5, rtol=0
    )
    key, draws = jr.key(0), by_lu.sample(jr.key(1), 3)
    z = jax.vmap(problem.z)(draws)
    states = [one.states.from_outside(problem, key, draws, z) for one in (by_choice, by_lu)]
    np.testing.assert_allclose(*states, atol=1e-9, rtol=0)

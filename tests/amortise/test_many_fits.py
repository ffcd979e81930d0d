"""Many data sets at once: where the surrogate is affine, the formulas of linear regression."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from tests.linear_gaussian import NOISE, linear_problem

from riesz.amortise.gaussians import fit_by_newton, gaussian_search
from riesz.amortise.simulate import Simulator, Variety
from riesz.density.surrogate.start import initial_surrogate, surrogate_at_sensors


@pytest.mark.slow  # quickly, calibration by many fits in test_sbc
def test_linear_problems_are_solved_exactly_from_any_start():
    problem = linear_problem()
    # Untrained, but affine in the strengths of sources: its own posteriors are known.
    surrogate = initial_surrogate(problem, jr.key(0), width=8, features=8)
    simulator = Simulator(problem, surrogate)
    truths, observed = simulator.readings(jr.key(1), 3, Variety())
    search = gaussian_search(simulator, 0)
    starts = 3 * jnp.ones_like(truths)
    found = jax.jit(jax.vmap(lambda *row: fit_by_newton(search, *row)))(observed, starts)

    origin = jnp.zeros(3)

    @jax.jit
    def seen(coordinates):
        return surrogate_at_sensors(problem, surrogate, coordinates)

    slopes, offset = np.asarray(jax.jit(jax.jacfwd(seen))(origin)), np.asarray(seen(origin))
    covariance = np.linalg.inv(np.eye(3) + slopes.T @ slopes / NOISE**2)
    means = (np.asarray(observed.values) - offset) @ slopes @ covariance / NOISE**2
    np.testing.assert_allclose(found.mean, means, atol=1e-8)
    factors = jax.jit(jax.vmap(lambda q: q.factor()))(found)
    for factor in np.asarray(factors):
        np.testing.assert_allclose(factor @ factor.T, covariance, atol=1e-10)

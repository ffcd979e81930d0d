"""Priors of which a large part has no solution: -u'' = r e^u has none from r = 3.51 on."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.density.exact import ExactDensity
from riesz.diagnose.importance import with_importance_check
from riesz.errors import RieszError
from riesz.method.base import TargetDensity, Work
from riesz.method.mcmc.mcmc import gaussians_at_modes
from riesz.method.newton import search_origin
from riesz.posterior.family import full_rank
from riesz.posterior.posterior import ExactStates, Posterior

LARGEST = 3.514
SOLVER = rz.solvers.SparseLU()


def bratu(u, v, *, r):
    return -r * jnp.exp(u.value) * v.value


def posed(median: float, observed: float = 0.3) -> rz.InverseProblem:
    """Of r = 2 the state is 0.33 in the middle."""
    return rz.inverse_problem(
        rz.interval(8),
        rz.diffusion(1.0) + rz.integral(bratu, r="r"),
        latents={"r": dist.LogNormal(np.log(median), 0.6)},
        observations=rz.observations([[0.5]], [observed]),
        likelihood=rz.Gaussian(0.02),
        dirichlet={"left": 0.0, "right": 0.0},
    )


def test_a_search_begins_where_there_is_a_solution():
    """Where the prior's middle has none, and one of its draws in fifty has."""
    problem = posed(12.0)
    target = TargetDensity(ExactDensity(problem, SOLVER), ("r",))
    origin = search_origin(target, None, Work())
    assert 0 < float(problem.z(origin)["r"]) < LARGEST
    posterior = rz.fit(problem, "laplace", check=False, progress=False)
    mode = posterior.coordinate_mean()
    np.testing.assert_allclose(problem.operator @ problem.state(mode), 0.3, atol=0.03)
    assert 1.5 < float(problem.z(mode)["r"]) < 2.2


def test_a_start_that_was_given_is_taken_or_refused():
    with pytest.raises(RieszError, match="did not converge"):
        rz.fit(posed(12.0), pair("laplace", start=np.zeros(1)), check=False, progress=False)


def test_draws_without_a_solution_have_no_weight_and_are_told():
    """The prior in the place of q: draws beyond the largest r are none of the posterior's."""
    problem = posed(3.0, observed=0.6)
    q = Posterior(problem, full_rank(1, jnp.float64), ExactStates(), engine="laplace")
    found = with_importance_check(q, num_draws=256)
    (note,) = (note for note in found.notes if note.code == "importance_lost")
    z = jax.vmap(problem.z)(q.sample(jr.key(0), 4000))
    assert note.values["total"] == 256
    assert note.values["lost"] / 256 == pytest.approx(float(jnp.mean(z["r"] > LARGEST)), abs=0.05)
    assert found.check is not None
    assert float(problem.z(jnp.asarray(found.check.mean))["r"]) < LARGEST


def test_a_curvature_that_is_not_finite_is_told(monkeypatch):
    products = "riesz.posterior.density.hessian_vector_products"
    monkeypatch.setattr(products, lambda density, at, rows, second: jnp.full_like(rows, jnp.nan))
    problem = posed(1.0)
    with pytest.raises(RieszError, match="curvature of the log-density is not finite"):
        gaussians_at_modes(ExactDensity(problem, SOLVER), jnp.zeros(1), 2, jr.key(0))

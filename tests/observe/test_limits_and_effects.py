"""Upper limits have the probability of what lies below; effects shift what is predicted."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import riesz as rz
from riesz.engines.conditional.engine import MarginalDensity
from riesz.engines.conditional.linear import linear_system
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.inference.choose import choose_engine
from riesz.mesh.shapes import rectangle
from riesz.observe.censored import Censored
from riesz.observe.effects import WithEffects
from riesz.problem.linearity import linear_parts


def test_the_log_density_of_limits_is_that_of_all_below_them():
    below = np.array([False, True, True])
    likelihood = Censored(0.5, below)
    observed, predicted = jnp.array([1.0, 0.2, -3.0]), jnp.array([0.8, 0.7, 0.0])
    wanted = norm.logpdf(1.0, 0.8, 0.5) + norm.logcdf(0.2, 0.7, 0.5) + norm.logcdf(-3.0, 0, 0.5)
    found = likelihood.log_prob(observed, predicted, {})
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    slopes = jax.grad(lambda p: likelihood.log_prob(observed, p, {}))(predicted)
    assert bool(jnp.isfinite(slopes).all())
    # Less is always likelier below a limit.
    assert (slopes[1:] < 0).all()
    far = jax.grad(lambda p: likelihood.log_prob(observed, p, {}))(predicted + 1e3)
    assert bool(jnp.isfinite(far).all())
    assert "2 of 3 values are upper limits" in likelihood.describe()
    assert likelihood.distribution(predicted, {}).sample(jr.key(0)).shape == (3,)


def problem_with(likelihood, latents):
    rng = np.random.default_rng(0)
    points = rng.uniform(0.1, 0.9, size=(7, 2))
    return rz.inverse_problem(
        rectangle((4, 4)),
        rz.diffusion(1.0) - rz.source("f"),
        latents={"f": dist.Normal(1.0, 2.0), **latents},
        observations=rz.observations(points, rng.normal(size=7)),
        likelihood=likelihood,
        dirichlet={"boundary": 0.0},
    )


DESIGN = np.random.default_rng(1).normal(size=(7, 2))


@pytest.mark.slow
def test_effects_are_integrated_out_as_dense_algebra_has_it():
    likelihood = WithEffects(rz.Gaussian(0.3), DESIGN)
    effects = {"effects": dist.Normal(0.0, 1.5).expand([2])}
    problem = problem_with(likelihood, effects)
    parts = linear_parts(problem)
    assert len(parts.linear) == 3
    assert len(parts.others) == 0
    system = linear_system(problem, parts, jnp.zeros(0), SparseLU())
    # By hand: the state is linear in the one number f, which is 1 + 2 c.
    unit = problem_with(rz.Gaussian(0.3), {})
    at_one = unit.operator @ unit.state(jnp.zeros(1))
    responses = np.column_stack([2 * np.asarray(at_one), 1.5 * DESIGN])
    wanted = responses @ responses.T + 0.09 * np.eye(7)
    np.testing.assert_allclose(system.factor @ system.factor.T, wanted, atol=1e-10)
    misfit = np.asarray(problem.observed - at_one)
    np.testing.assert_allclose(system.misfit, misfit, atol=1e-10)
    mean = responses.T @ np.linalg.solve(wanted, misfit)
    order = np.argsort([0 if "f" in n else 1 for n in problem.latents.coordinate_names()])
    np.testing.assert_allclose(system.mean()[order], mean, atol=1e-9)
    density = MarginalDensity(problem, parts, SparseLU())(jnp.zeros(0))
    sign, volume = np.linalg.slogdet(2 * np.pi * wanted)
    by_hand = -0.5 * (misfit @ np.linalg.solve(wanted, misfit) + sign * volume)
    np.testing.assert_allclose(density, by_hand, rtol=1e-9)
    assert "2 effects" in problem.describe()


def test_the_joint_log_density_has_the_shift():
    likelihood = WithEffects(rz.Gaussian(0.3), DESIGN)
    effects = jnp.array([0.4, -1.0])
    observed, predicted = jnp.ones(7), jnp.linspace(0.0, 1.0, 7)
    found = likelihood.log_prob(observed, predicted, {"effects": effects})
    wanted = norm.logpdf(1.0, np.linspace(0, 1, 7) + DESIGN @ [0.4, -1.0], 0.3).sum()
    np.testing.assert_allclose(found, wanted)


def test_limits_are_refused_where_noise_must_be_normal():
    problem = problem_with(Censored(0.3, np.arange(7) < 2), {})
    with pytest.raises(RieszError, match=r"it is Censored \(normal, .*2 of 7 values are upper"):
        linear_parts(problem)
    assert choose_engine(problem).engine.name == "nuts"

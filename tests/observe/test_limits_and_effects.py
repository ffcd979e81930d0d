"""Upper limits have the probability of what lies below; effects shift what is predicted."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import riesz as rz
from riesz.density.marginal.linear import MarginalDensity
from riesz.density.marginal.marginal import system_at
from riesz.density.marginal.points import SteadyPoints
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.inference.fit import choose_engine
from riesz.mesh.shapes import rectangle
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import Censored
from riesz.priors.correlated_residual import LocalEffect
from riesz.problem.linearity import linear_parts


def test_the_log_density_of_limits_is_that_of_all_below_them():
    below = np.array([False, True, True])
    likelihood = Censored(0.5, below)
    observed, predicted = jnp.array([1.0, 0.2, -3.0]), jnp.array([0.8, 0.7, 0.0])
    wanted = norm.logpdf(1.0, 0.8, 0.5) + norm.logcdf(0.2, 0.7, 0.5) + norm.logcdf(-3.0, 0, 0.5)
    found = likelihood.log_prob(observed, predicted, {})
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    slopes_at = jax.jit(jax.grad(lambda p: likelihood.log_prob(observed, p, {})))
    slopes = slopes_at(predicted)
    assert bool(jnp.isfinite(slopes).all())
    # Less is always likelier below a limit.
    assert (slopes[1:] < 0).all()
    far = slopes_at(predicted + 1e3)
    assert bool(jnp.isfinite(far).all())
    assert "2 of 3 values are upper limits" in likelihood.describe()
    assert likelihood.distribution(predicted, {}).sample(jr.key(0)).shape == (3,)


def solved(problem):
    return SteadyPoints(problem.operator, SparseLU())


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
    system = system_at(MarginalDensity(problem, parts, solved(problem)), jnp.zeros(0))
    # By hand: the state is linear in the one number f, which is 1 + 2 c.
    unit = problem_with(rz.Gaussian(0.3), {})
    at_one = unit.operator @ unit.state(jnp.zeros(1))
    responses = np.column_stack([2 * np.asarray(at_one), 1.5 * DESIGN])
    wanted = responses @ responses.T + 0.09 * np.eye(7)
    order = np.argsort([0 if "f" in n else 1 for n in problem.latents.coordinate_names()])
    np.testing.assert_allclose(0.3 * system.responses[:, order], responses, atol=1e-10)
    misfit = np.asarray(problem.observed - at_one)
    np.testing.assert_allclose(0.3 * system.misfit, misfit, atol=1e-10)
    mean = responses.T @ np.linalg.solve(wanted, misfit)
    np.testing.assert_allclose(system.mean[order], mean, atol=1e-9)
    density = MarginalDensity(problem, parts, solved(problem))(jnp.zeros(0))
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


PLACES = np.random.default_rng(0).uniform(0.1, 0.9, size=(7, 2))  # those of the problem


def matern32(a, b, length):
    distance = np.sqrt(3) * np.linalg.norm(a[:, None] - b[None], axis=2) / length
    return (1 + distance) * np.exp(-distance)


@pytest.mark.slow
def test_a_local_effect_at_sensors_and_elsewhere_is_that_of_dense_algebra():
    local = LocalEffect(PLACES[[0, 1, 2, 3, 4, 5, 6, 6]], sd=0.5, length_scale=0.2)
    latent = local.prior().on(rectangle((4, 4)))
    assert (latent.num_coordinates, latent.num_scales) == (9, 2)  # of two sensors at one place, one

    def at_scales(rest):
        return latent.value(jnp.concatenate([jnp.array([0.4, -0.3]), rest]))

    sd, length = 0.5 * np.exp(0.4), 0.2 * np.exp(-0.3)
    responses = jax.jit(jax.jacfwd(lambda rest: local.at_sensors(at_scales(rest))))(jnp.zeros(7))
    responses = np.asarray(responses)
    again = np.asarray(local.points)
    np.testing.assert_allclose(
        responses @ responses.T, sd**2 * matern32(again, again, length), atol=3e-6
    )
    # At other places, given the values at the sensors, by the rule of conditioning.
    weights = at_scales(jnp.asarray(np.random.default_rng(3).normal(size=7)))
    values, others = np.asarray(local.at_sensors(weights))[:7], np.array([[0.3, 0.4], PLACES[2]])
    found = local.moments_at(others, np.asarray(weights)[None])
    own, cross = matern32(PLACES, PLACES, length), matern32(others, PLACES, length)
    np.testing.assert_allclose(found.mean[0], cross @ np.linalg.solve(own, values), rtol=1e-4)
    left = sd**2 * (1 - np.sum(cross * np.linalg.solve(own, cross.T).T, axis=1))
    np.testing.assert_allclose(found.sd[0] ** 2, left, rtol=1e-4, atol=1e-5)


def test_a_local_effect_elsewhere_is_conditioned_for_all_draws_by_the_scales_they_share():
    local = LocalEffect(PLACES, sd=0.5, length_scale=0.2)
    places, rng = np.asarray(local.places), np.random.default_rng(4)
    scales = np.array([[0.5, 0.2], [0.9, 0.1], [0.5, 0.2]])
    others = np.array([[0.3, 0.4], PLACES[2]])
    values = rng.normal(size=(3, 7))  # at the places
    weights = np.array(
        [
            np.linalg.solve(sd**2 * matern32(places, places, length), own)
            for (sd, length), own in zip(scales, values, strict=True)
        ]
    )
    found = local.moments_at(others, np.hstack([scales, weights]))
    for row, (sd, length) in enumerate(scales):
        own, cross = matern32(places, places, length), matern32(others, places, length)
        np.testing.assert_allclose(found.mean[row], cross @ np.linalg.solve(own, values[row]))
        left = sd**2 * (1 - np.sum(cross * np.linalg.solve(own, cross.T).T, axis=1))
        np.testing.assert_allclose(found.sd[row] ** 2, left, atol=1e-5)


@pytest.mark.slow
def test_a_local_effect_is_integrated_out_as_correlated_noise():
    local = LocalEffect(PLACES, sd=0.5, length_scale=0.2)
    likelihood = WithEffects(rz.Gaussian(0.3), local=local)
    problem = problem_with(likelihood, {"local": local.prior()})
    parts = linear_parts(problem)
    assert [problem.latents.coordinate_names()[i] for i in parts.others] == [
        "local[log_sd]",
        "local[log_length]",
    ]
    system = system_at(MarginalDensity(problem, parts, solved(problem)), jnp.zeros(2))
    at_one = problem.operator @ problem.state(jnp.zeros(10))
    wanted = 4 * np.outer(at_one, at_one) + 0.25 * matern32(PLACES, PLACES, 0.2)
    np.testing.assert_allclose(
        0.09 * system.factor @ system.factor.T, wanted + 0.09 * np.eye(7), atol=1e-6
    )
    assert "what neighbours share: sd about 0.5, range about 0.2" in problem.describe()


def test_limits_are_refused_where_noise_must_be_normal():
    problem = problem_with(Censored(0.3, np.arange(7) < 2), {})
    with pytest.raises(RieszError, match=r"it is Censored \(normal, .*2 of 7 values are upper"):
        linear_parts(problem)
    assert choose_engine(problem).engine.name == "laplace"


@pytest.mark.slow
def test_effects_are_integrated_out_where_no_solve_depends_on_them():
    rng = np.random.default_rng(5)
    points, design = rng.uniform(0.1, 0.9, (12, 2)), rng.normal(size=(12, 2))
    observed = 0.05 + design @ [0.3, -0.2] + 0.01 * rng.normal(size=12)
    problem = rz.inverse_problem(
        rz.rectangle((4, 4)),
        rz.diffusion(1.0) - rz.source(1.0),
        latents={"effects": dist.Normal(0.0, 2.0).expand([2]).to_event(1)},
        observations=rz.observations(points, observed),
        likelihood=rz.observe.WithEffects(rz.Gaussian(0.01), design, ("one", "other")),
        dirichlet={"boundary": 0.0},
    )
    parts = linear_parts(problem)
    assert len(parts.in_state) == 0
    found = system_at(MarginalDensity(problem, parts, solved(problem)), jnp.zeros(0)).mean
    left = observed - np.asarray(problem.operator @ rz.solve(problem.forward))
    precision = design.T @ design / 0.01**2 + np.eye(2) / 2.0**2
    expected = np.linalg.solve(precision, design.T @ left / 0.01**2)
    np.testing.assert_allclose(2.0 * found, expected, rtol=1e-9)

"""Relaxed equations in time: errors of steps against dense matrices and lattices."""

import dataclasses
from functools import lru_cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.density.relaxed.discrepancy import relax_solver
from riesz.density.relaxed.relaxed import median_unit, relaxed_density
from riesz.density.relaxed.states import RelaxedStates, error_grams, linearise
from riesz.diagnose.importance import importance_check
from riesz.errors import RieszError
from riesz.fem.time.fixed import steps_of
from riesz.io.store.posterior import load_posterior, save_posterior
from riesz.posterior.posterior import ExactStates
from riesz.problem.posing import with_observations

NOISE, TRUTH = 0.02, 0.4
FEW = (np.array([0.25, 0.5, 0.8]), np.array([0.05, 0.15, 0.3, 0.5]))
MANY = (np.linspace(0.1, 0.9, 8), np.linspace(0.1, 0.5, 5))
LATTICE = np.linspace(-2.5, 3.0, 441)
SHORT = pair("gaussian-vi(relaxed)", num_draws=16, num_curved=4)


@lru_cache
def heat(readings="few", **changed):
    """Heat on an interval with an unknown conductivity, and data of its truth."""
    places, when = FEW if readings == "few" else MANY
    points, dated = np.tile(places, len(when)), np.repeat(when, len(places))
    given = {
        "latents": {"k": dist.LogNormal(np.log(0.2), 0.5)},
        "dirichlet": {"boundary": 0.0},
        "likelihood": rz.Gaussian(NOISE),
        "times": np.linspace(0, 0.5, 9),
        "initial": lambda x: jnp.sin(np.pi * x[0]),
    }
    problem = rz.inverse_problem(
        rz.hierarchy(rz.interval(4), 2),
        rz.storage(1.0) + rz.diffusion("k") - rz.source(0.5),
        observations=rz.observations(points, np.zeros(len(points)), times=dated),
        **(given | changed),
    )
    rng = np.random.default_rng(len(points))
    truth = jnp.full(problem.num_coordinates, TRUTH)
    values = np.asarray(problem.operator @ problem.state(truth))
    values = values + NOISE * rng.normal(size=len(points))
    observed = rz.observations(points, values, times=dated)
    return with_observations(problem, observed, rz.Gaussian(NOISE))


@lru_cache
def grams(problem):
    return error_grams(problem, rz.penalty.Gram())


def density(problem, epsilon_rel):
    epsilon = epsilon_rel * median_unit(problem, grams(problem))
    return relaxed_density(problem, RelaxedStates(epsilon[None], jnp.zeros(1), grams(problem)))


def dense_steps(problem, coordinates):
    """The matrix of all steps, as it follows from the difference formula."""
    steps = steps_of(problem.time.transient(problem.forward), problem.z(coordinates))
    storage, flow, _ = steps.row(jnp.asarray(0))
    storage, flow = np.asarray(storage.to_dense()), np.asarray(flow.to_dense())
    weights, count, size = steps.weights, len(steps.weights.now), len(flow)
    whole = np.zeros((count, size, count, size))
    for n in range(count):
        whole[n, :, n] = float(weights.now[n]) * storage + flow
        if n >= 1:
            whole[n, :, n - 1] = -float(weights.last[n]) * storage
        if n >= 2:
            whole[n, :, n - 2] = -float(weights.before[n]) * storage
    return whole.reshape(count * size, count * size)


@pytest.mark.slow
def test_what_errors_of_steps_do_is_what_dense_matrices_say():
    problem, here = heat(), jnp.array([TRUTH])
    found = linearise(problem, problem.z(here), relax_solver(problem))
    shape = found.without_error().shape
    units = jnp.eye(np.prod(shape)).reshape(-1, *shape)
    rows = np.asarray(found.rows).transpose(1, 0, 2).reshape(len(problem.observed), -1)
    by_dense = rows @ np.linalg.inv(dense_steps(problem, here))
    seen = np.asarray(jax.jit(jax.vmap(found.effect_at_sensors))(units)).T
    np.testing.assert_allclose(seen, by_dense, atol=1e-10)
    every = np.asarray(jax.vmap(grams(problem).gram)(units)).reshape(len(units), -1)
    spread = by_dense @ every @ by_dense.T
    np.testing.assert_allclose(found.discrepancy(grams(problem)), spread, rtol=1e-9, atol=1e-12)
    weights = jnp.linspace(-1.0, 1.0, len(problem.observed))
    pulled = np.asarray(found.adjoint_effect(weights)).ravel()
    np.testing.assert_allclose(pulled, np.asarray(weights) @ by_dense, atol=1e-10)


@pytest.mark.slow
def test_slopes_of_the_relaxed_density_are_its_differences():
    own = density(heat(), 1.0)
    value = jax.jit(lambda at: own(at))  # noqa: PLW0108 (a module is no function)
    slope = jax.jit(jax.grad(lambda at: own(at)))(jnp.array([TRUTH]))  # noqa: PLW0108
    sides = [float(value(jnp.array([TRUTH + change]))) for change in (-1e-5, 1e-5)]
    np.testing.assert_allclose(slope[0], (sides[1] - sides[0]) / 2e-5, rtol=1e-6)


@pytest.mark.slow
def test_drawn_errors_have_the_covariance_of_their_steps():
    own = grams(heat(times=(0.0, 0.05, 0.1, 0.2, 0.35, 0.5)))
    shape = (len(own.beside), heat().forward.num_free)
    like = jnp.zeros(shape)
    drawn = np.asarray(
        jax.vmap(lambda key: own.draw(key, like))(jr.split(jr.key(0), 4000))
    ).reshape(4000, -1)
    units = jnp.eye(np.prod(shape)).reshape(-1, *shape)
    exact = np.asarray(jax.vmap(own.gram)(units)).reshape(len(units), -1)
    sd = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(
        np.cov(drawn, rowvar=False) / np.outer(sd, sd), exact / np.outer(sd, sd), atol=0.1
    )
    assert len(np.unique(np.round(np.asarray(own.beside), 6))) > 2  # steps of several lengths


@pytest.mark.slow
@pytest.mark.parametrize("readings", ["few", "many"])
@pytest.mark.parametrize("epsilon_rel", [0.3, 1.0, 2.0])
def test_q_is_the_relaxed_posterior_of_a_conductivity(readings, epsilon_rel):
    problem = heat(readings)
    own = density(problem, epsilon_rel)
    logs = np.asarray(
        jax.jit(lambda many: jax.lax.map(lambda at: own(at[None]), many))(jnp.asarray(LATTICE))
    )
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    mean = weights @ LATTICE
    sd = np.sqrt(weights @ (LATTICE - mean) ** 2)
    engine = pair("gaussian-vi(relaxed)", epsilon_rel=epsilon_rel, num_draws=64, tolerance=0.01)
    posterior = engine.run(problem, seed=0)
    assert posterior.notes == ()
    assert abs(float(posterior.coordinate_mean()[0]) - mean) < 0.05 * sd
    assert abs(float(jnp.sqrt(posterior.distribution.variances()[0])) / sd - 1) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("begins", ["given", "steady"])
def test_a_posterior_that_is_linear_in_all_unknowns_is_the_closed_form(begins):
    changed = {
        "latents": {"f": dist.Normal(0.5, 1.0), "left": dist.Normal(0.0, 1.0)},
        "dirichlet": {"left": "left", "right": 0.0},
    }
    if begins == "steady":
        changed |= {"initial": rz.fem.SteadyState()}
    form = rz.storage(1.0) + rz.diffusion(0.2) - rz.source(rz.series([0.0, 0.2], [0.0, 1.0]))
    form = form - rz.source("f")
    places, when = FEW
    points, dated = np.tile(places, len(when)), np.repeat(when, len(places))
    values = np.random.default_rng(1).normal(size=len(points)) * 0.2
    problem = rz.inverse_problem(
        rz.hierarchy(rz.interval(4), 2),
        form,
        observations=rz.observations(points, values, times=dated),
        likelihood=rz.Gaussian(NOISE),
        times=np.linspace(0, 0.5, 9),
        **({"initial": 0.0} | changed),
    )
    posterior = SHORT.with_settings(epsilon_rel=1.0).run(problem, seed=0)
    here = linearise(problem, problem.z(jnp.zeros(2)), relax_solver(problem))
    epsilon = median_unit(problem, grams(problem))
    spread = np.asarray(here.discrepancy(grams(problem)))
    covariance = NOISE**2 * np.eye(len(values)) + float(epsilon) ** 2 * spread
    slopes = np.asarray(jax.jacfwd(lambda at: problem.operator @ problem.state(at))(jnp.zeros(2)))
    gap = values - np.asarray(problem.operator @ here.state)
    precision = np.eye(2) + slopes.T @ np.linalg.solve(covariance, slopes)
    mean = np.linalg.solve(precision, slopes.T @ np.linalg.solve(covariance, gap))
    exact = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(exact))
    assert np.abs((np.asarray(posterior.coordinate_mean()) - mean) / sd).max() < 0.02
    ratio = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance()))) / sd
    np.testing.assert_allclose(ratio, 1, atol=0.02)


@lru_cache
def fitted():
    return SHORT.with_settings(epsilon_rel=1.0).run(heat(), seed=0)


@pytest.mark.slow
def test_predictions_carry_the_errors_of_steps():
    """At the readings as the record has them, and wider than the march alone elsewhere."""
    problem, posterior = heat(), fitted()
    place, when = np.array([0.5]), np.array([0.3])
    found = rz.predict(posterior, "u", place, times=when, num_draws=400, seed=1)
    draws = posterior.sample(jr.key(5), 400)
    records = np.asarray(posterior.states(problem, jr.key(6), draws))
    seen = np.asarray(jax.vmap(lambda one: problem.operator @ one)(jnp.asarray(records)))
    at = np.flatnonzero(
        (problem.observations.points[:, 0] == 0.5) & (problem.observations.when == 0.3)
    )[0]
    sd = seen[:, at].std()
    assert abs(found.mean[0, 0] - seen[:, at].mean()) < 0.2 * sd
    assert 0.85 < found.sd[0, 0] / sd < 1.15
    plain = dataclasses.replace(posterior, states=ExactStates())
    exact = rz.predict(plain, "u", [0.1], times=when, num_draws=400, seed=1)
    wide = rz.predict(posterior, "u", [0.1], times=when, num_draws=400, seed=1)
    assert wide.sd[0, 0] > 1.05 * exact.sd[0, 0]


@pytest.mark.slow
def test_a_relaxed_fit_in_time_is_stopped_kept_and_checked(tmp_path):
    problem, engine = heat(), SHORT.with_settings(epsilon_rel=1.0)
    again, stops = stopped_and_resumed(
        lambda checkpoint: engine.run(problem, seed=0, checkpoint=checkpoint),
        tmp_path / "checkpoint",
        3,
    )
    assert stops >= 1
    check_same(again, fitted())
    save_posterior(tmp_path / "run", fitted())
    check_same(load_posterior(tmp_path / "run", problem), fitted())
    check = importance_check(fitted(), num_draws=256)
    assert check.k_hat < 0.7
    assert np.abs(check.mean_shift).max() < 0.1


def test_what_cannot_be_relaxed_in_time_is_refused_before_any_work():
    form = rz.storage(1.0) + rz.diffusion(lambda x, z, u, grad: 0.2 + u**2) - rz.source("f")
    problem = rz.inverse_problem(
        rz.hierarchy(rz.interval(4), 2),
        form,
        latents={"f": dist.Normal(0.0, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations([0.5], [0.1], times=[0.2]),
        likelihood=rz.Gaussian(0.1),
        times=np.linspace(0, 0.5, 9),
        initial=0.0,
    )
    with pytest.raises(RieszError, match="relaxed takes equations in time that are linear"):
        pair("gaussian-vi(relaxed)").check(problem)

"""The engine laplace: mode, curvature and spread against dense ones and against derivatives."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.engines.laplace.engine import Laplace
from riesz.engines.laplace.newton import data_actions, leading_eigenpairs, place_at
from riesz.fem.linear.linear_solve import SparseLU
from riesz.latent.spde import SPDEField
from riesz.posterior.family import PriorUpdate, full_rank_of

SOLVER = SparseLU()


def field_problem(cells: int) -> rz.InverseProblem:
    """A log-diffusivity with one unknown a node, seen by twelve sensors."""
    rng = np.random.default_rng(3)
    return rz.inverse_problem(
        rz.rectangle((cells, cells)),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": SPDEField(0.8, 0.4, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(
            rng.uniform(0.1, 0.9, (12, 2)), 0.06 + 0.01 * rng.normal(size=12)
        ),
        likelihood=rz.Gaussian(0.005),
    )


@pytest.fixture(scope="module")
def problem():
    return field_problem(6)


@pytest.fixture(scope="module")
def posterior(problem):
    return Laplace(num_modes=45).run(problem)


@pytest.fixture(scope="module")
def dense(problem, posterior):
    """The Hessian by differentiating the log-posterior twice, solve and all."""
    return -np.asarray(jax.jit(jax.hessian(problem.log_prob))(posterior.coordinate_mean()))


def test_the_slope_passes_the_taylor_test(problem):
    key, place = jr.key(0), jnp.linspace(-1.0, 1.0, problem.num_coordinates)
    direction = jr.normal(key, place.shape)
    here = place_at(problem, place, SOLVER)
    gaps = []
    for step in (1e-2, 5e-3, 2.5e-3):
        there = place_at(problem, place + step * direction, SOLVER)
        gaps.append(abs(there.cost - here.cost - step * here.slope @ direction))
    np.testing.assert_allclose(np.log2(gaps[0] / gaps[1]), 2.0, atol=0.1)
    np.testing.assert_allclose(np.log2(gaps[1] / gaps[2]), 2.0, atol=0.1)


def test_actions_of_the_hessian_pass_the_taylor_test(problem):
    """The slope changes by the action, and what is left by the square of the step."""
    place = jnp.linspace(-1.0, 1.0, problem.num_coordinates)
    direction = jr.normal(jr.key(1), place.shape)
    here = place_at(problem, place, SOLVER)
    action = direction + data_actions(problem, here, SOLVER, direction[None])[0]
    gaps = []
    for step in (1e-2, 5e-3, 2.5e-3):
        there = place_at(problem, place + step * direction, SOLVER)
        gaps.append(np.linalg.norm(there.slope - here.slope - step * action))
    np.testing.assert_allclose(np.log2(gaps[0] / gaps[1]), 2.0, atol=0.1)
    np.testing.assert_allclose(np.log2(gaps[1] / gaps[2]), 2.0, atol=0.1)


def test_the_mode_is_one(problem, posterior):
    slope = place_at(problem, posterior.coordinate_mean(), SOLVER).slope
    first = place_at(problem, jnp.zeros(problem.num_coordinates), SOLVER).slope
    assert np.linalg.norm(slope) < 1e-5 * np.linalg.norm(first)


def test_a_search_that_is_stopped_after_each_step_goes_on_to_the_same_mode(
    problem, posterior, tmp_path
):
    engine = Laplace(num_modes=45)
    again, stops = stopped_and_resumed(
        lambda checkpoint: engine.run(problem, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops == len(posterior.history["cost"]) > 2
    check_same(again, posterior)


def test_eigenvalues_and_spread_agree_with_the_dense_hessian(posterior, dense):
    told = np.linalg.eigvalsh(dense - np.eye(len(dense)))
    told = told[np.argsort(-np.abs(told))]
    np.testing.assert_allclose(posterior.history["eigenvalues"][:10], told[:10], rtol=1e-4)
    variances = np.diag(np.linalg.inv(dense))
    found = np.diag(posterior.coordinate_covariance())
    np.testing.assert_allclose(found, variances, rtol=0.02)


def newton_with_dense_hessian(size, log_prob, slope, curvature):
    """Uphill from the prior's median: curvatures by their size, steps halved until they climb."""
    height = jax.jit(log_prob)
    place = jnp.zeros(size)
    for _ in range(40):
        values, vectors = jnp.linalg.eigh(curvature(place))
        step = vectors @ ((vectors.T @ slope(place)) / jnp.abs(values))
        longest = jnp.linalg.norm(step)
        step = step * jnp.minimum(1.0, 5.0 / longest)
        while longest > 1e-9 and height(place + step) < height(place):
            step = step / 2
            longest = longest / 2
        place = place + step
        if longest < 1e-9:
            break
    return place


@pytest.mark.slow
def test_with_289_unknowns_all_agrees_with_dense_algebra():
    """Mode, eigenvalues and pointwise variance of the field on 17^2 nodes."""
    problem = field_problem(16)
    posterior = Laplace(num_modes=60).run(problem)
    mode = np.asarray(posterior.coordinate_mean())
    curvature = jax.jit(jax.hessian(problem.log_prob))
    slope = jax.jit(jax.grad(problem.log_prob))
    place = newton_with_dense_hessian(problem.num_coordinates, problem.log_prob, slope, curvature)
    assert float(jnp.linalg.norm(slope(place))) < 1e-6
    dense = -np.asarray(curvature(place))
    scale = np.sqrt(np.diag(np.linalg.inv(dense)))
    np.testing.assert_allclose((mode - np.asarray(place)) / scale, 0.0, atol=1e-3)

    told = np.linalg.eigvalsh(dense - np.eye(len(dense)))
    told = told[np.argsort(-np.abs(told))]
    np.testing.assert_allclose(posterior.history["eigenvalues"][:12], told[:12], rtol=1e-3)
    field = np.asarray(jax.jacfwd(lambda c: problem.z(c)["a"])(place))
    variances = np.sum(field @ np.linalg.inv(dense) * field, axis=1)
    found = np.sum(field @ np.asarray(posterior.coordinate_covariance()) * field, axis=1)
    np.testing.assert_allclose(found, variances, rtol=0.01)


def test_random_subspaces_hold_the_leading_eigenpairs():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    values = np.concatenate([[1e4, -5.0, 3.0, 1.0], np.full(56, 1e-3)])
    matrix = jnp.asarray(rotation * values @ rotation.T)
    found, vectors = leading_eigenpairs(lambda d: d @ matrix, 60, 4, jr.key(0))
    np.testing.assert_allclose(found, values[:4], rtol=1e-8)
    np.testing.assert_allclose(matrix @ vectors, vectors * found[None, :], atol=1e-6)


def test_an_update_of_the_prior_is_the_gaussian_it_says():
    rng = np.random.default_rng(1)
    directions = jnp.asarray(np.linalg.qr(rng.normal(size=(5, 2)))[0])
    update = PriorUpdate(jnp.arange(5.0), directions, jnp.asarray([8.0, 0.5]))
    covariance = np.linalg.inv(
        np.eye(5) + np.asarray(directions) * np.array([8.0, 0.5]) @ np.asarray(directions).T
    )
    same = full_rank_of(jnp.arange(5.0), jnp.asarray(np.linalg.cholesky(covariance)))
    np.testing.assert_allclose(update.covariance(), covariance, atol=1e-12)
    np.testing.assert_allclose(update.kl_to_prior(), same.kl_to_prior())
    point = jnp.ones(5)
    np.testing.assert_allclose(update.log_prob(point), same.log_prob(point))


def test_a_search_that_did_not_arrive_is_told(problem):
    notes = Laplace(max_steps=1, num_modes=30).run(problem).notes
    assert "search for the mode ended after 1 step" in notes[0]

"""Laplace: mode, curvature and spread against dense ones and against derivatives."""

import importlib
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.density.exact import ExactDensity
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.posterior.density import hessian_vector_products, leading_eigenpairs, linearize_at
from riesz.posterior.family import PriorUpdate, full_rank_of
from riesz.priors.spde import SPDEField

SOLVER = SparseLU()
ROOT = Path(__file__).parents[2]


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
    return pair("laplace", num_modes=45).run(problem)


@pytest.fixture(scope="module")
def dense(problem, posterior):
    """The Hessian by differentiating the log-posterior twice, solve and all."""
    return -np.asarray(jax.jit(jax.hessian(problem.log_prob))(posterior.coordinate_mean()))


@pytest.mark.slow
def test_the_slope_passes_the_taylor_test(problem):
    density = ExactDensity(problem, SOLVER)
    key, place = jr.key(0), jnp.linspace(-1.0, 1.0, problem.num_coordinates)
    direction = jr.normal(key, place.shape)
    here = linearize_at(density, place)
    gaps = []
    for step in (1e-2, 5e-3, 2.5e-3):
        there = linearize_at(density, place + step * direction)
        gaps.append(abs(there.cost - here.cost - step * here.gradient @ direction))
    np.testing.assert_allclose(np.log2(gaps[0] / gaps[1]), 2.0, atol=0.1)
    np.testing.assert_allclose(np.log2(gaps[1] / gaps[2]), 2.0, atol=0.1)


@pytest.mark.slow
def test_actions_of_the_hessian_pass_the_taylor_test(problem):
    """The slope changes by the action, and what is left by the square of the step."""
    density = ExactDensity(problem, SOLVER)
    place = jnp.linspace(-1.0, 1.0, problem.num_coordinates)
    direction = jr.normal(jr.key(1), place.shape)
    here = linearize_at(density, place)
    action = direction + hessian_vector_products(density, here, direction[None])[0]
    gaps = []
    for step in (1e-2, 5e-3, 2.5e-3):
        there = linearize_at(density, place + step * direction)
        gaps.append(np.linalg.norm(there.gradient - here.gradient - step * action))
    np.testing.assert_allclose(np.log2(gaps[0] / gaps[1]), 2.0, atol=0.1)
    np.testing.assert_allclose(np.log2(gaps[1] / gaps[2]), 2.0, atol=0.1)


def test_the_mode_is_less_than_the_tolerance_away(problem, posterior, dense):
    """By the decrement with the dense Hessian, which what conjugate gradients found bounds."""
    slope = np.asarray(
        linearize_at(ExactDensity(problem, SOLVER), posterior.coordinate_mean()).gradient
    )
    decrement = np.sqrt(slope @ np.linalg.solve(dense, slope))
    assert decrement <= posterior.history["decrement"][-1] <= pair("laplace").method.tolerance


def test_a_search_that_starts_at_the_mode_ends_there(problem, posterior):
    again = pair("laplace", num_modes=45, start=posterior).run(problem)
    assert len(again.history["cost"]) == 1
    assert again.notes == ()
    np.testing.assert_array_equal(again.coordinate_mean(), posterior.coordinate_mean())


def test_a_search_that_is_stopped_after_each_step_goes_on_to_the_same_mode(
    problem, posterior, tmp_path
):
    engine = pair("laplace", num_modes=45)
    again, stops = stopped_and_resumed(
        lambda checkpoint: engine.run(problem, checkpoint=checkpoint),
        tmp_path / "checkpoint",
    )
    assert stops == len(posterior.history["cost"]) - 1 > 2
    check_same(again, posterior)


def test_eigenvalues_and_spread_agree_with_the_dense_hessian(posterior, dense):
    told = np.linalg.eigvalsh(dense - np.eye(len(dense)))
    told = told[np.argsort(-np.abs(told))]
    np.testing.assert_allclose(posterior.history["eigenvalues"][:10], told[:10], rtol=1e-4)
    variances = np.diag(np.linalg.inv(dense))
    found = np.diag(posterior.coordinate_covariance())
    np.testing.assert_allclose(found, variances, rtol=0.02)


@pytest.mark.parametrize(("num_directions", "tolerance"), [(60, 1e-9), (10, 0.03)])
def test_the_sd_of_the_field_is_that_of_the_covariance(
    problem, posterior, monkeypatch, num_directions, tolerance
):
    """Exactly where the subspace is all there is, closely where it is a part."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spread = importlib.import_module("field_spread")
    monkeypatch.setattr(spread, "NUM_DIRECTIONS", num_directions)
    found = spread.field_sd(posterior, "a", seed=num_directions)
    field = np.asarray(jax.jacfwd(lambda c: problem.z(c)["a"].weights)(posterior.coordinate_mean()))
    variances = np.sum(field @ np.asarray(posterior.coordinate_covariance()) * field, axis=1)
    np.testing.assert_allclose(found, np.sqrt(variances), rtol=tolerance)


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
    posterior = pair("laplace", num_modes=60).run(problem)
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
    field = np.asarray(jax.jacfwd(lambda c: problem.z(c)["a"].weights)(place))
    variances = np.sum(field @ np.linalg.inv(dense) * field, axis=1)
    found = np.sum(field @ np.asarray(posterior.coordinate_covariance()) * field, axis=1)
    np.testing.assert_allclose(found, variances, rtol=0.01)


def test_a_double_pass_errs_by_the_square_of_what_it_leaves_out():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    leading, errors = np.array([1e4, -5.0, 3.0, 1.0]), []
    for left in (1e-2, 1e-3, 1e-4):
        values = np.concatenate([leading, np.full(56, left)])
        matrix = jnp.asarray(rotation * values @ rotation.T)
        found, vectors = leading_eigenpairs(lambda d, matrix=matrix: d @ matrix, 60, 4, jr.key(0))
        errors.append(np.abs(np.asarray(found) - leading).max())
        gap = matrix @ vectors - vectors * found[None, :]
        assert np.abs(gap).max() < 10 * left
    np.testing.assert_allclose(np.log10(errors[:-1]) - np.log10(errors[1:]), 2.0, atol=0.2)


@pytest.mark.slow
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


def test_a_covariance_too_large_to_form_is_refused_before_it_is():
    many = 20_000
    update = PriorUpdate(jnp.zeros(many), jnp.zeros((many, 1)), jnp.ones(1))
    with pytest.raises(RieszError, match=r"20000 coordinates would take 3.2 GB: use .*variances"):
        update.covariance()
    assert update.variances().shape == (many,)


def test_a_search_that_did_not_arrive_is_told(problem):
    notes = pair("laplace", max_steps=2, num_modes=30).run(problem).notes
    assert (notes[0].code, notes[0].values["steps"]) == ("map_search", 2)


def badly_scaled_problem(accurate: float) -> rz.InverseProblem:
    """Fourteen unknowns, eight sensors with noise of that sd and four with a large one."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.1, 0.9, (12, 2))
    sd = np.r_[np.full(8, accurate), np.full(4, 3e-2)]
    source = rz.KarhunenLoeve(rz.priors.Matern52(length_scale=0.3), num_terms=12, mean=5.0)
    latents = {"a": dist.LogNormal(0.0, 1.0), "k": dist.LogNormal(0.0, 1.0), "f": source}

    def posed(values):
        return rz.inverse_problem(
            rz.rectangle((16, 16)),
            rz.diffusion("a") + rz.reaction("k") - rz.source("f"),
            latents=latents,
            dirichlet={"boundary": 0.0},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian(sd),
        )

    problem = posed(np.zeros(12))
    truth = jnp.asarray(rng.normal(size=problem.num_coordinates))
    return posed(np.asarray(problem.operator @ problem.state(truth)) + sd * rng.normal(size=12))


@pytest.mark.slow
def test_accurate_data_do_not_hide_directions_of_which_they_tell_little():
    problem = badly_scaled_problem(1e-5)
    found = pair("laplace").run(problem)
    assert found.notes == ()
    slope = jax.jit(jax.grad(problem.log_prob))
    curvature = jax.jit(jax.hessian(problem.log_prob))
    mode = found.coordinate_mean()
    for _ in range(4):  # Newton's own steps, from where the search ended
        mode = mode - jnp.linalg.solve(curvature(mode), slope(mode))
    sd = np.sqrt(np.diag(np.linalg.inv(-np.asarray(curvature(mode)))))
    assert np.abs((found.coordinate_mean() - mode) / sd).max() < 0.02
    ratio = np.sqrt(np.asarray(found.distribution.variances())) / sd
    np.testing.assert_allclose(ratio, 1.0, atol=0.03)


@pytest.mark.slow
def test_a_valley_too_narrow_to_go_along_it_is_told():
    """Data a tenth as uncertain still: steps are short, and the search says how far it came."""
    found = pair("laplace", max_steps=20).run(badly_scaled_problem(1e-6))
    assert pair("laplace").method.tolerance < found.history["decrement"][-1] < 0.1
    assert found.notes[0].code == "map_search"
    assert found.notes[0].values["distance"] == found.history["decrement"][-1]

"""Sparse processes, and the deep process made of them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from riesz.diagnose.taylor import taylor_test
from riesz.errors import RieszError
from riesz.posterior.family import full_rank_of
from riesz.priors.kernels import RBF, Matern52
from riesz_paper.baselines.deep_gp import DEFAULT, DeepGP, deep_gp, fresh_deep_gp, misfit
from riesz_paper.baselines.gp_physics.sparse_process import inducing_among, sparse_process
from riesz_paper.regression.covariates import Covariates

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(40, 2))
TARGET = np.sin(2 * POINTS[:, 0]) + 0.1 * RNG.normal(size=40)
NOISE = 0.3


def with_best_q(model):
    """The q of one layer that makes the bound largest, in closed form."""
    frame = model.last.frame()

    def kernels(x):
        squared = jnp.sum(((x[None] - frame.inducing) / frame.length[None]) ** 2, axis=1)
        return frame.variance * frame.family().profile(squared, jnp)

    features = jax.vmap(kernels)(jnp.asarray(POINTS)) @ frame.whitening.T
    precision = jnp.eye(features.shape[1]) + features.T @ features / NOISE**2
    covariance = jnp.linalg.inv(precision)
    mean = covariance @ features.T @ jnp.asarray(TARGET) / NOISE**2
    best = full_rank_of(mean, jnp.linalg.cholesky(covariance))
    return eqx.tree_at(lambda m: m.last.q, model, best)


@eqx.filter_jit
def bound(model, key=None, num_draws=1):
    key = jr.key(0) if key is None else key
    target = jnp.asarray(TARGET)
    return -misfit(model, jnp.asarray(POINTS), target, key, num_draws) - model.divergence()


@pytest.mark.parametrize("family", [pytest.param(RBF, marks=pytest.mark.slow), Matern52])
def test_one_layer_bounds_the_evidence_and_reaches_it_with_all_points(family):
    exact = scipy.stats.multivariate_normal.logpdf(
        TARGET, cov=family(1.0).matrix(POINTS, POINTS) + NOISE**2 * np.eye(40)
    )
    found = {}
    for count in (10, 40):
        inducing = inducing_among(POINTS, count)
        model = DeepGP((), sparse_process(family, inducing), jnp.log(NOISE))
        assert bound(model) < bound(with_best_q(model)) < exact
        found[count] = bound(with_best_q(model))
    assert found[10] < found[40]
    assert exact - found[40] < 0.01


@eqx.filter_jit
def moments(process):
    return process.moments(jnp.asarray(POINTS))


def test_at_the_prior_nothing_diverges_and_marginals_are_the_priors():
    process = sparse_process(Matern52, POINTS[:6], length=0.7, sd=1.3)
    assert abs(process.q.kl_to_prior()) < 1e-14
    mean, variance = moments(process)
    np.testing.assert_allclose(mean, 0, atol=1e-14)
    np.testing.assert_allclose(variance, 1.3**2, rtol=1e-10)


def test_the_marginals_are_those_of_the_projected_values():
    """Against dense conditioning on inducing values that are drawn from q."""
    process = sparse_process(Matern52, POINTS[:6], length=0.7, sd=1.3)
    rng = np.random.default_rng(1)
    factor = np.tril(rng.normal(size=(6, 6))) + 2 * np.eye(6)
    q = full_rank_of(jnp.asarray(rng.normal(size=6)), jnp.asarray(factor))
    mean, variance = moments(eqx.tree_at(lambda p: p.q, process, q))
    kernel = Matern52(0.7, 1.3)
    prior = kernel.matrix(POINTS[:6], POINTS[:6]) + 1e-6 * 1.3**2 * np.eye(6)
    cross = kernel.matrix(POINTS[:6], POINTS)
    map_to = np.linalg.solve(prior, cross).T
    unwhitened = np.linalg.cholesky(prior)
    at_inducing = unwhitened @ factor @ factor.T @ unwhitened.T
    np.testing.assert_allclose(mean, map_to @ unwhitened @ np.asarray(q.mean), rtol=1e-8)
    wanted = 1.3**2 - np.sum(map_to * cross.T, 1) + np.sum(map_to @ at_inducing * map_to, 1)
    np.testing.assert_allclose(variance, wanted, rtol=1e-8)


@pytest.mark.slow
def test_gradients_of_the_bound_through_two_layers_are_right():
    model = fresh_deep_gp(POINTS, dataclasses.replace(DEFAULT, num_inducing=8))
    arrays, rest = eqx.partition(model, eqx.is_array)
    found = taylor_test(
        lambda arrays: bound(eqx.combine(arrays, rest), jr.key(2), 3), arrays, largest_step=1e-3
    )
    assert found.passed, str(found)


def test_a_step_through_two_layers_moves_all_and_tells_misfit_and_divergence(only_traced):
    only_traced("riesz_paper.baselines.deep_gp")
    quick = dataclasses.replace(DEFAULT, num_inducing=8)
    trained = deep_gp(quick)(Covariates(POINTS, {}, {}), 4500 + 10 * TARGET, seed=0)
    assert set(trained.history) == {"misfit", "kl"}
    assert len(trained.model.inner) == quick.num_layers - 1


@pytest.mark.slow
def test_a_training_follows_the_data_and_far_away_returns_to_its_prior():
    places = Covariates(1e5 + 1e4 * POINTS, {}, {})
    quick = dataclasses.replace(DEFAULT, num_inducing=20, num_steps=300)
    trained = deep_gp(quick)(places, 4500 + 10 * TARGET, seed=0)
    cost = trained.history["misfit"] + trained.history["kl"]
    assert cost[-20:].mean() < cost[:20].mean() - 10
    draws = trained(places)
    assert np.mean(np.abs(draws.mean(axis=0) - 4500 - 10 * TARGET)) < 3
    far = trained(Covariates(np.full((1, 2), 1e7), {}, {}))
    model = trained.model
    sd = np.sqrt(np.exp(2 * model.last.log_sd) + np.exp(2 * model.log_noise))
    np.testing.assert_allclose(far.std(), trained.standard.spread * sd, rtol=0.1)
    again = deep_gp(quick)(places, 4500 + 10 * TARGET, seed=0)
    np.testing.assert_array_equal(again(places), draws)


def test_a_process_without_layers_is_refused():
    with pytest.raises(RieszError, match="at least one"):
        dataclasses.replace(DEFAULT, num_layers=0)

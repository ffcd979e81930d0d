"""The Gaussian model is a Gaussian process regression, and is held to one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from riesz_paper.regression.effects import Grouped, Joint, Level, Linear, Smooth, Stationary
from riesz_paper.regression.gaussian import conditioned, cost, fitted, gaussian_model, trained_part
from riesz_paper.regression.sites import Sites

RNG = np.random.default_rng(0)


def sites(count: int, seed: int = 0) -> Sites:
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    return Sites(
        jnp.asarray(rng.uniform(size=(count, 2))),
        jnp.asarray(rng.standard_normal((count, 2))),
        (jnp.asarray(labels[:, None] == np.arange(3)[None], float),),
    )


ALL = {
    "level": Level(),
    "linear": Linear(),
    "smooth": Smooth(),
    "joint": Joint(),
    "grouped": Grouped(),
    "field": Stationary(jnp.asarray(0.3)),
}


@pytest.mark.parametrize("name", ALL)
def test_variances_are_the_diagonal_of_a_positive_covariance(name):
    places = sites(12)
    effect = ALL[name]
    scales = effect.initial(places)

    @jax.jit
    def covariances(scales, places):
        return effect.covariance(scales, places, places), effect.variances(scales, places)

    matrix, variances = map(np.asarray, covariances(scales, places))
    np.testing.assert_allclose(np.diag(matrix), variances, rtol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-10


def test_predictions_are_those_of_scikit_learn():
    places, others = sites(30), sites(7, seed=1)
    measured = RNG.standard_normal(30)
    model = gaussian_model({"joint": Joint()}, places)
    mean, variance = conditioned(model, places, jnp.asarray(measured), jnp.ones(30)).at(others)
    kernel = ConstantKernel(0.25) * Matern([2.0, 2.0], nu=2.5)
    peer = GaussianProcessRegressor(kernel, alpha=0.25, optimizer=None)
    peer.fit(np.asarray(places.numbers), measured)
    known, sd = peer.predict(np.asarray(others.numbers), return_std=True)
    np.testing.assert_allclose(mean, known, atol=1e-6)
    np.testing.assert_allclose(variance, sd**2, atol=1e-6)


def test_the_cost_is_the_negative_log_density_and_prior():
    places = sites(9)
    measured = jnp.asarray(RNG.standard_normal(9))
    model = gaussian_model(ALL, places)
    centre = trained_part(model)
    moved = jax.tree.map(lambda leaf: leaf + 0.3, centre)
    values = []
    for found in (centre, moved):
        value, _ = cost(found, model, centre, places, measured, jnp.ones(9))
        scales, log_noise = found
        matrix = sum(e.covariance(scales[n], places, places) for n, e in ALL.items())
        total = np.asarray(matrix) + (np.exp(2 * float(log_noise)) + 1e-8) * np.eye(9)
        density = scipy.stats.multivariate_normal(np.zeros(9), total).logpdf(measured)
        count = sum(leaf.size for leaf in jax.tree.leaves(found))
        prior = 0.5 * 0.3**2 * count if found is moved else 0.0
        values.append(float(value) + density - prior)
    assert values[0] == pytest.approx(values[1], rel=1e-9)  # the constant that is left out


def test_effects_add_up_to_the_whole():
    places, others = sites(20), sites(5, seed=2)
    seen = conditioned(
        gaussian_model(ALL, places), places, jnp.asarray(RNG.standard_normal(20)), jnp.ones(20)
    )

    @eqx.filter_jit
    def whole_and_parts(seen, others):
        return seen.at(others)[0], sum(seen.effect_at(name, others)[0] for name in ALL)

    total, parts = whole_and_parts(seen, others)
    np.testing.assert_allclose(total, parts, atol=1e-10)


def test_draws_of_numbers_give_what_single_predictions_give():
    places, others = sites(20), sites(5, seed=2)
    seen = conditioned(
        gaussian_model(ALL, places), places, jnp.asarray(RNG.standard_normal(20)), jnp.ones(20)
    )
    numbers = jr.normal(jr.key(0), (3, 5, 2))
    means, variances = seen.at_draws(others, numbers)
    for own, mean, variance in zip(numbers, means, variances, strict=True):
        known = seen.at(Sites(others.points, own, others.groups))
        np.testing.assert_allclose(mean, known[0], atol=1e-10)
        np.testing.assert_allclose(variance, known[1], atol=1e-10)


@pytest.mark.slow
def test_heavy_tails_forgive_an_outlier():
    places = sites(40)
    truth = np.asarray(places.numbers[:, 0])
    measured = truth + 0.1 * RNG.standard_normal(40)
    measured[3] += 8.0
    model = gaussian_model({"smooth": Smooth()}, places)
    errors = {}
    for freedom in (None, 4.0):
        found = fitted(model, places, jnp.asarray(measured), freedom=freedom)
        errors[freedom] = np.abs(np.asarray(found.at(places)[0]) - truth).mean()
    assert errors[4.0] < 0.3 * errors[None]

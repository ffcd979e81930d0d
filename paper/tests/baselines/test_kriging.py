"""Kriging is that of GSTools, honours its data, and finds the variogram of made-up fields."""

import gstools
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz_paper.baselines.kriging.ordinary import Variogram, kriged, kriging, ordinary_kriging
from riesz_paper.regression.covariates import Covariates

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 5, (40, 2))
VALUES = RNG.normal(3.0, 1.0, 40)
OTHERS = RNG.uniform(0, 5, (15, 2))
FIELD_POINTS, NORMALS = RNG.uniform(0, 10, (300, 2)), RNG.normal(size=300)
MODELS = {"exponential": gstools.Exponential, "spherical": gstools.Spherical}


def logs(sill, length, nugget):
    return Variogram(*(jnp.log(jnp.asarray(v)) for v in (sill, length, nugget)))


@pytest.mark.parametrize("shape", MODELS)
def test_mean_and_variance_are_those_of_gstools(shape):
    model = MODELS[shape](dim=2, var=1.3, len_scale=1.7, nugget=0.2, rescale=1.0)
    krige = gstools.krige.Ordinary(model, POINTS.T, VALUES)
    wanted, wanted_variance = krige(OTHERS.T)
    variogram, points = logs(1.3, 1.7, 0.2), jnp.asarray(POINTS)
    covariance = variogram.covariance(shape, points, points) + 0.2 * jnp.eye(40)
    cross = variogram.covariance(shape, points, jnp.asarray(OTHERS))
    mean, variance = ordinary_kriging(
        covariance, jnp.asarray(VALUES), cross, jnp.full(15, 1.3 + 0.2)
    )
    np.testing.assert_allclose(mean, wanted, rtol=1e-8)
    np.testing.assert_allclose(variance, wanted_variance, rtol=1e-8)


def test_without_a_nugget_the_data_are_interpolated():
    points, values = jnp.asarray(POINTS), jnp.asarray(VALUES)
    variogram = logs(1.0, 1.0, 1e-30)
    mean, variance = kriged(variogram, "exponential", points, values, points)
    np.testing.assert_allclose(mean, VALUES, atol=1e-5)
    np.testing.assert_allclose(variance, 0.0, atol=1e-5)


@pytest.fixture(scope="module")
def field():
    """200 places with values of a field whose variogram is known, and 100 others."""
    points = jnp.asarray(FIELD_POINTS)
    covariance = np.asarray(logs(1.0, 1.5, 0.1).measured("exponential", points))
    values = 20 + np.linalg.cholesky(covariance) @ NORMALS
    known, rest = (Covariates(some, {}, {}) for some in np.split(FIELD_POINTS, [200]))
    return known, values[:200], rest, values[200:]


def test_the_variogram_of_a_known_field_is_found_and_its_intervals_cover(field):
    known, target, rest, truth = field
    trained = kriging()(known, target, seed=0)
    found, scale = trained.variogram, trained.standard.spread**2
    slope = scale * np.exp(found.log_sill - found.log_range)  # at distance 0: truly 1 / 1.5
    assert 0.4 < slope < 1.2, slope
    assert 0.02 < scale * np.exp(found.log_nugget) < 0.3, found
    low, high = np.quantile(trained(rest), [0.05, 0.95], axis=0)
    covered = np.mean((low < truth) & (high > truth))
    assert 0.8 < covered < 0.98, covered


def test_a_constant_that_is_added_to_the_data_is_added_to_predictions(field):
    known, target, rest, _ = field
    low, high = (kriging()(known, target + c, seed=0)(rest) for c in (0.0, 1e3))
    np.testing.assert_allclose(high, low + 1e3, rtol=1e-6)


def test_other_seeds_start_elsewhere_and_end_at_the_same_variogram(field):
    known, target, _, _ = field
    first, second = (kriging()(known, target, seed=seed).variogram for seed in (0, 3))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert a != b
        np.testing.assert_allclose(a, b, atol=0.05)


def test_an_unknown_shape_is_told():
    with pytest.raises(RieszError, match="did you mean 'spherical'"):
        kriging("sperical")


def test_a_target_for_other_places_is_told():
    with pytest.raises(RieszError, match="39 values for 40 places"):
        kriging()(Covariates(POINTS, {}, {}), VALUES[1:], seed=0)

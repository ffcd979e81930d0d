"""Gaussian processes of places, and of places and other quantities."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

from riesz.errors import RieszError
from riesz.priors.kernels import Matern32, Matern52
from riesz_paper.baselines.gaussian_process import (
    CoordinateField,
    OnCoordinates,
    additive_log_gp,
    gp_on_coordinates,
    sites_of,
    trend_effects,
)
from riesz_paper.baselines.standard import standard_of
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.gaussian import JITTER, GaussianModel, conditioned, cost, trained_part
from riesz_paper.regression.method import normal_draws

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 1, (120, 2))
KNOWN = np.arange(120) < 80


def error_of(draws, truth):
    return np.mean(np.abs(np.median(draws, axis=0) - truth))


def test_a_field_that_varies_along_one_axis_gets_a_short_length_there():
    target = 4 + np.sin(9 * POINTS[:, 0]) + 0.05 * RNG.normal(size=120)
    places = Covariates(POINTS, {}, {})
    trained = gp_on_coordinates()(places.subset(KNOWN), target[KNOWN], seed=0)
    along_x, along_y = trained.conditioned.model.scales["field"]["log_length"]
    assert along_y - along_x > 1
    assert error_of(trained(places.subset(~KNOWN)), target[~KNOWN]) < 0.08


def test_effects_of_secondaries_and_categories_are_found():
    zinc = np.exp(RNG.normal(size=120))
    rock = np.where(RNG.uniform(size=120) < 0.5, "chalk", "clay")
    target = np.exp(0.5 * np.tanh(np.log(zinc)) + 0.7 * (rock == "clay") + POINTS[:, 0])
    places = Covariates(POINTS, {"Zn": zinc}, {"rock": tuple(rock.tolist())})
    trained = additive_log_gp()(places.subset(KNOWN), target[KNOWN], seed=0)
    error = error_of(trained(places.subset(~KNOWN)), target[~KNOWN])
    assert error < 0.05 * target.std(), error
    with pytest.raises(RieszError, match="no number Zn"):
        trained(Covariates(POINTS, {}, places.categories))


# Every trend, kernel and form of lengths at each run; all pairings in the long one.
QUICK = {("zero", 1.5, 1), ("level", 2.5, 2), ("linear", 1.5, 2)}
PAIRINGS = [
    pytest.param(
        *(trend, kernel, nu, lengths),
        marks=() if (trend, nu, len(lengths)) in QUICK else pytest.mark.slow,
        id=f"{trend}-{nu}-{len(lengths)}",
    )
    for trend in ("zero", "level", "linear")
    for kernel, nu in ((Matern32(), 1.5), (Matern52(), 2.5))
    for lengths in ([0.3], [0.2, 0.7])
]


@pytest.mark.parametrize(("trend", "kernel", "nu", "lengths"), PAIRINGS)
def test_at_fixed_scales_it_is_scikit_learns_process(trend, kernel, nu, lengths):
    """Predictions, noise included, and the marginal likelihood."""
    sd, noise = 0.8, 0.2
    target = 5 + POINTS @ np.array([2.0, -1.0]) + 0.3 * np.sin(9 * POINTS[:, 0])
    places = Covariates(POINTS[KNOWN], {}, {})
    sites, standard = sites_of(places), standard_of(target[KNOWN])
    effects = trend_effects(trend, sites) | {"field": CoordinateField(kernel, len(lengths) == 1)}
    scales = {name: {} for name in effects}
    scales["field"] = {"log_sd": jnp.log(sd), "log_length": jnp.log(jnp.asarray(lengths))}
    model = GaussianModel(effects, scales, jnp.log(noise))
    measured = standard.scaled(target[KNOWN])
    trained = OnCoordinates(conditioned(model, sites, measured, jnp.ones(80)), standard)
    draws = trained(Covariates(POINTS[~KNOWN], {}, {}))

    # Its slopes need scaled coordinates, and its lengths then are in their unit.
    scaled = (POINTS - POINTS[KNOWN].mean(axis=0)) / POINTS[KNOWN].std(axis=0)
    in_scaled = np.broadcast_to(lengths, 2) / POINTS[KNOWN].std(axis=0)
    covariance = ConstantKernel(sd**2) * Matern(in_scaled, nu=nu)
    if trend == "level":
        covariance = covariance + ConstantKernel(9.0)
    if trend == "linear":
        covariance = covariance + ConstantKernel(9.0) * DotProduct(1.0)
    oracle = GaussianProcessRegressor(covariance, alpha=noise**2 + JITTER, optimizer=None)
    oracle.fit(scaled[KNOWN], np.asarray(measured))
    mean, sd_of = oracle.predict(scaled[~KNOWN], return_std=True)
    sd_of = np.hypot(sd_of, noise)
    wanted = normal_draws(standard.centre + standard.spread * mean, standard.spread * sd_of)
    np.testing.assert_allclose(draws, wanted, rtol=1e-8)
    minus, _ = cost(trained_part(model), model, trained_part(model), sites, measured, jnp.ones(80))
    likelihood = -float(minus) - 40 * np.log(2 * np.pi)
    np.testing.assert_allclose(likelihood, oracle.log_marginal_likelihood_value_, rtol=1e-8)


@pytest.mark.slow
def test_a_linear_trend_goes_on_where_a_level_returns():
    target = 50 + 20 * POINTS[:, 0] + 0.1 * RNG.normal(size=120)
    places = Covariates(POINTS, {}, {})
    far = Covariates(np.array([[3.0, 0.5]]), {}, {})
    by = {
        trend: np.median(gp_on_coordinates(Matern52(), trend=trend)(places, target, seed=0)(far))
        for trend in ("level", "linear")
    }
    assert abs(by["linear"] - 110) < 3
    assert by["level"] < 95

"""Gaussian processes of places, and of places and other quantities."""

import numpy as np
import pytest

from riesz.baselines.gaussian_process import additive_log_gp, gp_on_coordinates
from riesz.errors import RieszError
from riesz.regression.covariates import Covariates

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

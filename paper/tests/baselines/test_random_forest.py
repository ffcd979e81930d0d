"""A forest's draws are training targets, by weights of leaves, and cover made-up data."""

import numpy as np
import pytest

from riesz.errors import RieszError
from riesz_paper.baselines.random_forest import leaf_weights, random_forest
from riesz_paper.regression.covariates import Covariates


def made_up(rng, size):
    """The spread of the target depends on where one is."""
    points = rng.uniform(size=(size, 2))
    zinc = np.exp(rng.normal(size=size))
    rock = np.where(rng.uniform(size=size) < 0.5, "chalk", "clay")
    mean = 5 + np.log(zinc) + 2 * (rock == "clay")
    target = mean + (0.2 + points[:, 0]) * rng.normal(size=size)
    return Covariates(points, {"Zn": zinc}, {"rock": tuple(rock.tolist())}), target


RNG = np.random.default_rng(0)
TRAINING, TARGET = made_up(RNG, 400)


def test_quantiles_cover_made_up_data():
    at, truth = made_up(RNG, 300)
    draws = random_forest(200)(TRAINING, TARGET, seed=0)(at)
    assert np.isin(draws, TARGET).all()
    low, middle, high = np.quantile(draws, [0.1, 0.5, 0.9], axis=0)
    assert 0.72 < np.mean((low < truth) & (truth < high)) < 0.92
    assert np.mean(np.abs(middle - truth)) < 0.6 * np.mean(np.abs(truth - np.median(truth)))
    wide = at.points[:, 0] > 0.5
    assert np.mean((high - low)[wide]) > 1.1 * np.mean((high - low)[~wide])


def test_a_training_place_counts_by_its_share_of_the_leaf():
    training = np.array([[0, 5], [0, 6], [1, 6]])
    found = leaf_weights(training, np.array([[0, 6], [1, 5]]))
    np.testing.assert_allclose(found, [[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]])


def test_the_same_seed_gives_the_same_draws_and_another_does_not():
    first, again, other = (
        random_forest(20)(TRAINING, TARGET, seed=seed)(TRAINING) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_column_that_is_missing_at_a_prediction_is_told():
    trained = random_forest(5)(TRAINING, TARGET, seed=0)
    with pytest.raises(RieszError, match="no category rock"):
        trained(Covariates(TRAINING.points, TRAINING.numbers, {}))

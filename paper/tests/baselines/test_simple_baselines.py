"""The nearest well and the plane."""

import numpy as np
import pytest
import scipy.stats

from riesz.errors import RieszError
from riesz_paper.baselines.linear_trend import linear_trend
from riesz_paper.baselines.nearest_well import nearest_well
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.method import Method, Predictor

RNG = np.random.default_rng(0)
POINTS = 1e5 + RNG.uniform(0, 1e5, (30, 2))
TARGET = 4500 + 1e-3 * POINTS @ np.array([1.0, -2.0]) + RNG.normal(size=30)
PLACES = Covariates(POINTS, {}, {})


@pytest.mark.parametrize("method", [nearest_well(), linear_trend()])
def test_each_is_a_method(method):
    assert isinstance(method, Method)
    trained = method(PLACES, TARGET, seed=0)
    assert isinstance(trained, Predictor)
    assert trained(PLACES).shape[1] == 30


def test_the_nearest_well_gives_its_value_with_the_spread_of_neighbours():
    trained = nearest_well()(PLACES, TARGET, seed=0)
    near = Covariates(POINTS[[3, 7]] + 1e-3, {}, {})
    np.testing.assert_allclose(trained(near).mean(axis=0), TARGET[[3, 7]], rtol=1e-12)
    distance = np.linalg.norm(POINTS[:, None] - POINTS[None], axis=2) + np.diag(np.full(30, np.inf))
    apart = TARGET - TARGET[distance.argmin(axis=1)]
    np.testing.assert_allclose(trained.sd, np.sqrt(np.mean(apart**2)), rtol=1e-12)


def test_wells_at_the_same_place_are_each_others_neighbours():
    twice = Covariates(np.concatenate([POINTS, POINTS]), {}, {})
    trained = nearest_well()(twice, np.concatenate([TARGET, TARGET + 2]), seed=0)
    np.testing.assert_allclose(trained.sd, 2.0)


def test_the_planes_predictive_is_students_t_of_least_squares():
    trained = linear_trend()(PLACES, TARGET, seed=0)
    at = Covariates(np.array([[0.0, 0.0], [3e5, 1e5]]), {}, {})
    matrix = np.column_stack([np.ones(30), POINTS / 1e5])
    new = np.column_stack([np.ones(2), at.points / 1e5])
    beta, squares, *_ = np.linalg.lstsq(matrix, TARGET)
    scale = np.sqrt(squares[0] / 27 * (1 + np.sum(new @ np.linalg.inv(matrix.T @ matrix) * new, 1)))
    wanted = new @ beta + scale * scipy.stats.t.ppf([[0.9005]], 27)
    np.testing.assert_allclose(trained(at)[900], wanted[0], rtol=1e-10)


def test_a_plane_has_exact_coverage_for_normal_errors():
    rng, inside = np.random.default_rng(1), []
    for _ in range(400):
        points = rng.normal(size=(7, 2))
        values = 50 + points @ np.array([2.0, 1.0]) + rng.normal(size=7)
        trained = linear_trend()(Covariates(points[:6], {}, {}), values[:6], seed=0)
        low, high = np.quantile(trained(Covariates(points[6:], {}, {})), [0.05, 0.95])
        inside.append(low < values[6] < high)
    assert abs(np.mean(inside) - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 400)


def test_a_plane_through_three_places_is_refused():
    with pytest.raises(RieszError, match="more than 3 places"):
        linear_trend()(Covariates(POINTS[:3], {}, {}), TARGET[:3], seed=0)

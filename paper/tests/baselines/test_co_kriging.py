"""Many outputs at once: valid covariances, and secondaries that are made use of."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz_paper.baselines.kriging.co_kriging import Coregionalised, co_kriging
from riesz_paper.baselines.kriging.multi_output import as_matrix, primary_moments
from riesz_paper.baselines.kriging.ordinary import kriging
from riesz_paper.regression.covariates import Covariates

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 1, (80, 2))
TARGET = 5 + np.sin(6 * POINTS[:, 0]) + 0.5 * RNG.normal(size=80)
KNOWN = np.arange(80) < 50


def mean_error(draws, truth):
    return np.mean(np.abs(np.median(draws, axis=0) - truth))


def trained_and_predicted(numbers, seed=0):
    places = Covariates(POINTS, numbers, {})
    trained = co_kriging()(places.subset(KNOWN), TARGET[KNOWN], seed=seed)
    return trained(places.subset(~KNOWN))


def test_the_covariance_of_all_outputs_is_positive_definite_and_symmetric():
    rng = np.random.default_rng(1)
    parameters = {
        "log_ranges": jnp.log(jnp.array([0.05, 0.4])),
        "factors": jnp.asarray(rng.normal(size=(3, 3, 3))),
    }
    covariance = as_matrix(Coregionalised().covariance(parameters, jnp.asarray(POINTS)))
    np.testing.assert_allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_secondary_that_equals_the_primary_makes_predictions_near_perfect(seed):
    error = mean_error(trained_and_predicted({"same": 2 * TARGET}, seed), TARGET[~KNOWN])
    assert error < 0.02 * TARGET.std(), error


def test_a_secondary_that_is_noise_does_not_harm():
    noise = np.exp(np.random.default_rng(2).normal(size=80))
    error = mean_error(trained_and_predicted({"noise": noise}), TARGET[~KNOWN])
    places = Covariates(POINTS, {}, {})
    alone = kriging()(places.subset(KNOWN), TARGET[KNOWN], seed=0)
    assert error < 1.15 * mean_error(alone(places.subset(~KNOWN)), TARGET[~KNOWN])


def test_moments_are_those_of_the_kriging_equations():
    """With Lagrange multipliers for one mean an output, written out in full."""
    points, outputs = jnp.asarray(POINTS[:12]), Coregionalised()
    rng = np.random.default_rng(3)
    measured = jnp.asarray(rng.normal(size=(12, 2)))
    parameters = outputs.initial(points, measured)
    mean, variance = primary_moments(outputs, parameters, points, measured[:9], measured[9:, 1:])
    full = np.asarray(as_matrix(outputs.covariance(parameters, points)))
    known, unknown = np.r_[:9, 12:24], np.r_[9:12]
    of_output = np.repeat(np.eye(2), [9, 12], axis=0)
    system = np.block([[full[np.ix_(known, known)], of_output], [of_output.T, np.zeros((2, 2))]])
    right = np.concatenate([full[np.ix_(known, unknown)], [[1.0] * 3, [0.0] * 3]])
    weights = np.linalg.solve(system, right)
    values = np.concatenate([measured[:9, 0], measured[:, 1]])
    np.testing.assert_allclose(mean, weights[:21].T @ values, rtol=1e-8)
    left = np.diag(full)[unknown] - np.sum(weights * right, axis=0)
    np.testing.assert_allclose(variance, left, rtol=1e-8)


def test_a_secondary_that_is_missing_at_a_prediction_is_told():
    places = Covariates(POINTS, {"Zn": TARGET**2}, {})
    trained = co_kriging()(places.subset(KNOWN), TARGET[KNOWN], seed=0)
    with pytest.raises(RieszError, match="no number Zn, which the model was trained with"):
        trained(Covariates(POINTS, {"Ni": TARGET}, {}))

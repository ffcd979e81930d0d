"""New measurements elsewhere: the state, what shifts it, and noise of its kind."""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.prediction.made_up_draws import made_up_draws

import riesz as rz
from riesz.mesh.location import locate
from riesz.prediction.new_points import new_points
from riesz.prediction.statistics import over_places
from riesz.priors import correlated_residual as local_effect
from riesz.priors.correlated_residual import LocalEffect
from riesz.priors.kernels import with_scales

PLACES = np.array([[0.31, 0.42], [0.31, 0.42], [0.77, 0.13]])


def at_places(draws, **words):
    return new_points(draws, PLACES, locate(draws.mesh, PLACES), **words)


def test_a_measurement_is_as_wide_as_state_and_noise_together():
    draws = made_up_draws(num_draws=400, noise=3.0)
    there = at_places(draws)
    state, measured = there.states(slice(None)), there.new_measurements(slice(None))
    wanted = np.sqrt(state.var(axis=0) + 9.0)
    # By chance noise and state go together a little: a twentieth, for four hundred draws.
    np.testing.assert_allclose(measured.std(axis=0), wanted, rtol=0.1)
    np.testing.assert_allclose(measured.mean(axis=0), state.mean(axis=0), atol=1e-9)


def test_noise_alone_has_the_quantiles_of_its_distribution():
    draws = made_up_draws(num_draws=400, noise=2.0)
    there = at_places(draws)
    noise = there.new_measurements(slice(None)) - there.states(slice(None))
    low, high = np.quantile(noise, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([low, high], [[-3.92] * 3, [3.92] * 3], rtol=0.02)


def test_maps_share_what_is_open_and_ensembles_draw_it_for_each_place():
    draws = made_up_draws(num_draws=200, noise=2.0)
    of_map = at_places(draws).new_measurements(slice(None))
    np.testing.assert_array_equal(of_map[:, 0], of_map[:, 1])
    drawn = at_places(draws, together=False)
    noise = drawn.new_measurements(slice(None)) - drawn.states(slice(None))
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 4 / np.sqrt(200)


def test_places_may_be_asked_for_in_parts(monkeypatch):
    draws = made_up_draws()
    there = at_places(draws)
    whole = over_places(there.new_measurements, 3, draws.num_draws, (0.5,), (100.0,))
    monkeypatch.setattr("riesz.prediction.statistics.NUMBERS_AT_ONCE", draws.num_draws)
    parts = over_places(there.new_measurements, 3, draws.num_draws, (0.5,), (100.0,))
    np.testing.assert_array_equal(parts.sd, whole.sd)
    np.testing.assert_array_equal(parts.quantiles[0.5], whole.quantiles[0.5])
    np.testing.assert_array_equal(parts.exceedance[100.0], whole.exceedance[100.0])


@pytest.mark.parametrize(
    ("likelihood", "predictor"),
    [
        (rz.Gaussian(0.3), 1.2),
        (rz.StudentT(0.3, 6.0), 1.2),
        (rz.observe.LogNormal(0.3), 1.2),
        (rz.observe.LogNormal(0.3, link="log"), 1.2),
        (rz.Poisson(4.0), 1.2),
        (rz.observe.NegativeBinomial(2.5, 4.0), 1.2),
        (rz.observe.Binomial(12.0), 1.2),
    ],
)
def test_scatter_on_the_host_is_that_of_the_likelihood(likelihood, predictor):
    parameters = {
        name: np.asarray(value, float).reshape(1, 1)
        for name, value in likelihood.parameters({}).items()
    }
    # Evenly spread probabilities: means over them are integrals over the distribution.
    probability = (np.arange(20_000)[None] + 0.5) / 20_000
    states = np.full(probability.shape, predictor)
    drawn = likelihood.observation_distribution.quantile(probability, states, parameters)
    known = likelihood.distribution(jnp.asarray([predictor]), {})
    assert drawn.mean() == pytest.approx(float(known.mean[0]), rel=2e-3)
    assert drawn.var() == pytest.approx(float(known.variance[0]), rel=3e-2)
    middle = likelihood.observation_distribution.location(states[:, :1], parameters).item()
    median = isinstance(likelihood, rz.observe.LogNormal)
    assert middle == pytest.approx(np.median(drawn) if median else drawn.mean(), rel=2e-3)


def test_between_a_few_lengths_what_neighbours_share_is_that_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    local = LocalEffect(rng.uniform(size=(30, 2)), 0.5, 0.1)
    places = np.asarray(local.places)
    lengths = 0.1 * np.exp(0.3 * rng.normal(size=20))
    scales = np.column_stack([np.exp(0.3 * rng.normal(size=20)), lengths])
    weights = []
    for sd, length in scales:
        own = with_scales(local.kernel, np.array([sd, length])).matrix(places, places)
        weights.append(np.linalg.solve(own, np.linalg.cholesky(own) @ rng.normal(size=30)))
    points = rng.uniform(size=(40, 2))
    few = local.moments_at(points, np.hstack([scales, weights]))
    monkeypatch.setattr(local_effect, "MOST_LENGTHS", 1000)
    every = local.moments_at(points, np.hstack([scales, weights]))
    np.testing.assert_allclose(few.sd, every.sd, rtol=0.02, atol=1e-3)
    assert np.abs(few.mean - every.mean).max() < 0.02 * every.mean.std()

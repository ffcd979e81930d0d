"""The engine amortise: an encoder that is right for data it has never seen, and says when not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from tests.source_strengths import errors, response, source_problem

from riesz.amortise.encoder import Encoded, as_encoded, encoder, num_outputs
from riesz.amortise.engine import Amortise, candidates
from riesz.amortise.simulate import Variety
from riesz.errors import RieszError
from riesz.observe.likelihood import Gaussian
from riesz.problem.posing import with_observations

NOISE = 1.0
ENGINE = Amortise(
    width=24,
    features=24,
    readout_batches=20,
    encoder_width=16,
    encoder_layers=2,
    steps=1000,
    block_steps=1000,
    num_data=64,
    num_proposals=7,
    learning_rate=1e-2,
    num_examples=500,
)


@pytest.fixture(scope="module")
def problem():
    """Strengths of two sources, with much noise, so that little training is enough."""
    without_noise = source_problem()
    return with_observations(without_noise, without_noise.observations, Gaussian(NOISE))


@pytest.fixture(scope="module")
def amortised(problem):
    return ENGINE.train(problem, seed=1)


@pytest.fixture(scope="module")
def data_sets(problem):
    """From the exact solution, for strengths from the prior."""
    matrix, offset = response(problem)
    rng = np.random.default_rng(2)
    truths, noise = rng.normal(size=(5, 2)), rng.normal(size=(5, len(offset)))
    return offset + truths @ matrix.T + NOISE * noise


@eqx.filter_jit
def compared_with_its_family(q, point):
    family, root = q.family(), q.inverse_factor()
    unit = family.covariance() @ (root.T @ root)
    return unit, family.log_prob(point) - q.log_prob(point)


@pytest.mark.parametrize("num_coordinates", [1, 2, 5])
def test_an_encoded_gaussian_is_the_family_that_it_is_turned_into(num_coordinates):
    outputs = jr.normal(jr.key(num_coordinates), (num_outputs(num_coordinates),))
    unit, difference = compared_with_its_family(as_encoded(outputs), outputs[-num_coordinates:])
    np.testing.assert_allclose(unit, np.eye(num_coordinates), atol=1e-8)
    np.testing.assert_allclose(difference, 0.0, atol=1e-8)


@pytest.mark.slow
def test_an_untrained_encoder_gives_the_prior():
    examples = 5.0 + jr.normal(jr.key(0), (50, 6))
    q = encoder(examples, 3, jr.key(1), width=8, num_layers=2)(examples[0])
    np.testing.assert_array_equal(q.mean, np.zeros(3))
    np.testing.assert_array_equal(q.inverse_factor(), np.eye(3))


@pytest.mark.slow
def test_weighted_candidates_have_the_mean_of_the_posterior_even_near_a_wrong_q(problem, amortised):
    """For one data set, with truths drawn from its posterior, within 4 Monte-Carlo errors."""
    posterior = amortised.posterior(problem.observed)
    sd = jnp.sqrt(jnp.diagonal(posterior.coordinate_covariance()))
    near = Encoded(posterior.coordinate_mean() + 0.5 * sd, -jnp.log(0.8 * sd), jnp.zeros((2, 2)))
    truths, keys = exact_draws(amortised.simulator, posterior, 2000), jr.split(jr.key(3), 2000)

    def mean_of(key, truth):
        observed = posterior.problem.observed
        points, weights = candidates(amortised.simulator, near, observed, truth, key, 8)
        return weights @ points

    means = np.asarray(jax.jit(jax.vmap(mean_of))(keys, truths))
    gap = means.mean(axis=0) - np.asarray(truths).mean(axis=0)
    noise = np.asarray(truths).std(axis=0) / np.sqrt(len(truths))
    assert np.all(np.abs(gap) < 4 * noise), gap / noise
    assert np.all(means.std(axis=0) < 0.7 * np.asarray(truths).std(axis=0))


@eqx.filter_jit
def slope_and_curvature(simulator, observed):
    """Of the log-posterior at the origin."""

    def log_prob(place):
        return simulator.log_likelihood(observed, place) - 0.5 * place @ place

    origin = jnp.zeros(2)
    return jax.grad(log_prob)(origin), jax.hessian(log_prob)(origin)


def exact_draws(simulator, posterior, num_draws):
    """From the simulator's own posterior, which is Gaussian: the surrogate is affine."""
    slope, curvature = slope_and_curvature(simulator, posterior.problem.observed)
    covariance = np.linalg.inv(-np.asarray(curvature))
    draws = np.random.default_rng(4).multivariate_normal(
        covariance @ np.asarray(slope), covariance, num_draws
    )
    return jnp.asarray(draws)


@pytest.mark.slow
def test_the_posteriors_of_new_data_are_the_known_ones(amortised, data_sets):
    found = [errors(one) for one in amortised.posteriors(data_sets)]
    means, ratios = (np.array(part) for part in zip(*found, strict=True))
    assert np.abs(means).max() < 0.1, means
    assert np.abs(ratios - 1).max() < 0.05, ratios


@pytest.mark.slow
def test_data_sets_may_come_one_by_one_or_together(amortised, data_sets):
    together = amortised.posteriors(data_sets)
    for values, one in zip(data_sets, together, strict=True):
        alone = amortised.posterior(list(values))
        np.testing.assert_allclose(alone.coordinate_mean(), one.coordinate_mean(), rtol=1e-10)
        np.testing.assert_array_equal(one.problem.observations.values, values)
        assert (one.engine, one.seed, one.notes) == ("amortise", 1, ())


@pytest.mark.slow
def test_its_posteriors_know_the_states_that_go_with_the_unknowns(amortised, data_sets):
    posterior = amortised.posterior(data_sets[0])
    problem, one = posterior.problem, posterior.coordinate_mean()
    state = posterior.states(problem, jr.key(0), one[None])[0]
    exact = problem.state(one)
    assert np.linalg.norm(state - exact) < 0.01 * np.linalg.norm(exact)


@pytest.mark.slow
def test_training_lowers_the_loss_and_keeps_its_curves(amortised):
    loss = np.asarray(amortised.history["loss"])
    assert loss.shape == (ENGINE.steps,)
    assert loss[-50:].mean() < loss[:10].mean() - 1


@pytest.mark.slow
def test_data_unlike_those_of_the_training_are_told(amortised, data_sets):
    with pytest.warns(UserWarning, match="unlike those that the encoder was trained on"):
        posterior = amortised.posterior(1000 * data_sets[0])
    assert posterior.notes[0].code == "unlike_training"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), r"shape \(3,\), but the encoder was trained for 14 sensors"),
        (np.full(14, np.nan), "14 observed values are NaN or infinite, first that of sensor 0"),
        (["a"] * 14, "not all numbers"),
        (np.zeros((2, 14)), r"shape \(2, 14\)"),
    ],
)
def test_data_that_cannot_be_read_are_refused(amortised, values, message):
    with pytest.raises(RieszError, match=message):
        amortised.posterior(values)


@pytest.mark.slow
def test_a_surrogate_that_nothing_would_fit_is_refused(problem):
    with pytest.raises(RieszError, match="with 4000 features is too large to be solved for"):
        ENGINE.with_settings(features=4000).train(problem)


@pytest.mark.slow
def test_simulated_data_scatter_about_the_state_like_noise(amortised):
    simulator = amortised.simulator
    truths, told = eqx.filter_jit(simulator.readings)(jr.key(1), 2000, Variety())
    noise = np.asarray(told.values) - np.asarray(jax.jit(jax.vmap(simulator.predict))(truths))
    np.testing.assert_allclose(noise.std(axis=0), NOISE, rtol=0.1)

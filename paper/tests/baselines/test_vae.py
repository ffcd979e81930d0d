"""The autoencoder: sizes of the paper, right densities, and predictions that cover the truth."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

from riesz.errors import RieszError
from riesz_paper.baselines.vae.columns import columns_of
from riesz_paper.baselines.vae.model import VaePredictor, vae
from riesz_paper.baselines.vae.networks import fresh_networks
from riesz_paper.baselines.vae.settings import MODERN, PAPER
from riesz_paper.baselines.vae.training import Trained
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.method import NUM_DRAWS

FLOAT = np.dtype(float)


def made_up(num_places: int, seed: int) -> tuple[Covariates, np.ndarray]:
    """A target that two numbers and a category tell, but for noise of a tenth of it."""
    rng = np.random.default_rng(seed)
    lead, zinc = np.exp(rng.normal(size=(2, num_places)))
    rock = rng.choice(["chalk", "clay"], num_places)
    noise = np.exp(0.1 * rng.normal(size=num_places))
    target = 2 * lead**0.6 * zinc**-0.3 * np.where(rock == "clay", 2.0, 1.0) * noise
    points = rng.uniform(size=(num_places, 2))
    places = Covariates(points, {"Pb": lead, "Zn": zinc}, {"rock": tuple(rock.tolist())})
    return places, target


def num_parameters(tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)))


def test_networks_have_the_papers_number_of_parameters():
    networks = fresh_networks(3, PAPER, jr.key(0), FLOAT)
    assert num_parameters(networks.encoder) == 42_177
    assert num_parameters(networks.decoder) == 1_474


def test_the_encoder_gives_a_gaussian_with_any_covariance_and_its_divergence():
    networks = fresh_networks(3, PAPER, jr.key(1), FLOAT)
    q = networks.encoded(jnp.array([0.5, -1.0]), jnp.array([1.0, 0.2, -2.0]))
    reference = dist.MultivariateNormal(q.mean, scale_tril=q.factor())
    prior = dist.MultivariateNormal(jnp.zeros(10), jnp.eye(10))
    assert np.abs(np.tril(q.factor(), -1)).max() > 0.01
    np.testing.assert_allclose(q.kl_to_prior(), dist.kl_divergence(reference, prior), rtol=1e-10)


@pytest.mark.parametrize(
    ("likelihood", "reference"), [("gaussian", scipy.stats.norm), ("laplace", scipy.stats.laplace)]
)
def test_the_decoder_gives_mean_and_scale_of_the_likelihood(likelihood, reference):
    settings = dataclasses.replace(MODERN, likelihood=likelihood)
    networks = fresh_networks(1, settings, jr.key(2), FLOAT)
    x, codes, values = jnp.ones((5, 2)), jr.normal(jr.key(3), (5, 10)), jnp.linspace(-2, 2, 5)
    mean, raw = np.asarray(jax.vmap(networks.decoder)(jnp.concatenate([x, codes], axis=1))).T
    wanted = reference(mean, 0.01 + np.log1p(np.exp(raw))).logpdf(values)
    np.testing.assert_allclose(networks.observed(x, codes).log_prob(values), wanted, rtol=1e-10)
    np.testing.assert_allclose(networks.mean(x[0], codes[0]), mean[0])


@pytest.mark.slow
def test_predictions_follow_the_secondaries_and_cover_the_truth():
    training, target = made_up(150, seed=0)
    elsewhere, truth = made_up(60, seed=1)
    predictor = vae(MODERN)(training, target, seed=0)
    draws = predictor(elsewhere)
    assert draws.shape == (NUM_DRAWS, 60)
    assert (draws > 0).all()
    error = np.abs(np.median(draws, axis=0) - truth).mean()
    assert error < 0.25 * truth.std(), f"{error:.3f} of {truth.std():.3f}"
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    covered = np.mean((low <= truth) & (truth <= high))
    assert covered > 0.75, covered
    np.testing.assert_array_equal(predictor(elsewhere), draws)


@pytest.mark.slow
def test_the_papers_protocol_beats_the_mean():
    training, target = made_up(150, seed=0)
    elsewhere, truth = made_up(60, seed=1)
    draws = vae(PAPER)(training, target, seed=0)(elsewhere)
    assert np.abs(np.median(draws, axis=0) - truth).mean() < 0.6 * truth.std()


def test_standardised_columns_have_size_one_and_go_back():
    training, target = made_up(40, seed=2)
    columns = columns_of(training, target, logs=True)
    known = columns.known(training)
    assert known.shape == (40, 4)
    np.testing.assert_allclose(known[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(known[:, :2].std(axis=0), 1)
    np.testing.assert_array_equal(known[:, 2:].sum(axis=1), 1)
    np.testing.assert_allclose(columns.places(training).var(axis=0).mean(), 1)
    values = columns.standardised(target)
    np.testing.assert_allclose(columns.in_units(values[None, :])[0], target)


def test_a_level_not_seen_in_training_has_zeros():
    training, target = made_up(20, seed=2)
    columns = columns_of(training, target, logs=True)
    other = dataclasses.replace(training, categories={"rock": ("granite",) * 20})
    assert not columns.known(other)[:, 2:].any()


def test_a_prediction_without_a_column_of_training_is_refused():
    training, target = made_up(30, seed=3)
    untrained = Trained(fresh_networks(4, MODERN, jr.key(0), FLOAT))
    columns = columns_of(training, target, logs=True)
    predictor = VaePredictor(untrained, columns, training, 0, {})
    without = Covariates(training.points, {"Pb": training.numbers["Pb"]}, training.categories)
    with pytest.raises(RieszError, match="no number Zn"):
        predictor(without)


def test_targets_that_teach_nothing_are_refused():
    training, target = made_up(30, seed=3)
    with pytest.raises(RieszError, match="29 values for 30 places"):
        vae()(training, target[:29], seed=0)
    with pytest.raises(RieszError, match="not positive"):
        vae()(training, -target, seed=0)
    with pytest.raises(RieszError, match="the target has the same value"):
        vae()(training, np.ones(30), seed=0)

"""Answers of an encoder that exact solves vouch for: a field of 16 unknowns, gaps, other noise."""

import dataclasses
from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz.amortise.amortised import Amortised
from riesz.amortise.encoder import encoder
from riesz.amortise.engine import Amortise
from riesz.amortise.simulate import SensorData, Simulator, Variety
from riesz.density.reduced_basis import reduce_over_prior
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.kernels import Matern32
from riesz.problem.posing import inverse_problem

NOISE = 0.003
SIZE = 16
POINTS = np.random.default_rng(1).uniform(0.1, 0.9, (20, 2))
VARIETY = Variety(missing=0.3, noise_factor=2.0)


@lru_cache
def field_problem():
    """An unknown source, whose posterior is normal and known."""
    return inverse_problem(
        rectangle((10, 10)),
        diffusion(1.0) - source("f"),
        latents={"f": KarhunenLoeve(Matern32(length_scale=0.4), num_terms=SIZE)},
        observations=observations(POINTS, np.zeros(len(POINTS))),
        likelihood=Gaussian(NOISE),
        dirichlet={"boundary": 0.0},
    )


@lru_cache
def response():
    """What the sensors see of each coordinate, and of none."""
    problem = field_problem()
    places = jnp.concatenate([jnp.zeros((1, SIZE)), jnp.eye(SIZE)])
    seen = np.stack([np.asarray(problem.operator @ problem.state(one)) for one in places])
    return (seen[1:] - seen[:1]).T, seen[0]


def known(values, sd):
    """Mean and standard deviations, from the values that are there."""
    matrix, offset = response()
    there = np.isfinite(values)
    slopes = matrix[there] / sd[there, None]
    covariance = np.linalg.inv(np.eye(SIZE) + slopes.T @ slopes)
    white = (values[there] - offset[there]) / sd[there]
    return covariance @ slopes.T @ white, np.sqrt(np.diag(covariance))


def made_up(count, seed=0):
    """Data sets with gaps and noise of their own."""
    matrix, offset = response()
    rng = np.random.default_rng(seed)
    clean = offset + rng.normal(size=(count, SIZE)) @ matrix.T
    sds = NOISE * np.exp(rng.uniform(-0.6, 0.6, clean.shape))
    values = clean + sds * rng.normal(size=clean.shape)
    values[rng.uniform(size=clean.shape) < 0.15] = np.nan
    return values, sds


def worst_errors(fits, values, sds):
    exact = [known(*row) for row in zip(values, sds, strict=True)]
    return np.array([np.abs((fits.mean[k] - m) / s).max() for k, (m, s) in enumerate(exact)])


def prior_encoder():
    """One that gives the prior for all data."""
    return encoder(
        jr.normal(jr.key(1), (50, len(POINTS))),
        SIZE,
        jr.key(2),
        width=8,
        num_layers=1,
        noise_sd=jnp.full(len(POINTS), NOISE),
        reads_gaps=True,
    )


@lru_cache
def untrained():
    problem = field_problem()
    simulator = Simulator(problem, reduce_over_prior(problem))
    return Amortised(simulator, prior_encoder(), jnp.asarray(-np.inf), {}, 0, VARIETY)


@pytest.mark.slow
def test_a_wrong_encoder_does_no_harm_where_answers_are_checked():
    values, sds = made_up(4)
    found = untrained().posteriors_with_check(values, noise_sd=sds)
    assert set(found.verdicts) <= {"refined", "handed over"}
    assert worst_errors(found, values, sds).max() < 0.15


@pytest.mark.slow
def test_a_trained_encoder_for_a_field_is_right_or_says_so():
    engine = Amortise(model="reduced", missing=0.3, noise_factor=2.0, steps=1500, num_examples=500)
    amortised = engine.train(field_problem())
    values, sds = made_up(20)
    found = amortised.posteriors_with_check(values, noise_sd=sds)
    errors, flagged = worst_errors(found, values, sds), np.array(found.verdicts) == "doubtful"
    assert np.all((errors < 0.15) | flagged), errors
    assert flagged.mean() <= 0.1
    posteriors = amortised.build_posteriors(values, noise_sd=sds, checked=True)
    there = np.isfinite(values[0])
    np.testing.assert_allclose(posteriors[0].problem.observed, values[0][there])


@pytest.mark.slow
def test_simulated_data_have_gaps_and_noise_as_asked_for():
    simulator = untrained().simulator
    _, told = eqx.filter_jit(simulator.readings)(jr.key(0), 200, VARIETY)
    missing = 1 - np.asarray(told.present).mean()
    assert 0.1 < missing < 0.2  # on average half of the share
    factors = np.asarray(told.noise_sd) / NOISE
    assert 0.5 <= factors.min() < 0.6
    assert 1.7 < factors.max() <= 2.0


@pytest.mark.slow
def test_an_encoder_does_not_read_what_is_missing():
    own, values = prior_encoder(), jnp.arange(20.0)
    network = eqx.tree_at(
        lambda one: one.direct, own.network, jr.normal(jr.key(3), own.network.direct.shape)
    )
    own = eqx.tree_at(lambda one: one.network, own, network)
    gaps = jnp.arange(20) != 4
    first = own(SensorData(values, gaps))
    again = own(SensorData(values.at[4].set(99.0), gaps))
    np.testing.assert_array_equal(first.mean, again.mean)
    assert np.abs(own(SensorData(values)).mean - first.mean).max() > 0


def test_settings_that_do_not_fit_the_problem_are_refused():
    problem = field_problem()
    learned = eqx.tree_at(lambda one: one.likelihood, problem, Gaussian("sd"))
    with pytest.raises(RieszError, match="noise_factor is for independent noise of a known sd"):
        Amortise(model="reduced", noise_factor=2.0).check(learned)
    with pytest.raises(RieszError, match="works on mini-patches of a hierarchy"):
        Amortise().check(problem)
    with pytest.raises(RieszError, match=r"the setting noise_factor of amortise is 0\.5"):
        Amortise(noise_factor=0.5)


@pytest.mark.slow
def test_noise_that_the_encoder_has_not_met_is_refused():
    plain = dataclasses.replace(untrained(), variety=Variety())
    with pytest.raises(RieszError, match="trained for the noise of the problem alone"):
        plain.build_posteriors(np.zeros((1, 20)), noise_sd=0.1)
    with pytest.raises(RieszError, match="1 observed values are NaN or infinite"):
        plain.build_posteriors(np.where(np.arange(20) == 3, np.nan, 0.0)[None])

"""Contradictions are found where there are some, told with their places, and not found elsewhere.

A problem with a closed-form posterior: a source of known shape and a boundary value, both unknown.
"""

import dataclasses
import json
from functools import lru_cache
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tests.linear_gaussian import exact_posterior
from tests.prediction.made_up_draws import made_up_draws

import riesz as rz
from riesz.diagnose.criticism.findings import LEVELS
from riesz.diagnose.criticism.law import law_of
from riesz.diagnose.criticism.predictive_checks import misfit_of
from riesz.diagnose.criticism.residuals import can_be_left_out
from riesz.notes import Note
from riesz.observe.distributions import (
    BinomialDistribution,
    LogNormalDistribution,
    NegativeBinomialDistribution,
    PoissonDistribution,
    StudentDistribution,
)
from riesz.posterior.family import full_rank_of
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.draws import Observed, exactly

NOISE, COUNT, NUM_DRAWS = 0.05, 40, 400
PLACES = np.random.default_rng(0).uniform(0.05, 0.95, (COUNT, 2))
LATENTS = {"f": dist.Normal(5.0, 3.0), "edge": dist.Normal(0.0, 1.0)}


@lru_cache
def posed():
    return rz.inverse_problem(
        rz.rectangle((4, 4)),
        rz.diffusion(1.0) - rz.source("f"),
        latents=LATENTS,
        dirichlet={"boundary": "edge"},
        observations=rz.observations(PLACES, np.zeros(COUNT)),
        likelihood=rz.Gaussian(NOISE),
    )


def response():
    """What sensors see by the coordinates: the first term of the solution, and the edge."""
    bump = 16 / np.pi**4 * np.prod(np.sin(np.pi * PLACES), axis=1)
    return np.stack([0.5 * 3 * bump, np.ones(COUNT)], axis=1), 0.5 * 5 * bump


def data(seed, coordinates=None):
    """Of the model itself, unless coordinates are given."""
    rng = np.random.default_rng(seed)
    matrix, offset = response()
    own = rng.normal(size=2) if coordinates is None else np.asarray(coordinates)
    return offset + matrix @ own + NOISE * rng.normal(size=COUNT)


def posterior_of(values, likelihood=None):
    matrix, offset = response()
    covariance = np.linalg.inv(np.eye(2) + matrix.T @ matrix / NOISE**2)
    mean = covariance @ matrix.T @ (values - offset) / NOISE**2
    problem = dataclasses.replace(
        posed(),
        observed=jnp.asarray(values),
        observations=rz.observations(PLACES, values),
        likelihood=likelihood or posed().likelihood,
    )
    q = full_rank_of(jnp.asarray(mean), jnp.asarray(np.linalg.cholesky(covariance)))
    return Posterior(problem, q, ExactStates(), {}, "formula", 0)


def draws_of(posterior, values, seed=0):
    """Those that `misfit` would make, without a solve."""
    matrix, offset = response()
    key, _ = jr.split(jr.key(seed))
    predicted = offset + np.asarray(posterior.sample(key, NUM_DRAWS)) @ matrix.T
    new = predicted + NOISE * np.random.default_rng(seed).normal(size=predicted.shape)
    noise = exactly(np.full(predicted.shape, NOISE))
    none = np.zeros(COUNT, bool)
    observed = Observed(PLACES, values, none, exactly(predicted), noise, exactly(new))
    some = made_up_draws(num_draws=NUM_DRAWS)
    return dataclasses.replace(some, observed=observed, seed=seed)


def found(values, seed=0, **about):
    posterior = posterior_of(values)
    return misfit_of(posterior, draws_of(posterior, values, seed), **about)


def kinds(misfit):
    return {one.kind for one in misfit.findings}


def test_residuals_are_those_of_exact_posteriors_without_each_observation():
    values = data(1)
    matrix, offset = response()
    precision = np.linalg.inv(matrix @ matrix.T + NOISE**2 * np.eye(COUNT))
    exact = precision @ (values - offset) / np.sqrt(np.diag(precision))
    np.testing.assert_allclose(found(values).residuals, exact, atol=0.05)


@pytest.mark.slow
def test_the_words_of_a_posterior_come_with_its_residuals():
    misfit = rz.diagnose.misfit(exact_posterior(), num_draws=50)
    assert misfit.residuals.shape == misfit.k_hat.shape == (12,)
    assert isinstance(misfit.findings, tuple)
    assert str(misfit).startswith(misfit.words or "no observation, place or prior contradicts")


def test_the_law_of_residuals_is_that_of_the_prior_and_the_noise():
    matrix, _ = response()
    covariance = np.linalg.inv(np.eye(2) + matrix.T @ matrix / NOISE**2)
    draws = np.random.default_rng(0).multivariate_normal(np.ones(2), covariance, 50)
    law = law_of(draws @ matrix.T / NOISE, draws)
    exact = NOISE**2 * np.linalg.inv(matrix @ matrix.T + NOISE**2 * np.eye(COUNT))
    np.testing.assert_allclose(law.variances(), np.diag(exact), rtol=1e-6)
    np.testing.assert_allclose(law.covariance(np.eye(COUNT)), exact, atol=1e-8)
    copies = law.copies(np.random.default_rng(1), 20_000)
    np.testing.assert_allclose(np.cov(copies, rowvar=False), exact, atol=0.05)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_law_without_some_observations_is_that_of_the_others(is_shared):
    rng = np.random.default_rng(2)
    prior = rng.normal(size=(6, 3))
    lower = np.tril(rng.normal(size=(6, 6)) / 4, -1) + np.eye(6) if is_shared else np.eye(6)
    white = np.linalg.inv(lower)
    sd = 1 / np.sqrt(np.sum(white**2, axis=0))
    coordinates = rng.normal(size=(50, 3))
    law = law_of(coordinates @ prior.T @ white.T, coordinates, sd[:, None] * white.T)
    kept, left = np.array([0, 1, 3, 4]), np.array([2, 5])
    covariance = prior @ prior.T + lower @ lower.T
    exact = np.linalg.inv(covariance[np.ix_(kept, kept)]) * np.outer(sd[kept], sd[kept])
    found = law.without(left).covariance(np.eye(6))
    np.testing.assert_allclose(found[np.ix_(kept, kept)], exact, atol=1e-8)
    scores = np.linalg.solve(covariance, np.arange(6.0)) * sd
    alone = np.linalg.solve(covariance[np.ix_(kept, kept)], np.arange(6.0)[kept]) * sd[kept]
    np.testing.assert_allclose(law.scores_without(left, scores)[kept], alone, atol=1e-8)


def share_contradicted(seeds):
    return np.mean([bool(found(data(seed), seed).findings) for seed in seeds])


def test_levels_of_all_kinds_add_up_to_less_than_one_in_twenty():
    assert sum(LEVELS.values()) <= 0.05


def test_a_right_model_is_hardly_ever_contradicted():
    assert share_contradicted(range(100, 120)) <= 0.1


@pytest.mark.slow
def test_a_right_model_is_contradicted_in_one_of_twenty_problems_at_most():
    # 200 draws of a share of 0.05 exceed 0.08 once in fifty times.
    assert share_contradicted(range(1000, 1200)) <= 0.08


def test_the_page_has_the_rates_of_the_benchmark():
    root = Path(__file__).parents[2]
    page = (root / "paper/docs/blind.md").read_text(encoding="utf-8")
    rows = json.loads((root / "results/bench-misfit.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        cells = (row["what"], row["observations"], row["unknowns"], f"{100 * row['told']:.1f} %")
        assert f"| {' | '.join(map(str, cells))} |" in page
    right = {row["what"]: row["told"] for row in rows if row["what"].startswith("right")}
    assert all(told <= 0.05 for what, told in right.items() if "limits" not in what)
    assert max(right.values()) <= 0.1  # the law of residuals is not exact beside limits


def test_a_missing_source_is_told_with_the_sensors_near_it():
    middle = np.array([0.7, 0.7])
    squares = np.sum((PLACES - middle) ** 2, axis=1)
    misfit = found(data(2) + 0.2 * np.exp(-squares / (2 * 0.12**2)))
    region = next(one for one in misfit.findings if one.kind == "region")
    assert np.sqrt(squares[list(region.places)]).mean() < 0.25
    assert region.note.code == "region"
    assert region.note.values["mean"] > 0
    assert all(0 < one.p <= LEVELS[one.kind] for one in misfit.findings)


def test_a_prior_off_by_three_sd_is_named_with_its_values():
    misfit = found(data(3, [0.0, 3.0]))
    (prior,) = [one for one in misfit.findings if one.kind == "prior"]
    assert prior.names == ("edge",)
    values = prior.note.values
    assert values["size"] > 0
    np.testing.assert_allclose([values["low"], values["high"]], [-1.96, 1.96], rtol=1e-6)


def test_heavy_tails_under_normal_noise_are_found():
    rng = np.random.default_rng(4)
    matrix, offset = response()
    heavy = offset + matrix @ np.zeros(2) + NOISE * rng.standard_t(2, size=COUNT)
    misfit = found(heavy)
    assert kinds(misfit) & {"tails", "observation"}
    worst = int(np.argmax(np.abs(misfit.residuals)))
    assert any(worst in one.places for one in misfit.findings)


def test_one_wrong_value_is_told_by_its_name_and_moves_no_region():
    values = data(5)
    values[7] += 0.5
    misfit = found(values, labels=[f"well {i}" for i in range(COUNT)])
    assert misfit.findings[0].kind == "observation"
    assert misfit.findings[0].places == (7,)
    note = misfit.findings[0].note
    assert (note.code, note.values["which"]) == ("observation", "well 7")
    assert not kinds(misfit) & {"region", "neighbours", "covariate"}


def test_a_covariate_that_was_left_out_is_found():
    depth = np.random.default_rng(6).normal(size=COUNT)
    misfit = found(data(6) - 0.06 * depth, covariates={"depth": depth})
    (trend,) = [one for one in misfit.findings if one.kind == "covariate"]
    assert trend.names == ("depth",)
    assert (trend.note.code, trend.note.values["covariate"]) == ("residuals_fall", "depth")


def test_noise_that_is_larger_or_smaller_than_stated_is_told():
    matrix, offset = response()
    noise = NOISE * np.random.default_rng(7).normal(size=COUNT)
    for factor, code in ((2.0, "noise_larger"), (0.4, "noise_smaller")):
        misfit = found(offset + matrix @ np.zeros(2) + factor * noise)
        assert [one.note.code for one in misfit.findings if one.kind == "spread"] == [code]
        assert kinds(misfit) <= {"spread", "observation"}


def in_time(noise):
    """Eight places, read five times each."""
    places, times = np.repeat(PLACES[:8], 5, axis=0), np.tile(np.arange(5.0), 8)
    posterior = posterior_of(data(12))
    draws = draws_of(posterior, data(12))
    values = draws.observed.predicted.values().mean(axis=0) + noise(times, np.repeat(range(8), 5))
    observations = rz.observations(places, values, times=times)
    problem = dataclasses.replace(posterior.problem, observations=observations)
    observed = dataclasses.replace(draws.observed, points=places, values=values)
    posterior = dataclasses.replace(posterior, problem=problem)
    return misfit_of(posterior, dataclasses.replace(draws, observed=observed))


def test_what_changes_in_time_is_told_apart_from_what_a_place_has():
    rng = np.random.default_rng(13)
    own = NOISE * rng.normal(size=COUNT)
    drift = in_time(lambda times, place: own + 0.04 * (times - 2))
    assert ("time",) in [one.names for one in drift.findings if one.kind == "covariate"]
    level = in_time(lambda times, place: own + 0.15 * (place == 3))
    (region,) = [one for one in level.findings if one.kind == "region"]
    assert region.places == (15, 16, 17, 18, 19)
    walk = NOISE * np.cumsum(rng.normal(size=(8, 5)), axis=1).ravel()
    alike = in_time(lambda times, place: walk)
    assert ("time",) in [one.names for one in alike.findings if one.kind == "neighbours"]


def test_a_posterior_in_doubt_is_told_before_the_model_is():
    values = data(14, [0.0, 3.0])
    posterior = dataclasses.replace(posterior_of(values), history={"r_hat": jnp.array([1.2])})
    misfit = misfit_of(posterior, draws_of(posterior, values))
    assert misfit.caution == Note("posterior_in_doubt", reason=Note("r_hat_high", value=1.2))
    assert str(misfit).startswith(str(misfit.caution))
    assert misfit.findings[0].note.values["unknown"] == "edge"


def test_what_does_not_go_with_the_observations_is_refused():
    with pytest.raises(rz.RieszError, match=r"covariate 'depth' has shape \(3,\): give a number"):
        found(data(8), covariates={"depth": np.ones(3)})
    with pytest.raises(rz.RieszError, match="2 labels for 40 observations"):
        found(data(8), labels=["a", "b"])


def test_limits_are_drawn_below_themselves():
    values, below = data(9), np.arange(COUNT) % 4 == 0
    posterior = posterior_of(values, rz.Censored(NOISE, jnp.asarray(below)))
    draws = draws_of(posterior, values)
    # What lies below limits that are far above is anything that the model foretells.
    observed = dataclasses.replace(draws.observed, values=values + 1.0 * below, censored=below)
    far = misfit_of(posterior, dataclasses.replace(draws, observed=observed))
    assert stats.kstest(far.residuals[below], "norm").pvalue > 0.01
    low = dataclasses.replace(draws.observed, values=values - 0.4 * below, censored=below)
    told = misfit_of(posterior, dataclasses.replace(draws, observed=low))
    assert (told.residuals[below] < -3).all()


def test_noise_that_readings_share_is_looked_through():
    """Levels of groups, which are in the noise, contradict nothing; a wrong reading still does."""
    groups = np.arange(COUNT) // 8
    levels = np.random.default_rng(1).normal(size=5)
    shared = rz.observe.GroupedNormal(NOISE, groups.astype(str), level_sd=1.0)
    values = data(10, [0.0, 0.0]) + 0.5 * levels[groups]
    values[3] += 0.5
    posterior = posterior_of(values, shared)
    draws = draws_of(posterior_of(data(10, [0.0, 0.0])), values)
    misfit = misfit_of(posterior, draws)
    assert [one.places for one in misfit.findings if one.kind == "observation"] == [(3,)]
    others = np.delete(misfit.residuals, 3)
    assert 0.6 < np.sqrt(np.mean(others**2)) < 1.4
    assert not can_be_left_out(shared, 10_000)


def test_noise_of_an_unknown_kind_is_told_by_new_measurements():
    class Own(rz.observe.AbstractLikelihood):
        def distribution(self, predicted, z):
            return dist.Laplace(predicted, NOISE)

        def describe(self):
            return "of my own"

    values = data(11)
    values[5] += 1.0
    posterior = posterior_of(values, Own())
    misfit = misfit_of(posterior, draws_of(posterior_of(data(11)), values))
    assert np.isnan(misfit.k_hat).all()
    assert int(np.argmax(np.abs(misfit.residuals))) == 5


@pytest.mark.parametrize(
    ("scatter", "exact", "sd"),
    [
        (StudentDistribution(4.0), stats.t(4, 3.0, 0.5), 0.5 * np.sqrt(2)),
        (LogNormalDistribution("identity"), stats.lognorm(0.4, scale=3.0), None),
        (PoissonDistribution("log"), stats.poisson(3.0), None),
        (NegativeBinomialDistribution("log"), stats.nbinom(2.5, 2.5 / 5.5), None),
        (BinomialDistribution("logit"), stats.binom(12, 0.3), None),
    ],
)
def test_tails_are_those_of_the_distribution(scatter, exact, sd):
    values = np.array([0.0, 1.0, 4.0, 9.0]) + (0.0 if scatter.is_discrete else 0.5)
    expected = np.full(
        (2, 4), exact.median() if isinstance(scatter, LogNormalDistribution) else exact.mean()
    )
    spread = np.full((2, 4), exact.std() if sd is None else sd)
    trials = 12 if isinstance(scatter, BinomialDistribution) else 1
    found = scatter.tails(values / trials, expected / trials, spread / trials)
    less = exact.cdf(values - 1) if scatter.is_discrete else exact.cdf(values)
    at = exact.logpmf(values) if scatter.is_discrete else exact.logpdf(values)
    np.testing.assert_allclose(np.exp(found.below[0]), less, atol=1e-9)
    np.testing.assert_allclose(found.at[1], at, atol=1e-8)
    np.testing.assert_allclose(np.exp(found.above[0]), exact.sf(values), rtol=1e-6, atol=1e-12)

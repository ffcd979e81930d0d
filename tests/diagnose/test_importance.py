"""Importance sampling of q against the exact posterior: right ones pass, wrong ones are told."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from tests.linear_gaussian import PRIOR_MEAN, PRIOR_SD, known_posterior, linear_problem

from riesz.diagnose.importance import (
    BUDGET,
    Effort,
    affordable,
    check_moments,
    importance_check,
    most_parts,
    wants_more,
    with_importance_check,
)
from riesz.errors import RieszError
from riesz.notes import Note
from riesz.posterior.family import EmpiricalDraws, full_rank_of
from riesz.posterior.importance import weight_draws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.posterior.sobol import spread_normals


def posterior_of(*, shift=0.0, scale=1.0) -> Posterior:
    """The exact posterior of a linear problem, moved along its first coordinate and stretched."""
    mean, covariance = known_posterior()
    factor = np.linalg.cholesky(np.asarray(covariance))
    moved = np.asarray(mean) + shift * np.sqrt(np.diag(covariance)) * np.eye(len(mean))[0]
    family = full_rank_of(jnp.asarray(moved), jnp.asarray(scale * factor))
    return Posterior(linear_problem(), family, ExactStates(), engine="gaussian-vi(surrogate)")


def codes(notes):
    return [note.code for note in notes]


def test_the_exact_posterior_passes():
    found = importance_check(posterior_of())
    assert found.k_hat < 0.5
    assert found.effective_draws == pytest.approx(1000, rel=1e-6)
    np.testing.assert_allclose(found.mean_shift, 0.0, atol=1e-6)
    np.testing.assert_allclose(found.sd_ratio, 1.0, atol=1e-6)
    assert found.warnings == ()


def test_one_that_is_too_narrow_is_told():
    found = importance_check(posterior_of(scale=0.25))
    assert found.k_hat > 0.7
    assert codes(found.warnings) == ["importance_failed"]


def test_one_that_is_too_wide_is_told_by_its_corrected_sd():
    found = importance_check(posterior_of(scale=2.0))
    assert found.k_hat < 0.5
    np.testing.assert_allclose(found.sd_ratio, 2.0, rtol=0.2)
    assert "importance_wide" in codes(found.warnings)
    assert "(good)" not in str(found)


@pytest.mark.slow
def test_one_that_is_moved_is_told_and_corrected():
    posterior = posterior_of(shift=1.0)
    found = importance_check(posterior)
    mean, covariance = known_posterior()
    sd = np.sqrt(np.diag(covariance))
    gap = (found.mean - np.asarray(mean)) / sd
    assert np.all(np.abs(gap) < np.maximum(4 * found.mean_shift_error, 0.15)), gap
    assert "importance_shift" in codes(found.warnings)


def test_a_posterior_carries_its_check_and_its_warnings():
    posterior = with_importance_check(posterior_of(scale=0.25))
    found = posterior.check
    assert found is not None
    assert not found.is_applied
    assert "k-hat" in str(found)
    assert codes(posterior.notes) == ["importance_failed"]
    assert posterior_of().check is None


def test_a_q_that_is_the_posterior_is_left_as_it_is():
    right = posterior_of()
    posterior = with_importance_check(right)
    assert posterior.check is not None
    assert not posterior.check.is_applied
    assert posterior.distribution is right.distribution


@pytest.mark.parametrize(
    ("shift", "scale"),
    [
        (0.4, 0.85),
        pytest.param(0.7, 1.0, marks=pytest.mark.slow),
        pytest.param(0.0, 1.6, marks=pytest.mark.slow),
    ],
)
def test_where_weights_vouch_for_it_the_posterior_is_the_corrected_one(shift, scale):
    """Its draws, and all that is computed of them, within four Monte-Carlo errors."""
    posterior = with_importance_check(posterior_of(shift=shift, scale=scale), seed=2)
    check, (mean, covariance) = posterior.check, known_posterior()
    assert check is not None
    assert check.is_applied
    assert check.effective_draws > 750
    assert posterior.notes == ()
    error = 1 / np.sqrt(check.effective_draws)
    sd = np.sqrt(np.diag(covariance))
    gap = (np.asarray(posterior.coordinate_mean()) - mean) / sd
    np.testing.assert_allclose(gap, 0.0, atol=4 * error)
    ratio = np.sqrt(np.diag(posterior.coordinate_covariance())) / sd
    np.testing.assert_allclose(ratio, 1.0, atol=4 * error / np.sqrt(2))
    np.testing.assert_allclose(
        posterior.mean("w"), PRIOR_MEAN + PRIOR_SD * mean, atol=4 * error * PRIOR_SD * sd.max()
    )
    assert "good, as corrected" in str(check)
    with pytest.raises(RieszError, match="was corrected by its check"):
        importance_check(posterior)


def test_no_mean_is_off_by_more_than_the_scatter_of_weights_allows():
    """A quantity in proportion to the weights themselves is off by just that much."""
    draws = spread_normals(0, 1000, 2)
    logs = 0.15 * draws[:, 0] - 0.05 * draws[:, 1] ** 2
    found, weights = weighed(draws, logs), np.exp(logs) / np.exp(logs).sum()
    for quantity in (draws[:, 0], draws[:, 1] ** 2, weights):
        bias = abs(weights @ quantity - quantity.mean()) / quantity.std()
        assert bias <= found.largest_bias * (1 + 1e-9)
    assert bias == pytest.approx(found.largest_bias)


def test_few_effective_draws_do_not_stand_for_the_posterior():
    found = weighed(spread_normals(0, 1000, 2), np.zeros(1000))
    worth = dataclasses.replace(found, k_hat=0.6, effective_draws=250.0)
    assert worth.is_adequate
    assert not dataclasses.replace(worth, effective_draws=150.0).is_adequate
    assert not dataclasses.replace(worth, k_hat=0.75).is_adequate
    assert not dataclasses.replace(worth, num_draws=251).is_adequate  # q is close enough


def test_more_draws_are_weighed_until_they_are_worth_enough_or_the_time_is_over():
    found = weighed(spread_normals(0, 1000, 2), np.zeros(1000))
    assert not wants_more(found)
    assert wants_more(dataclasses.replace(found, k_hat=0.6, effective_draws=300.0))
    assert not wants_more(dataclasses.replace(found, k_hat=0.6, effective_draws=850.0))
    assert not wants_more(dataclasses.replace(found, k_hat=0.8, effective_draws=300.0))
    assert [most_parts(Effort(1000, seconds, True)) for seconds in (1.0, 100.0, 200.0)] == [8, 2, 1]


def test_draws_have_no_density_to_weigh():
    sampler = dataclasses.replace(
        posterior_of(), distribution=EmpiricalDraws(jnp.zeros((1, 4, 3))), engine="mcmc"
    )
    with pytest.raises(RieszError, match="draws that have no density to weigh"):
        importance_check(sampler)


def weighed(draws, logs):
    """The check of plain standard normal draws with these log-weights."""
    names = tuple(f"x{i}" for i in range(draws.shape[1]))
    return check_moments(weight_draws(draws, logs), names, None)


def test_moments_of_a_few_draws_are_no_reason_to_call_a_narrow_q_wide():
    """In many dimensions one draw has nearly all the weight, and hence no spread."""
    draws = spread_normals(0, 1000, 64)
    found = weighed(draws, 0.5 * (1 - 0.5**2) * np.sum(draws**2, axis=1))
    assert found.effective_draws < 2
    (note,) = found.warnings
    assert note.code == "importance_failed"


def test_a_single_draw_with_all_the_weight_is_told_in_plain_words():
    found = weighed(spread_normals(0, 1000, 2), np.r_[0.0, np.full(999, -1000.0)])
    (note,) = found.warnings
    assert (note.code, note.values["value"]) == ("importance_failed", np.inf)
    assert "nan" not in str(found)


def test_an_offset_that_is_tolerated_hides_no_other():
    right = weighed(spread_normals(0, 1000, 2), np.zeros(1000))
    found = dataclasses.replace(
        right, mean_shift=np.array([0.24, 0.6]), mean_shift_error=np.array([0.01, 0.15])
    )
    assert Note("importance_shift", unknown="x1", shift=0.6, error=0.15) in found.warnings


def test_the_largest_of_many_offsets_may_be_chance():
    """Weights by six of four thousand coordinates say nothing of the means."""
    for seed in range(3):
        draws = spread_normals(seed, 1000, 4000)
        found = weighed(draws, 0.5 * (1 - 0.75**2) * np.sum(draws[:, :6] ** 2, axis=1))
        assert codes(found.warnings) == ["importance_narrow"]


def test_as_many_draws_as_the_budget_has_room_for():
    assert affordable(1e-4, 2).num_draws == 1000
    numbers = [affordable(seconds, 2).num_draws for seconds in (0.1, 0.4, 1.0, 3.0, 30.0)]
    assert numbers == [1000, 512, 128, 64, 64]
    for seconds in (0.1, 0.4, 1.0, 3.0):
        found = affordable(seconds, 2)
        assert found.is_affordable
        assert found.seconds == found.num_draws * seconds <= BUDGET
    assert not affordable(30.0, 2).is_affordable
    assert affordable(1e-4, 10**6).num_draws == 128  # a gigabyte of them
    assert not affordable(1e-4, 10**8).is_affordable


def test_few_draws_are_told_with_what_they_can_see():
    many = weighed(spread_normals(0, 1000, 2), np.zeros(1000))
    few = weighed(spread_normals(0, 64, 2), np.zeros(64))
    assert few.verdict == "good as far as 64 draws tell"
    assert "rests on 64 draws, which may all have missed what has less than 4.7% of q" in str(few)
    assert many.verdict == "good"
    assert "rests" not in str(many)


def test_few_draws_allow_of_a_lighter_tail_only():
    """10^(1 / (1 - k)) draws are wanted for weights with a tail of shape k."""
    many = weighed(spread_normals(0, 1000, 2), np.zeros(1000))
    heavy = dataclasses.replace(many, k_hat=0.5)
    assert heavy.warnings == ()
    (note,) = dataclasses.replace(heavy, num_draws=64).warnings
    assert (note.code, note.values["num_draws"]) == ("importance_failed_sparse", 64)
    assert note.values["limit"] == pytest.approx(0.446, abs=1e-3)
    assert dataclasses.replace(heavy, num_draws=128).warnings == ()

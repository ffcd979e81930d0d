"""Chains that agree, chains that do not, and what their draws are worth."""

import numpy as np
import pytest

from riesz.posterior.chains import Agreement, agreement, split_chains, split_r_hat


def autoregressive(correlation, shape, seed=0):
    """Stationary chains of unit variance whose draws remember the last one by so much."""
    rng = np.random.default_rng(seed)
    noise, draws = rng.normal(size=shape), np.empty(shape)
    draws[:, 0] = noise[:, 0]
    for i in range(1, shape[1]):
        draws[:, i] = correlation * draws[:, i - 1] + np.sqrt(1 - correlation**2) * noise[:, i]
    return draws


def of(draws):
    return Agreement(*(float(values[0]) for values in agreement(draws[:, :, None])))


def test_independent_draws_are_worth_themselves():
    found = of(np.random.default_rng(1).normal(size=(4, 1000)))
    assert found.r_hat < 1.005
    assert abs(found.effective_draws / 4000 - 1) < 0.15
    assert abs(found.tail_draws / 4000 - 1) < 0.25


@pytest.mark.parametrize("correlation", [-0.3, 0.5, 0.9])
def test_draws_that_remember_are_worth_the_share_that_theory_gives(correlation):
    found = of(autoregressive(correlation, (4, 20_000)))
    share = (1 - correlation) / (1 + correlation)
    assert abs(found.effective_draws / (80_000 * share) - 1) < 0.15


def test_chains_in_two_places_disagree():
    draws = np.random.default_rng(2).normal(size=(4, 500))
    draws[3] += 5
    found = of(draws)
    assert found.r_hat > 1.3
    assert found.effective_draws < 20


def test_a_drift_common_to_all_chains_is_seen():
    draws = np.random.default_rng(3).normal(size=(4, 500)) + np.linspace(0, 3, 500)
    assert split_r_hat(draws) < 1.01
    assert split_r_hat(split_chains(draws)) > 1.1
    assert of(draws).r_hat > 1.1


def test_chains_of_one_centre_and_two_widths_disagree():
    draws = np.random.default_rng(4).normal(size=(4, 500))
    draws[:2] *= 4
    assert split_r_hat(split_chains(draws)) < 1.02
    assert of(draws).r_hat > 1.1


def test_without_moments_ranks_still_tell():
    """A Cauchy variable has no variance that chains could agree on."""
    assert of(np.random.default_rng(5).standard_cauchy(size=(4, 1000))).r_hat < 1.01


def test_chains_that_stand_still_in_two_places_disagree_without_end():
    assert of(np.repeat([[0.0], [1.0]], 10, axis=1)).r_hat == np.inf


def test_what_cannot_be_told_is_nan():
    for draws in (np.zeros((2, 10)), np.ones((2, 3)), np.full((2, 10), np.nan)):
        assert np.isnan(of(draws)).all()


def test_arviz_finds_the_same():
    arviz = pytest.importorskip("arviz")
    draws = autoregressive(0.6, (4, 501), seed=6)
    found = of(draws)
    np.testing.assert_allclose(found.r_hat, arviz.rhat(draws), rtol=1e-10)
    np.testing.assert_allclose(found.effective_draws, arviz.ess(draws), rtol=0.02)
    np.testing.assert_allclose(found.tail_draws, arviz.ess(draws, method="tail"), rtol=0.05)

"""Variational engines against a posterior known in closed form, in any units."""

from functools import lru_cache

import numpy as np
import pytest
from tests.pairs import pair
from tests.source_strengths import errors, source_problem

KILOMETRE, FOOT = 1000.0, 0.3048


@lru_cache
def emulated(length=1.0, value=1.0):
    return pair("gaussian-vi(surrogate)", width=16, features=16).run(source_problem(length, value))


@lru_cache
def relaxed(epsilon_rel, length=1.0, value=1.0):
    engine = pair("gaussian-vi(relaxed)", epsilon_rel=epsilon_rel)
    return engine.run(source_problem(length, value))


def check_against_the_known_posterior(posterior):
    means, ratios = errors(posterior)
    assert abs(means).max() < 0.05, means
    assert abs(ratios - 1).max() < 0.03, ratios


def check_the_same(posterior, other):
    sd = np.sqrt(np.diag(posterior.coordinate_covariance()))
    gap = np.asarray(posterior.coordinate_mean() - other.coordinate_mean())
    np.testing.assert_allclose(gap / sd, 0.0, atol=1e-3)
    ratio = np.sqrt(np.diag(other.coordinate_covariance())) / sd
    np.testing.assert_allclose(ratio, 1.0, atol=1e-3)


@pytest.mark.slow
def test_the_surrogate_finds_the_known_posterior():
    check_against_the_known_posterior(emulated())


@pytest.mark.slow
def test_relaxed_with_a_small_epsilon_finds_the_known_posterior():
    check_against_the_known_posterior(relaxed(0.05))


@pytest.mark.slow
def test_units_change_no_posterior_of_relaxed():
    check_the_same(relaxed(1.0), relaxed(1.0, KILOMETRE, FOOT))


@pytest.mark.slow
def test_units_change_no_posterior_of_the_surrogate():
    check_the_same(emulated(), emulated(KILOMETRE, FOOT))

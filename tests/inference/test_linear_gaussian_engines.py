"""Variational engines against a posterior known in closed form, in any units."""

from functools import lru_cache

import numpy as np
import pytest
from tests.source_strengths import errors, source_problem

from riesz.engines.emulate.engine import Emulate
from riesz.engines.relax.engine import Relax

KILOMETRE, FOOT = 1000.0, 0.3048


@lru_cache
def emulated(length=1.0, value=1.0):
    return Emulate(width=16, features=16).run(source_problem(length, value))


@lru_cache
def relaxed(epsilon_rel, length=1.0, value=1.0):
    engine = Relax(
        epsilon_rel=epsilon_rel,
        surrogate="nodal",
        norm="exact",
        steps=40,
        block_steps=20,
        tail=0.5,
        num_samples=8,
        polishing_draws=8,
    )
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
def test_emulate_finds_the_known_posterior():
    check_against_the_known_posterior(emulated())


@pytest.mark.slow
def test_relax_with_a_small_epsilon_finds_the_known_posterior():
    check_against_the_known_posterior(relaxed(0.05))


@pytest.mark.slow
def test_units_change_no_posterior_of_relax():
    check_the_same(relaxed(1.0), relaxed(1.0, KILOMETRE, FOOT))


@pytest.mark.slow
def test_units_change_no_posterior_of_emulate():
    check_the_same(emulated(), emulated(KILOMETRE, FOOT))


@pytest.mark.slow
def test_units_change_no_posterior_of_relax_with_a_network_on_mini_patches():
    engine = Relax(
        epsilon_rel=1.0, width=16, features=16, prior_steps=200, steps=200, block_steps=50
    )
    posteriors = [engine.run(source_problem(*units)) for units in ((1.0, 1.0), (KILOMETRE, FOOT))]
    check_the_same(*posteriors)

"""Levels of fields: what one direction of many tells, against the normal posterior it is of."""

import numpy as np
import pytest

import riesz as rz
from riesz.diagnose.criticism.findings import LEVELS, PRIOR
from riesz.diagnose.criticism.prior import of_field, of_level, prior_conflicts

COUNT, NUM_DRAWS = 20, 800
SHARES = np.linspace(0.99, 0.05, COUNT)
"""Of the prior's variance, that data take away along each coordinate."""

SLOPES = np.exp(-0.3 * np.arange(COUNT))
"""By which coordinates move the level."""


def drawn(seed, shift=0.0):
    """Draws after data of the model, or of a field that is off along its level."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=COUNT) + shift * SLOPES / np.linalg.norm(SLOPES)
    sd = np.sqrt(1 - SHARES)
    mean = SHARES * truth + np.sqrt(SHARES) * sd * rng.normal(size=COUNT)
    return mean + sd * rng.normal(size=(NUM_DRAWS, COUNT))


def test_a_level_that_is_off_is_told_where_the_length_of_all_is_usual():
    found = [drawn(seed, shift=3.0) for seed in range(100)]
    by_level, by_length = (
        np.mean([of(own)[0] < LEVELS[PRIOR] / 2 for own in found])
        for of in (lambda own: of_level(own, own @ SLOPES), of_field)
    )
    assert by_level > 0.5
    assert by_level > 2 * by_length


def test_levels_of_the_model_itself_are_as_rare_as_they_say():
    p = np.array([of_level(own, own @ SLOPES)[0] for own in map(drawn, range(400))])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p < level) == pytest.approx(level, abs=3 * np.sqrt(level / 400))


def test_a_level_says_nothing_where_it_is_not_known():
    own = drawn(0)
    assert of_level(own[:70], own[:70] @ SLOPES) is None  # too few draws for so many
    assert of_level(own, np.exp(2 * own @ SLOPES)) is None  # not linear
    assert of_level(own, np.zeros(NUM_DRAWS)) is None  # a field that never moves
    unlearned = np.zeros(COUNT)
    unlearned[-1] = 1.0
    assert of_level(own, own @ unlearned) is None


def test_a_level_is_told_once_by_the_name_of_its_field():
    problem = rz.inverse_problem(
        rz.interval(24),
        rz.diffusion(1.0) - rz.source("f"),
        latents={"f": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=COUNT)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations([0.5], [0.0]),
        likelihood=rz.Gaussian(0.1),
    )
    own = 0.1 * np.random.default_rng(0).normal(size=(NUM_DRAWS, COUNT))
    own -= 4 * SLOPES / np.linalg.norm(SLOPES)
    (found,) = prior_conflicts(problem.latents, own, {"f": own @ SLOPES})
    assert found.names == ("f",)
    assert (found.note.code, found.note.values["field"]) == ("prior_level", "f")
    assert found.note.values["size"] == pytest.approx(-4.0, abs=0.05)

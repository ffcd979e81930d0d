"""Draws of an approximate density, and the weights that make them ones of the exact one."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from tests.linear_gaussian import linear_problem

from riesz.arrays import evenly_spaced
from riesz.density import exact
from riesz.density.exact import DensityErrors, SolvedStates, correct_draws
from riesz.errors import EngineError
from riesz.method.base import Inferred, TargetDensity
from riesz.notes import Note
from riesz.posterior.density import AbstractRecordDensity
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates


class Approximate(AbstractRecordDensity):
    """A density that nobody asks for a value."""

    problem: Any

    def record(self, coordinates):
        raise NotImplementedError

    def log_likelihood_of(self, coordinates, record):
        raise NotImplementedError


@pytest.fixture
def exact_sample(monkeypatch):
    """What becomes of draws whose exact densities are so much larger than the approximate ones."""

    def with_log_ratios(draws, logs):
        def solved(problem, states, places):
            return SolvedStates(np.asarray(places), np.zeros((len(places), 1)))

        errors = DensityErrors(np.zeros((logs.size, 1)), np.array(logs, dtype=float).ravel())
        monkeypatch.setattr(exact, "solve_at", solved)
        monkeypatch.setattr(exact, "density_errors", lambda density, exact: errors)
        many = {"r_hat": jnp.ones(1), "effective_draws": jnp.full(1, 1e6)}
        calm = {"diverging": jnp.zeros(draws.shape[:2], bool)}
        result = Inferred(EmpiricalDraws(jnp.asarray(draws)), many | calm)
        target = TargetDensity(Approximate(linear_problem()), ("a",))
        return correct_draws(target, result, ExactStates(), logs.size, jr.key(0))

    return with_log_ratios


def by_chain(result):
    return np.asarray(result.distribution.by_chain)


def test_weights_turn_draws_of_one_normal_into_those_of_another(exact_sample):
    """Of N(0, 1) into N(0.5, 0.8^2), whose weights are bounded."""
    draws = np.random.default_rng(0).normal(size=(4, 2000, 1))
    logs = (-0.5 * ((draws - 0.5) / 0.8) ** 2 + 0.5 * draws**2)[..., 0]
    found = exact_sample(draws, logs)
    assert found.notes == ()
    effective = float(found.history["effective_draws"][0])
    assert effective < logs.size
    error, again = 1 / np.sqrt(effective), by_chain(found)
    assert abs(again.mean() - 0.5) < 4 * error
    assert abs(again.std() - 0.8) < 4 * error
    np.testing.assert_array_equal(found.history["log_ratio"], logs)


def test_draws_without_an_exact_state_are_not_drawn_again(exact_sample):
    draws = np.arange(40.0).reshape(2, 20, 1)
    logs = np.where(draws[..., 0] % 2 == 0, 0.0, np.nan)
    again = by_chain(exact_sample(draws, logs))
    assert (again % 2 == 0).all()
    assert (again[0] < 20).all()
    assert (again[1] >= 20).all()
    with pytest.raises(EngineError, match="solved exactly at none of the draws"):
        exact_sample(draws, np.full((2, 20), np.nan))


def test_chains_keep_their_weights_against_each_other(exact_sample):
    """Of three, one is where the exact posterior has less, and one where it has nothing."""
    draws = np.repeat(np.arange(3.0), 40).reshape(3, 40, 1)
    logs = np.broadcast_to(np.log([[1.0], [0.6], [np.nan]]), (3, 40))
    again = by_chain(exact_sample(draws, logs))
    assert [(again == chain).sum() for chain in range(3)] == [75, 45, 0]


def test_weights_with_a_heavy_tail_are_told(exact_sample):
    draws = np.random.default_rng(1).normal(size=(4, 500, 1))
    found = exact_sample(draws, 2 * draws[..., 0] ** 2)
    k_hat = float(found.history["k_hat"])
    assert found.notes[-1] == Note("reduced_k_hat", value=k_hat, limit=0.7)


def test_draws_are_chosen_evenly():
    np.testing.assert_array_equal(evenly_spaced(9, 3), [0, 4, 8])
    np.testing.assert_array_equal(evenly_spaced(3, 10), [0, 1, 2])

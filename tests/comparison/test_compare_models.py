"""Two linear models with normal noise, whose left-out densities are known by formulas."""

import dataclasses
import itertools
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.linear_gaussian import NOISE, exact_posterior, linear_problem, response

import riesz as rz
from riesz.comparison.blocks import spatial_blocks
from riesz.comparison.compare import compare
from riesz.comparison.drawn import foretold_by_draws, of_draws, without
from riesz.comparison.found import BLOCKS, KRIGING, ONE, PLANE
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior

NUM_BLOCKS = 4


@lru_cache
def integrated(noise=NOISE):
    """As `conditional` leaves it, where nothing but the linear unknowns is unknown."""
    problem = dataclasses.replace(linear_problem(), likelihood=rz.Gaussian(noise))
    draws = EmpiricalDraws(jnp.zeros((1, 2, 3)))
    return Posterior(problem, draws, ExactStates(), {}, "conditional", 0)


def left_out_exactly(noise, block):
    """Log-densities given those outside the block, by conditional normal distributions."""
    matrix, offset = response()
    covariance = matrix @ matrix.T + noise**2 * np.eye(12)
    misfit = np.asarray(linear_problem().observed) - offset
    found = np.zeros(12)
    for number in np.unique(block):
        own, rest = block == number, block != number
        gain = covariance[np.ix_(own, rest)] @ np.linalg.inv(covariance[np.ix_(rest, rest)])
        mean = gain @ misfit[rest]
        spread = covariance[np.ix_(own, own)] - gain @ covariance[np.ix_(rest, own)]
        found[own] = stats.norm.logpdf(misfit[own], mean, np.sqrt(np.diag(spread)))
    return found


@pytest.fixture(scope="module")
def found():
    return compare({"right": integrated(), "noisy": integrated(4 * NOISE)}, blocks=NUM_BLOCKS)


def test_differences_are_those_of_exact_fits_without_each_observation_and_each_block(found):
    for how, block in ((ONE, np.arange(12)), (BLOCKS, found.block)):
        exact = left_out_exactly(NOISE, block) - left_out_exactly(4 * NOISE, block)
        apart = found.difference("right", "noisy", how=how)
        assert apart.mean == pytest.approx(exact.mean(), rel=1e-6)
        np.testing.assert_allclose(
            found.model("right").scores(how).log_density,
            left_out_exactly(NOISE, block),
            rtol=1e-6,
        )
    error = stats.sem(
        left_out_exactly(NOISE, np.arange(12)) - left_out_exactly(4 * NOISE, np.arange(12))
    )
    assert found.difference("right", "noisy", how=ONE).error == pytest.approx(error, rel=1e-6)


def test_kriging_and_a_plane_stand_beside_and_a_verdict_is_given(found):
    assert [one.name for one in found.models] == ["right", "noisy", KRIGING, PLANE]
    assert found.lacking is None
    told = " ".join(found.words)
    assert "right: physics helps here" in told
    assert "right foretells left-out blocks better than noisy" in told
    assert "left out by blocks (4)" in str(found)
    assert {row["model"] for row in found.rows()} == {"right", "noisy", KRIGING, PLANE}
    assert all(np.isfinite(row["better_by"]) for row in found.pairs())


def test_a_model_ties_with_itself():
    found = compare([integrated(), integrated()], blocks=NUM_BLOCKS)
    for how, score in itertools.product((ONE, BLOCKS), ("log_density", "crps", "error")):
        apart = found.difference("model 1", "model 2", how=how, score=score)
        assert (apart.mean, apart.error, apart.low, apart.high) == (0, 0, 0, 0)
    assert "model 1 and model 2 cannot be told apart" in " ".join(found.words)


@pytest.fixture(scope="module")
def drawn():
    return of_draws(exact_posterior(), 2000, 0)


def test_weights_of_draws_leave_blocks_out_as_exact_posteriors_do(drawn):
    block = spatial_blocks(np.asarray(linear_problem().observations.points), 6)
    groups = [np.flatnonzero(block == one) for one in range(6)]
    found = foretold_by_draws(drawn, groups, 0)
    exact = left_out_exactly(NOISE, block)
    reliable = ~found.doubtful[block]
    assert reliable.sum() >= 6
    np.testing.assert_allclose(found.log_densities[reliable], exact[reliable], atol=0.15)


def test_a_block_that_weights_cannot_leave_out_is_fitted_without(drawn):
    groups = [np.arange(9), np.arange(9, 12)]
    left = np.arange(12) < 9
    matrix, offset = response()
    kept = np.asarray(linear_problem().observed) - offset
    precision = np.eye(3) + matrix[~left].T @ matrix[~left] / NOISE**2
    mean = np.linalg.solve(precision, matrix[~left].T @ kept[~left] / NOISE**2)
    asked = []

    def again(number):
        asked.append(number)
        rng = np.random.default_rng(0)
        draws = rng.multivariate_normal(mean, np.linalg.inv(precision), 2000)
        family = EmpiricalDraws(jnp.asarray(draws)[None])
        return dataclasses.replace(exact_posterior(), distribution=family)

    found = foretold_by_draws(drawn, groups, 0, again, num_draws=2000)
    assert asked[0] == 0
    assert found.how[0] == "refit"
    exact = left_out_exactly(NOISE, np.where(left, 0, 1))
    np.testing.assert_allclose(found.log_densities[:9], exact[:9], atol=0.2)


def test_left_out_observations_tell_nothing_of_the_unknowns():
    problem, left = linear_problem(), np.arange(12) < 4
    blind = without(problem, left)
    matrix, offset = response()
    one, other = (offset + matrix @ np.array(at) for at in ([0.0, 0, 0], [0.5, -1, 1]))
    logs = stats.norm.logpdf(np.asarray(problem.observed), [one, other], NOISE)[:, ~left].sum(
        axis=1
    )
    found = [
        float(blind.likelihood.log_prob(problem.observed, jnp.asarray(seen), {}))
        for seen in (one, other)
    ]
    assert found[1] - found[0] == pytest.approx(logs[1] - logs[0], abs=1e-6)


def test_different_observations_are_not_compared():
    problem = linear_problem()
    values = np.asarray(problem.observed).copy()
    values[3] += 1.0
    moved = dataclasses.replace(problem, observed=jnp.asarray(values))
    other = dataclasses.replace(integrated(), problem=moved)
    with pytest.raises(rz.RieszError, match=r"1 values differ, first of observation 3"):
        compare({"one": integrated(), "two": other})
    few = dataclasses.replace(problem, observed=jnp.asarray(values[:5]))
    with pytest.raises(rz.RieszError, match="there are 12 and 5"):
        compare({"one": integrated(), "two": dataclasses.replace(integrated(), problem=few)})
    with pytest.raises(rz.RieszError, match="40 blocks of 12 different places"):
        compare([integrated()], blocks=40)
    with pytest.raises(rz.RieszError, match="nothing to compare"):
        compare([])
    with pytest.raises(rz.RieszError, match="'kriging', which stands beside all"):
        compare({"kriging": integrated()})

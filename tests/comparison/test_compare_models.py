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
from riesz.comparison.leave_out import without
from riesz.comparison.results import BLOCKS, KRIGING, ONE, PLANE
from riesz.diagnose.held_out import draw_mixture, predictive_densities
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior

NUM_BLOCKS = 4
OBSERVED = np.zeros(12)  # log-densities do not ask for it


@lru_cache
def integrated(noise=NOISE):
    """As the density `marginal` leaves it, where nothing but the linear unknowns is unknown."""
    problem = dataclasses.replace(linear_problem(), likelihood=rz.Gaussian(noise))
    draws = EmpiricalDraws(jnp.zeros((1, 2, 3)))
    return Posterior(problem, draws, ExactStates(), {}, "laplace(marginal)", 0)


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
    """One model twice: by closed forms, and by draws that are weighed."""
    models = {"closed": integrated(), "drawn": exact_posterior()}
    return compare(models, blocks=NUM_BLOCKS, refit=False)


def ways(found):
    return ((ONE, np.arange(12)), (BLOCKS, found.block))


def test_closed_forms_are_those_of_exact_fits_without_each_observation_and_each_block(found):
    for how, block in ways(found):
        held_out = found.model("closed").held_out[how]
        np.testing.assert_allclose(
            held_out.log_densities, left_out_exactly(NOISE, block), rtol=1e-6
        )
    assert set(found.model("closed").held_out[BLOCKS].how) == {"closed form"}


def test_differences_are_paired(found):
    ours, theirs = (found.model(name).held_out[ONE].log_densities for name in ("closed", KRIGING))
    apart = found.difference("closed", KRIGING, how=ONE)
    assert apart.mean == pytest.approx(np.mean(ours - theirs))
    assert apart.error == pytest.approx(stats.sem(ours - theirs))
    other = found.difference(KRIGING, "closed", how=ONE)
    assert (other.mean, other.error) == pytest.approx((-apart.mean, apart.error))


def test_draws_say_what_closed_forms_do(found):
    assert abs(found.difference("drawn", "closed", how=ONE).mean) < 0.05
    (lost,) = [note for note in found.verdict if note.code == "not_left_out"]
    assert lost.values["model"] == "drawn"


def test_kriging_and_a_plane_stand_beside_and_a_verdict_is_given(found):
    assert [one.name for one in found.models] == ["closed", "drawn", KRIGING, PLANE]
    assert found.lacking is None
    first = next(note.values for note in found.verdict if note.values.get("model") == "closed")
    assert first["verdict"].code == "physics_helps"
    assert "left out by blocks (4)" in str(found)
    assert {row["model"] for row in found.rows()} == {"closed", "drawn", KRIGING, PLANE}
    assert all(np.isfinite(row["better_by"]) for row in found.pairs())


@pytest.mark.slow
def test_differences_of_two_models_are_those_of_exact_fits():
    found = compare({"right": integrated(), "noisy": integrated(4 * NOISE)}, blocks=NUM_BLOCKS)
    for how, block in ways(found):
        exact = left_out_exactly(NOISE, block) - left_out_exactly(4 * NOISE, block)
        assert found.difference("right", "noisy", how=how).mean == pytest.approx(exact.mean())
    (better,) = [note.values for note in found.verdict if note.code == "model_better"]
    assert (better["model"], better["other"], better["left_out"]) == ("right", "noisy", "blocks")


def test_blocks_of_one_are_left_out_as_single_observations_are_in_any_order():
    order = np.random.default_rng(4).permutation(12)
    found = compare(integrated(), blocks=order, refit=False)
    for name in (KRIGING, PLANE):
        model = found.model(name)
        np.testing.assert_allclose(
            model.held_out[BLOCKS].log_densities, model.held_out[ONE].log_densities
        )
        np.testing.assert_allclose(model.held_out[BLOCKS].k_hat[order], model.held_out[ONE].k_hat)


def test_a_model_ties_with_itself():
    found = compare([integrated(), integrated()], blocks=NUM_BLOCKS)
    for how, score in itertools.product((ONE, BLOCKS), ("log_density", "crps", "error")):
        apart = found.difference("model 1", "model 2", how=how, score=score)
        assert (apart.mean, apart.error, apart.low, apart.high) == (0, 0, 0, 0)
    assert "models_alike" in [note.code for note in found.verdict]


@pytest.mark.slow
def test_a_fit_without_a_block_is_by_the_engine_of_the_posterior():
    fitted = rz.fit(linear_problem(), "laplace", progress=False)
    block = np.repeat([0, 1], [9, 3])
    found = compare({"fitted": fitted}, blocks=block, refit=True)
    model = found.model("fitted")
    assert model.held_out[BLOCKS].how[0] == "refit"
    exact = left_out_exactly(NOISE, block)
    np.testing.assert_allclose(model.held_out[BLOCKS].log_densities[:9], exact[:9], atol=0.2)
    matrix, offset = response()
    covariance = matrix @ matrix.T + NOISE**2 * np.eye(12)
    misfit = np.asarray(linear_problem().observed) - offset
    evidence = stats.multivariate_normal.logpdf(misfit, np.zeros(12), covariance)
    assert model.log_evidence == pytest.approx(evidence, abs=0.05)


@pytest.fixture(scope="module")
def drawn():
    return draw_mixture(exact_posterior(), 2000, 0)


def test_weights_of_draws_leave_blocks_out_as_exact_posteriors_do(drawn):
    block = spatial_blocks(np.asarray(linear_problem().observations.points), 6)
    groups = [np.flatnonzero(block == one) for one in range(6)]
    found = predictive_densities(drawn, OBSERVED, groups, 0)
    exact = left_out_exactly(NOISE, block)
    reliable = ~found.unreliable[block]
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
        without_group = dataclasses.replace(exact_posterior(), distribution=family)
        return draw_mixture(without_group, 2000, 0)

    found = predictive_densities(drawn, OBSERVED, groups, 0, again)
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

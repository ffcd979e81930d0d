"""Flow, prior, search and scores of the Hanford experiment, on a small made-up site."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from paper.tests.data.small_hanford import INFLOW, RIVER, small_site, write_small
from tests.pairs import pair

from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.mesh.mesh import cell_volumes
from riesz_paper.catalogue import ExperimentName, Request, experiment_of
from riesz_paper.data.hanford import hanford, site_of
from riesz_paper.experiments.hanford.experiment import (
    cost_exponent,
    draw,
    hanford_experiment,
    summarise,
    table_of,
)
from riesz_paper.experiments.hanford.fit import (
    Data,
    Estimate,
    Found,
    first_problem,
    fit,
    gaussian_about,
    mixed,
    true_heads,
)
from riesz_paper.experiments.hanford.flow import (
    UNKNOWN,
    cut_in_two,
    flow_problem,
    measured,
    site_mesh,
)
from riesz_paper.experiments.hanford.prior import (
    CellPrior,
    Choice,
    KnownValues,
    Process,
    centres_of_parents,
    conditioned,
    marginal,
    values_alone,
    with_heads,
)
from riesz_paper.experiments.hanford.published import BY_SET, MEANS
from riesz_paper.experiments.hanford.scores import scores
from riesz_paper.experiments.hanford.search import found_mode, heads_at, linearised

PROCESS = Process("matern12", 1.5, 0.3, 1.0)
HEAD_SD = 0.01


@pytest.fixture(scope="module")
def site():
    return site_of("1x", small_site(), "small")


@pytest.fixture(scope="module")
def problem(site):
    return first_problem(site, "exact", 100)


@pytest.fixture(scope="module")
def known(site):
    cells = site.known_cells(100, 0)
    return KnownValues(cells, site.log_transmissivity[cells], 0.0)


@pytest.fixture(scope="module")
def found(site, problem, known):
    """The mode for accurate heads."""
    prior, heads = conditioned(site, PROCESS, known), true_heads(site, problem)
    mode = found_mode(problem, prior, heads, HEAD_SD)
    return Found(Choice(PROCESS, 0.0), prior, mode, HEAD_SD, 0.0)


def exact_covariance(site, known, cells):
    """Of the process at cells, given values."""
    at, where = site.centroids[known.cells], site.centroids[cells]
    among = PROCESS.covariance(at, at) + known.noise_sd**2 * np.eye(len(at))
    across = PROCESS.covariance(where, at)
    return PROCESS.covariance(where, where) - across @ np.linalg.solve(among, across.T)


def test_cells_are_cut_from_their_reflex_corners():
    arrays = small_site()
    arrays["nodes"][arrays["cells"][9, 0]] = arrays["nodes"][arrays["cells"][9]].mean(axis=0)
    arrays["nodes"][arrays["cells"][9, 0]] += 0.01  # beyond the middle of its cell
    changed = site_of("1x", arrays, "small")
    triangles = cut_in_two(changed)
    assert arrays["cells"][9, 0] in set(triangles[18]) & set(triangles[19])
    assert (cell_volumes(changed.nodes, triangles) > 0).all()
    assert site_mesh(changed).num_cells == 60


def test_a_uniform_aquifer_has_the_slope_that_its_inflow_asks_for(site, problem):
    """T u' = q with all inflow on the east side, which linear functions solve exactly."""
    slope = INFLOW / 0.5 / np.exp(2.0)
    places = site.centroids[site.wells]
    np.testing.assert_allclose(
        heads_at(problem, np.full(site.num_cells, 2.0)), RIVER + slope * places[:, 0]
    )


def test_rows_are_derivatives_of_heads(site, problem):
    logs, step = site.log_transmissivity, 1e-4
    direction = np.random.default_rng(0).normal(size=site.num_cells)
    heads, rows = linearised(problem, jnp.asarray(logs), SparseLU())
    ahead, behind = (heads_at(problem, logs + s * step * direction) for s in (1, -1))
    np.testing.assert_allclose(heads, heads_at(problem, logs))
    np.testing.assert_allclose(rows @ direction, (ahead - behind) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("noise_sd", [0.0, 0.3])
def test_the_prior_is_the_process_given_its_values(site, known, noise_sd):
    given = KnownValues(known.cells, known.values, noise_sd)
    prior = conditioned(site, PROCESS, given)
    every = exact_covariance(site, given, np.arange(site.num_cells))
    np.testing.assert_allclose(prior.factor @ prior.factor.T, every, atol=1e-6)
    np.testing.assert_allclose(prior.variances, np.diag(every), atol=1e-6)
    if not noise_sd:
        np.testing.assert_allclose(prior.mean[known.cells], known.values, atol=1e-6)


def test_cells_of_one_parent_vary_together_as_the_process_does():
    fine = site_of("4x", small_site(2), "small")
    cells = fine.known_cells(100, 0)
    given = KnownValues(cells, fine.log_transmissivity[cells], 0.0)
    prior = conditioned(fine, PROCESS, given)
    covariance = prior.deviations(np.eye(prior.num_coordinates))
    covariance = covariance @ covariance.T
    for parent in (0, 7):
        own = np.arange(4 * parent, 4 * parent + 4)
        wanted = exact_covariance(fine, given, own)
        np.testing.assert_allclose(covariance[np.ix_(own, own)], wanted, atol=1e-6)
    np.testing.assert_allclose(prior.variances, np.diag(covariance))


def test_rows_are_pulled_back_by_the_transposed_map():
    fine = site_of("4x", small_site(2), "small")
    cells = fine.known_cells(100, 0)
    prior = conditioned(fine, PROCESS, KnownValues(cells, np.zeros(len(cells)), 0.0))
    rng = np.random.default_rng(0)
    rows, coordinates = rng.normal(size=(3, 120)), rng.normal(size=(prior.num_coordinates, 2))
    np.testing.assert_allclose(
        prior.pulled_back(rows) @ coordinates, rows @ prior.deviations(coordinates)
    )


def test_the_problem_has_the_field_of_the_prior(site, problem, known):
    prior = conditioned(site, PROCESS, known)
    posed = measured(site, problem, prior, np.zeros(len(site.wells)), 1.0)
    xi = np.random.default_rng(0).normal(size=prior.num_coordinates)
    field = prior.mean + prior.deviations(xi[:, None])[:, 0]
    np.testing.assert_allclose(jnp.log(posed.z(jnp.asarray(xi))[UNKNOWN].weights), field)


def test_the_marginal_likelihood_is_that_of_a_normal_vector(site, known):
    rng = np.random.default_rng(0)
    rows, heads = rng.normal(size=(3, site.num_cells)), rng.normal(size=3)
    data = with_heads(site, known, rows, heads, 0.2, is_scaled=True)
    logs = np.log([PROCESS.variance, PROCESS.length, 2.0])
    cost, mean = marginal(PROCESS.kernel, logs, data)
    covariance = data.rows @ PROCESS.covariance(data.places, data.places) @ data.rows.T
    noise = np.concatenate([np.zeros(len(known.cells)), np.full(3, 0.4)])
    level = data.rows.sum(axis=1)
    covariance += np.diag(noise**2)
    misfit, (_, log_volume) = data.values - mean * level, np.linalg.slogdet(2 * np.pi * covariance)
    square = misfit @ np.linalg.solve(covariance, misfit)
    assert cost == pytest.approx(0.5 * (square + log_volume), abs=1e-4)
    best = np.linalg.solve(covariance, np.stack([data.values, level], axis=1))
    assert mean == pytest.approx(level @ best[:, 0] / (level @ best[:, 1]), rel=1e-5)


def test_known_values_are_read_where_they_are(site, known):
    alone = values_alone(site, known)
    np.testing.assert_array_equal(alone.places, site.centroids[known.cells])
    np.testing.assert_allclose(centres_of_parents(site), site.centroids)


def test_accurate_heads_are_met_and_the_mode_is_stationary(site, problem, found):
    assert found.mode.converged
    heads, rows = found.mode.heads, found.prior.pulled_back(found.mode.rows)
    misfit = true_heads(site, problem) - heads
    assert np.sqrt(np.mean(misfit**2)) < HEAD_SD
    slope = found.mode.coordinates - rows.T @ misfit / HEAD_SD**2
    assert np.linalg.norm(slope) < 0.1 * np.linalg.norm(rows / HEAD_SD)


def test_heads_tell_of_what_values_leave_open(site, found):
    truth, before, after = site.log_transmissivity, found.prior, gaussian_about(found)
    assert (after.sd <= np.sqrt(before.variances) + 1e-9).all()
    assert scores(after.mean, after.sd, truth)["e"] < scores(before.mean, after.sd, truth)["e"]


@pytest.mark.slow
def test_the_gaussian_about_the_mode_is_that_of_laplace(site, problem, found):
    """But for second derivatives of heads, which accurate heads leave little room for."""
    heads = true_heads(site, problem)
    posed = measured(site, problem, found.prior, heads, HEAD_SD)
    posterior = pair("laplace", start=found.mode.coordinates).run(posed, seed=0)
    own, prior = gaussian_about(found), found.prior
    covariance = np.asarray(posterior.coordinate_covariance())
    spread = np.sqrt(np.diag(prior.factor @ covariance @ prior.factor.T))
    mean = prior.mean + prior.factor @ np.asarray(posterior.coordinate_mean())
    unknown = own.sd > 1e-3
    assert np.abs((mean - own.mean)[unknown] / own.sd[unknown]).max() < 0.1
    assert np.abs(np.log(spread[unknown] / own.sd[unknown])).max() < 0.2


@pytest.mark.slow
def test_a_fit_weighs_kernels_and_holds_the_truth(site, problem, known):
    data = Data(known, true_heads(site, problem), HEAD_SD)
    fitted = fit(site, problem, data)
    assert fitted.weights.sum() == pytest.approx(1.0)
    told = scores(fitted.field.mean, fitted.field.sd, site.log_transmissivity)
    alone = scores(fitted.alone.mean, fitted.alone.sd, site.log_transmissivity)
    assert told["e7"] < alone["e7"]
    assert 0 < fitted.exponential_seconds < sum(fitted.cpu_seconds.values())
    assert told["coverage95"] > 0.8


def test_a_mixture_has_the_moments_of_its_draws():
    rng = np.random.default_rng(0)
    one, other = Estimate(np.zeros(1), np.ones(1)), Estimate(np.full(1, 4.0), np.full(1, 2.0))
    both = mixed([one, other], np.array([0.25, 0.75]))
    draws = np.concatenate([rng.normal(size=100_000), 4 + 2 * rng.normal(size=300_000)])
    assert both.mean[0] == pytest.approx(draws.mean(), abs=0.02)
    assert both.sd[0] == pytest.approx(draws.std(), abs=0.02)


def test_scores_are_those_of_the_authors_but_for_the_right_density():
    truth, mean, sd = np.array([8.0, 9.0, 5.0]), np.array([8.0, 8.0, 7.0]), np.array([0, 1.0, 1.0])
    told = scores(mean, sd, truth)
    assert told["e7"] == pytest.approx(np.sqrt(5 / 9))
    assert told["e"] == pytest.approx(np.sqrt(5 / 170))
    assert (told["largest"], told["coverage95"]) == (2.0, pytest.approx(2 / 3))
    assert told["coverage95_unknown"] == 0.5
    assert told["lpp"] == pytest.approx(scipy.stats.norm.logpdf([1.0, 2.0]).sum())


def test_published_sets_have_the_published_means():
    for method, errors in BY_SET.items():
        assert np.mean(errors) == pytest.approx(MEANS[method][100], abs=1e-3)


def row(mesh, which, cells, seconds, **told):
    own = {"mesh": mesh, "data": "exact", "values": 100, "method": "laplace", "role": "ours"}
    return {**own, "replicate": which, "cells": cells, "cpu_seconds": seconds, "e7": 0.3, **told}


def test_the_cost_exponent_is_of_sets_that_both_meshes_have(tmp_path):
    rows = [row("1x", 0, 100, 2.0), row("4x", 0, 400, 8.0), row("1x", 1, 100, 99.0)]
    assert cost_exponent(rows) == pytest.approx(1.0)
    assert cost_exponent(rows[:1]) is None
    assert summarise(rows)["cost exponent"] == pytest.approx(1.0)
    assert [line["sets"] for line in table_of(rows)] == [2, 1]
    draw(rows, tmp_path)
    assert (tmp_path / "errors.png").stat().st_size > 5_000


def test_the_map_shows_a_set(site, tmp_path):
    write_small(tmp_path)
    fields = {"log_mean": [1.0] * site.num_cells, "log_sd": [0.5] * site.num_cells}
    draw([row("1x", 0, site.num_cells, 1.0, **fields)], tmp_path, tmp_path)
    assert (tmp_path / "maps.png").stat().st_size > 10_000


def test_one_set_can_be_run_alone(tmp_path):
    write_small(tmp_path)
    whole, alone = (hanford_experiment(0, "full", which, tmp_path) for which in (None, 3))
    assert {task.identity["replicate"] for task in whole.tasks} == set(range(10))
    assert {task.identity["replicate"] for task in alone.tasks} == {3}
    assert whole.config == alone.config  # so that rows of both can be put together
    identities = [dict(task.identity) for task in whole.tasks]
    assert all(dict(task.identity) in identities for task in alone.tasks)
    with pytest.raises(RieszError, match="--set is 10: sets go from 0 to 9"):
        hanford_experiment(0, "full", 10, tmp_path)


def test_the_first_set_is_asked_for_by_zero(tmp_path):
    write_small(tmp_path)
    request = Request(ExperimentName.HANFORD, "quick", 0, data=tmp_path, set=0)
    assert request.words()[-2:] == ["--set", "0"]
    assert len(experiment_of(request).tasks) == 5  # three of ours, two published
    with pytest.raises(RieszError, match="--set is for hanford: leave it out for blocks"):
        experiment_of(Request(ExperimentName.BLOCKS, "quick", 0, set=0))


def test_heads_of_the_real_site_are_near_those_of_finite_volumes(hanford_folder):
    """They differ by what the two ways to solve do: 0.19 m on the mean at the wells."""
    real = hanford("1x", hanford_folder)
    nothing = CellPrior(real.log_transmissivity, np.zeros((real.num_cells, 1)), None)
    heads = true_heads(real, flow_problem(real, nothing))
    difference = heads - real.finite_volume_heads[real.wells]
    assert np.sqrt(np.mean(difference**2)) < 0.2

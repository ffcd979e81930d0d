"""The experiment misspecified: its data, its scores, and its files."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm as normal

from riesz.posterior.family import full_rank
from riesz.posterior.posterior import ExactStates, Posterior
from riesz_paper.experiments.misspecified import data as setting
from riesz_paper.experiments.misspecified import experiment
from riesz_paper.experiments.misspecified.experiment import scores
from riesz_paper.running.runner import run_experiment
from riesz_paper.running.scores import crps, share_inside

KEYS = {
    *("method", "replicate", "field_coverage95", "parameter_coverage95", "field_crps"),
    *("mean_width", "epsilon_rel", "eddy", "noise_sd", "seconds", "cpu_seconds"),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Data from 33 x 33 nodes, fitted on 17 x 17."""
    monkeypatch.setattr(setting, "DATA_LEVELS", 4)
    monkeypatch.setattr(setting, "LEVELS", 3)
    cached = (setting.data_set, setting.template)
    for one in cached:
        one.cache_clear()
    yield
    for one in cached:
        one.cache_clear()


def test_the_crps_of_normal_draws_is_the_known_one():
    truth = np.array([-1.0, 0.0, 2.5])
    draws = np.random.default_rng(0).normal(size=(200_000, 3))
    known = truth * (2 * normal.cdf(truth) - 1) + 2 * normal.pdf(truth) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(crps(draws, truth), known, atol=0.01)


def test_the_crps_of_a_certain_forecast_is_its_error():
    np.testing.assert_allclose(crps(np.full((5, 1), 3.0), np.array([1.0])), [2.0])


def test_few_draws_give_the_crps_of_many_on_average():
    draws = np.random.default_rng(1).normal(size=(3, 100_000))
    known = 2 * normal.pdf(0.0) - 1 / np.sqrt(np.pi)
    assert np.mean(crps(draws, np.zeros(100_000))) == pytest.approx(known, abs=0.01)


def test_scores_count_what_lies_inside_and_average_widths():
    grid = np.linspace(0.0, 1.0, 401)
    field = np.stack([grid, 2 * grid], axis=1)
    found = scores(field, np.array([0.5, 1.97]), field[:, :1], np.array([0.01]))
    assert found["field_coverage95"] == 0.5
    assert found["parameter_coverage95"] == 0.0
    assert found["mean_width"] == pytest.approx(0.95 * 1.5)
    assert share_inside(field, np.array([0.03, 0.06])) == 1.0


def test_a_data_set_is_fixed_by_seed_and_replicate():
    first, again, other = (setting.data_set(3, k) for k in (0, 0, 1))
    assert first is again
    assert not np.isclose(first.strengths, other.strengths).any()
    assert not np.isclose(first.turning, setting.data_set(4, 0).turning)
    assert first.points.shape == (50, 2)
    assert first.validation_values.shape == (200,)


def test_districts_are_counted_row_by_row():
    z = {"f": jnp.arange(16.0)}
    places = jnp.array([[0.1, 0.1], [0.9, 0.1], [0.3, 0.6], [0.99, 0.99]])
    found = jax.vmap(lambda x: setting.strength(x, z))(places)
    np.testing.assert_array_equal(found, [0.0, 3.0, 9.0, 15.0])


def test_an_eddy_turns_about_its_centre_and_carries_nothing_away():
    eddy, z = setting.Eddy(jnp.array([0.4, 0.6])), {"w": jnp.asarray(3.0)}
    np.testing.assert_allclose(eddy(jnp.array([0.4, 0.6]), z), 0.0)
    beside = eddy(jnp.array([0.6, 0.6]), z)  # one size to the right: up, at its fastest
    np.testing.assert_allclose(beside, [0.0, 3.0 * np.exp(-0.5)], atol=1e-12)
    slopes = jax.vmap(jax.jacfwd(lambda x: eddy(x, z)))(jr.uniform(jr.key(0), (20, 2)))
    np.testing.assert_allclose(jnp.trace(slopes, axis1=1, axis2=2), 0.0, atol=1e-12)


def standardised(data, *, knows_eddy):
    """Residuals of the data at the true unknowns, by the noise."""
    problem = setting.posed(data, knows_eddy=knows_eddy)
    truth = (data.strengths - setting.STRENGTH) / setting.STRENGTH_SD
    if knows_eddy:
        truth = np.append(truth, data.turning / setting.EDDY_SD)
    predicted = problem.operator @ problem.state(jnp.asarray(truth))
    return (data.values - np.asarray(predicted)) / data.noise_sd


@pytest.mark.slow
def test_the_oracle_explains_the_data_and_the_model_does_not():
    # The strongest eddy of a few; meshes so coarse leave errors of their own.
    data = max((setting.data_set(3, k) for k in range(6)), key=lambda d: abs(d.turning))
    oracle, model = (standardised(data, knows_eddy=knows) for knows in (True, False))
    assert np.sqrt(np.mean(oracle**2)) < 1.6
    assert np.sqrt(np.mean(model**2)) > 3.0


def prior_of(data, seed):
    problem = setting.posed(data, knows_eddy=False)
    prior = full_rank(problem.num_coordinates, jnp.float64)
    return Posterior(problem, prior, ExactStates(), {"epsilon_rel": jnp.array([1.0, 2.0])})


@pytest.mark.slow
def test_a_run_leaves_rows_summary_and_the_figure(tmp_path, monkeypatch):
    """All methods give the prior, which holds the truth that is drawn from it."""
    counts = {"laplace": 2, "oracle": 2, "relax-learned": 1}
    monkeypatch.setitem(experiment.NUM_DATA, "quick", counts)
    monkeypatch.setattr(experiment, "METHODS", dict.fromkeys(counts, prior_of))
    found = run_experiment(experiment.misspecified(3, "quick"), tmp_path, seed=3, command="riesz x")
    assert [(r["method"], r["replicate"]) for r in found["rows"]] == [
        (method, k) for method, count in counts.items() for k in range(count)
    ]
    for row in found["rows"]:
        assert set(row) >= KEYS
        assert row["parameter_coverage95"] >= 0.75
        assert row["epsilon_rel"] == 2.0
        assert row["mean_width"] > 10 * row["noise_sd"]
    assert found["summary"]["relax-learned: width / oracle"] == pytest.approx(1.0)
    assert {p.name for p in tmp_path.iterdir()} == {"results.json", "table.md", "scores.png"}


def test_ratios_compare_the_same_data_sets():
    rows = [
        {"method": "oracle", "replicate": 0, "mean_width": 1.0},
        {"method": "oracle", "replicate": 1, "mean_width": 100.0},
        {"method": "relax-1", "replicate": 0, "mean_width": 3.0},
        {"method": "relax-3", "replicate": 0, "mean_width": 4.0},
        {"method": "relax-3", "replicate": 1, "mean_width": 200.0},
    ]
    assert experiment.ratio(rows, "relax-1", "oracle", "mean_width") == 3.0
    assert experiment.ratio(rows, "relax-1", "nuts", "mean_width") is None
    assert experiment.ratio(rows, "relax-3", "oracle", "mean_width") == pytest.approx(204 / 101)
    assert experiment.mean_ratio(rows[3:], rows, "oracle", "mean_width") == 3.0
    assert experiment.mean_ratio(rows[3:], rows, "nuts", "mean_width") is None


@pytest.mark.slow  # two minutes, nearly all of it compilation
def test_doubt_widens_intervals_until_they_hold_the_field():
    tasks = experiment.misspecified(3, "quick").tasks
    rows = [{**task.identity, **task.run()} for task in tasks]
    mean = {
        method: np.mean([r["field_coverage95"] for r in rows if r["method"] == method])
        for method in ("laplace", "oracle", "relax-learned")
    }
    assert mean["laplace"] < mean["relax-learned"] - 0.02
    assert mean["oracle"] > 0.85


@pytest.mark.slow
def test_weights_hardly_change_the_oracle():
    normal_one, weighed = (experiment.row(name, 3, 0) for name in ("oracle", "oracle-weighed"))
    assert weighed["effective_draws"] > 300
    assert weighed["mean_width"] == pytest.approx(normal_one["mean_width"], rel=0.1)
    assert weighed["field_crps"] == pytest.approx(normal_one["field_crps"], rel=0.2)

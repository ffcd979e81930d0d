"""The experiment amortised: its data, its scores, and its files."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz.amortise.amortised import Amortised
from riesz.amortise.encoder import encoder
from riesz.amortise.engine import Amortise
from riesz.amortise.simulate import Simulator
from riesz.density.surrogate.start import initial_surrogate
from riesz.fem.solve import solve
from riesz_paper.experiments.amortised import experiment
from riesz_paper.experiments.transport import data as transport_data
from riesz_paper.experiments.transport.exact import ExactPosterior
from riesz_paper.experiments.transport.methods import Timed
from riesz_paper.running.runner import run_experiment

KEYS = {
    *("method", "nodes", "replicate", "mean_error_sd", "sd_ratio", "sd_ratio_low"),
    *("sd_ratio_high", "speed", "seconds", "training_cpu_seconds"),
}


SHORT = Amortise(
    width=8,
    features=8,
    patch_nodes=9,
    coarse_patch_nodes=9,
    readout_batches=4,
    encoder_width=8,
    encoder_layers=1,
    steps=5,
    block_steps=5,
    num_examples=50,
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Data from 17 x 17 nodes, fitted on 9 x 9, by a training too short to be any good."""
    monkeypatch.setattr(transport_data, "DATA_LEVELS", {"square": 3})
    monkeypatch.setattr(experiment, "LEVELS", 2)
    monkeypatch.setattr(experiment, "NUM_DATA", {"quick": 2})
    monkeypatch.setattr(experiment, "ENGINE", SHORT)
    transport_data.data_problem.cache_clear()
    yield
    transport_data.data_problem.cache_clear()


def untrained(seed):
    """An encoder that gives the prior for all data."""
    problem = experiment.posed(seed, np.ones(25))
    surrogate = initial_surrogate(problem, jr.key(0), width=8, features=8)
    start = encoder(jr.normal(jr.key(1), (50, 25)), 2, jr.key(2), width=8, num_layers=1)
    anything = jnp.asarray(-np.inf)
    found = Amortised(Simulator(problem, surrogate), start, anything, {}, seed)
    return found, Timed(100.0, 200.0)


def test_data_sets_share_their_sensors_and_nothing_else():
    stream = experiment.SCORED
    first, again, second = (experiment.data_set(3, stream, k) for k in (0, 0, 1))
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.isclose(first.velocity, second.velocity).any()
    example = experiment.data_set(3, experiment.EXAMPLE, 0)
    assert not np.isclose(first.velocity, example.velocity).any()
    points = experiment.sensor_points(3)
    assert points.shape == (25, 2)
    assert not np.isclose(points, experiment.sensor_points(4)).any()


def test_the_noise_is_two_per_cent_of_the_largest_state():
    problem = transport_data.data_problem("square")
    state = solve(problem, {"tau": jnp.zeros(2)})
    assert 0.02 * float(state.max()) == pytest.approx(experiment.NOISE_SD, rel=0.02)


def given(problem, points):
    """A posterior to be scored against."""
    mean, sd = np.array([0.2, -0.1]), np.array([0.5, 0.8])
    return ExactPosterior(mean, sd, mean[None], np.ones(1), np.zeros((1, 1)), 1)


@pytest.mark.slow
def test_a_run_leaves_scores_of_the_worse_coordinate_and_the_figure(tmp_path, monkeypatch):
    """The prior, with mean 0 and sd 1, is held against a given posterior."""
    monkeypatch.setattr(experiment, "trained", untrained)
    monkeypatch.setattr(experiment, "exact_posterior", given)
    content = run_experiment(experiment.amortised(3, "quick"), tmp_path, seed=3, command="riesz x")
    assert [row["replicate"] for row in content["rows"]] == [0, 1]
    for row in content["rows"]:
        assert set(row) >= KEYS
        assert row["mean_error_sd"] == pytest.approx(0.2 / 0.5)
        assert row["sd_ratio"] == row["sd_ratio_high"] == pytest.approx(1 / 0.5)
        assert row["sd_ratio_low"] == pytest.approx(1 / 0.8)
    assert content["summary"]["training_cpu_seconds"] == 200.0
    assert {p.name for p in tmp_path.iterdir()} == {"results.json", "table.md", "scores.png"}


@pytest.mark.slow
def test_one_training_serves_all_data_sets():
    first, again = experiment.trained(3), experiment.trained(3)
    assert first is again
    rows = [task.run() for task in experiment.amortised(3, "quick").tasks]
    assert all(row["seconds"] < row["training_seconds"] / 10 for row in rows)
    # So short a training leaves nearly the prior, which is much wider than what the data tell.
    assert all(row["sd_ratio_low"] > 5 for row in rows)


def test_the_summary_tells_medians_and_tails():
    rows = [
        {
            **dict.fromkeys(("seconds", "exact_seconds"), 0.001),
            **dict.fromkeys(("training_seconds", "training_cpu_seconds"), 9.0),
            "mean_error_sd": k / 100,
            "sd_ratio": 0.9,
            "sd_ratio_low": 0.9,
            "sd_ratio_high": 1.05,
        }
        for k in range(101)
    ]
    summary = experiment.summarise(rows)
    assert summary["median_mean_error_sd"] == pytest.approx(0.5)
    assert summary["95th_percentile_mean_error_sd"] == pytest.approx(0.95)
    assert summary["median_sd_ratio"] == 0.9
    assert experiment.summarise([]) == {}

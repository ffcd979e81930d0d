"""The checkerboard: its truth, equal budgets, the solve for the last layer, and its files."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz.penalty.gram import Gram
from riesz_paper.experiments.checkerboard import experiment
from riesz_paper.experiments.checkerboard.board import board, checkered
from riesz_paper.experiments.checkerboard.methods import METHODS, Budget, galerkin, trained
from riesz_paper.experiments.checkerboard.network import cusp_network, nodal_values
from riesz_paper.experiments.checkerboard.training import LastLayer, drawn_equations, newton_step
from riesz_paper.experiments.checkerboard.weak_form import patch_equations, weak_form_loss
from riesz_paper.running.runner import run_experiment

KEYS = {
    *("method", "nodes", "replicate", "gram", "energy_error", "l2_error", "steps"),
    *("seconds", "cpu_seconds"),
}
FEATURES = 24  # the same in all tests: one compilation serves them
TINY = Budget(FEATURES, cpu_seconds=0.05)


@functools.cache
def small():
    return board(3)  # 17 x 17 nodes


def test_the_board_has_sixteen_squares_that_alternate():
    mesh = small().mesh
    diffusivity, centres = checkered(mesh), mesh.nodes[mesh.cells].mean(axis=1)
    for x, y, wanted in ((0.1, 0.1, 1.0), (0.3, 0.1, 100.0), (0.4, 0.4, 1.0), (0.9, 0.1, 100.0)):
        nearest = np.argmin(np.linalg.norm(centres - [x, y], axis=1))
        assert diffusivity[nearest] == wanted
    assert np.mean(diffusivity == 1.0) == 0.5


def test_errors_are_relative_and_in_their_norms():
    assert small().energy_error(0.9 * small().solution) == pytest.approx(0.1)
    assert small().l2_error(np.zeros_like(small().solution)) == pytest.approx(1.0)


def test_the_network_vanishes_on_the_boundary_and_has_kinks_on_the_lines_only():
    network = cusp_network(jr.key(0), 1, features=FEATURES)
    values = np.asarray(nodal_values(network, jnp.asarray(small().mesh.nodes)))
    np.testing.assert_allclose(values[small().problem.fixed], 0.0, atol=1e-16)
    places = jnp.array([0.25 - 1e-7, 0.25 + 1e-7, 0.3 - 1e-7, 0.3 + 1e-7])
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: network(jnp.stack([x, 0.4]))[0])))(places)
    assert abs(slopes[1] - slopes[0]) > 1e3 * abs(slopes[3] - slopes[2])


@pytest.fixture(scope="module")
def loss():
    return weak_form_loss(small(), Gram(diffusivity=small().diffusivity))


def test_the_solve_for_the_last_layer_knows_the_sum_over_all_patches(loss):
    """Which is a parabola in its weights: slope and curvature tell it anywhere."""
    network = cusp_network(jr.key(1), 1, features=FEATURES)
    field_of, weights = LastLayer(network), network.readout.ravel()
    matrix, slope = patch_equations(loss, field_of, weights)

    @jax.jit
    def whole(weights):
        sample = loss.penalty.norm.all()
        return loss.penalty.estimates(sample, lambda x, z: field_of(weights)(x)[0])[0]

    step = jnp.linspace(-1.0, 2.0, FEATURES)
    expected = whole(weights) + slope @ step + step @ matrix @ step / 2
    assert whole(weights + step) == pytest.approx(float(expected), rel=1e-8)


def test_a_drawn_loss_is_quadratic_in_the_last_layer():
    loss, _ = METHODS["deep-ritz"].losses(small())
    network = cusp_network(jr.key(2), 1, features=FEATURES)
    field_of, weights, key = LastLayer(network), network.readout.ravel(), jr.key(3)
    matrix, slope = drawn_equations(loss, field_of, weights, key)
    step = jnp.linspace(-1.0, 1.0, FEATURES)
    value = jax.jit(lambda w: loss(key, field_of(w)))
    expected = value(weights) + slope @ step + step @ matrix @ step / 2
    assert value(weights + step) == pytest.approx(float(expected), rel=1e-8)


def test_nothing_made_of_the_same_features_is_nearer_than_the_galerkin_solution(loss):
    best = small().energy_error(experiment.state_on(small(), galerkin(small(), TINY, 5)))
    first = cusp_network(jr.split(jr.key(5))[0], 1, features=FEATURES)
    solved, draws = newton_step(loss, first, jr.key(0), cpu_seconds=10.0, ridge=1e-14)
    state = nodal_values(solved, jnp.asarray(small().mesh.nodes))
    assert draws == 1  # all patches at once
    assert best <= small().energy_error(np.asarray(state)) < 2 * best


def test_every_method_stops_when_its_seconds_are_spent():
    result = trained("deep-ritz", small(), Budget(FEATURES, cpu_seconds=0.3), 1)
    assert result.steps > 0
    assert 0.3 <= result.cpu_seconds < 2.0


@pytest.fixture
def small_run(tmp_path, monkeypatch):
    """Runs a quick experiment on 17 x 17 nodes, with 33 x 33 as the finer mesh."""
    monkeypatch.setattr(experiment, "LEVELS", 3)
    monkeypatch.setattr(experiment, "FINER", 1)
    monkeypatch.setitem(experiment.BUDGETS, "quick", TINY)

    def run():
        prepared = experiment.checkerboard(4, "quick")
        return run_experiment(prepared, tmp_path, seed=4, command="riesz x")["rows"]

    return run


@pytest.mark.slow
def test_a_run_leaves_rows_with_all_keys_and_the_figures(small_run, tmp_path, monkeypatch):
    runs = [("finite-elements", 0), ("galerkin", 0)]
    monkeypatch.setattr(experiment, "scored_runs", lambda mode: runs)
    rows = small_run()
    assert all(set(row) >= KEYS for row in rows)
    # The mesh's own solution is far from that of a finer one: the board is that rough.
    assert rows[0]["energy_error_finer"] > 0.1
    assert {p.name for p in tmp_path.iterdir()} == {
        *("results.json", "table.md", "errors.png", "fields.png"),
    }


@pytest.mark.slow
def test_a_quick_run_trains_ours_and_deep_ritz(small_run):
    rows = small_run()
    assert [row["method"] for row in rows] == ["finite-elements", "weak-form", "deep-ritz"]
    assert [row["gram"] for row in rows] == ["none", "diffusivity", "none"]
    assert rows[1]["energy_error"] < rows[2]["energy_error"]


def test_the_full_run_tunes_baselines_on_a_seed_of_its_own_and_scores_all_methods(monkeypatch):
    monkeypatch.setattr(experiment, "LEVELS", 3)
    tasks = [task.identity for task in experiment.checkerboard(0, "full").tasks]
    tuned = [task for task in tasks if task["tuned_rate"] is not None]
    assert len(tuned) == len(experiment.TUNED) * len(experiment.RATES)
    assert {t["replicate"] for t in tuned} == {-1}
    for method in METHODS:
        scored = [t for t in tasks if t["method"] == method and t["tuned_rate"] is None]
        count = 2 if method in experiment.FEW else 5
        assert [t["replicate"] for t in scored] == list(range(count))


def test_the_summary_compares_ours_with_the_best_of_the_others():
    errors = {"weak-form": 0.05, "deep-ritz": 0.2, "first-order": 0.5, "deep-ritz-solved": 0.1}
    rows = [
        {"method": m, "energy_error": e, "energy_error_finer": e, "tuned_rate": None}
        for m, e in errors.items()
    ]
    summary = experiment.summarise(rows)
    assert summary["weak-form / best baseline by Adam"] == pytest.approx(0.25)
    assert summary["weak-form / best baseline"] == pytest.approx(0.5)

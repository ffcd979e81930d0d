"""The demo: its problem files, its scores, and what it leaves."""

import json
import sys
import tomllib

import numpy as np
import pytest

import riesz as rz
from riesz.cli.main import main
from riesz.datasets.jura import jura
from riesz_demo.job import (
    LogNormals,
    read_held_back,
    references,
    run_demo,
    score_prediction,
    write_inputs,
)


def split(folder):
    """What is learned from, and what is held back."""
    write_inputs(folder)
    return rz.read_problem(folder / "problem.toml").prepared, read_held_back(folder / "jura.csv")


def test_the_second_problem_file_has_covariates_more_and_nothing_else(tmp_path):
    write_inputs(tmp_path)
    plain, metals = (
        tomllib.loads((tmp_path / name).read_text())
        for name in ("problem.toml", "with-metals.toml")
    )
    assert metals["observations"].pop("covariates") == ["Pb", "Ni", "Zn"]
    assert metals["observations"].pop("log_covariates") == ["Pb", "Ni", "Zn"]
    assert plain == metals


def test_samples_are_learned_from_or_held_back(tmp_path):
    known, held_back = split(tmp_path)
    samples = jura()
    for found, chosen in ((known, samples.is_training), (held_back, ~samples.is_training)):
        np.testing.assert_array_equal(found.points, samples.points[chosen])
        np.testing.assert_allclose(np.exp(found.values), samples.metals["Cd"][chosen])


def test_a_problem_file_that_was_changed_is_not_overwritten(tmp_path, monkeypatch, capsys):
    write_inputs(tmp_path)
    own = tmp_path / "problem.toml"
    own.write_text("changed")
    monkeypatch.setattr(sys, "argv", ["riesz", "demo", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert f"{own} is not what the demo writes there: choose another --out" in (
        capsys.readouterr().err
    )
    assert own.read_text() == "changed"


def test_runs_of_an_earlier_demo_make_way_and_others_stay(tmp_path):
    (tmp_path / "run").mkdir()
    write_inputs(tmp_path)
    assert (tmp_path / "run").exists()  # no demo was here: it is not its own
    for name in ("run", "run.unfinished", "run-with-metals", "mine"):
        (tmp_path / name).mkdir(exist_ok=True)
    write_inputs(tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"mine"}


def test_crps_is_the_mean_distance_less_half_that_between_draws():
    predicted = LogNormals(np.array([0.2, -1.0]), np.array([0.6, 0.3]))
    truth = np.array([0.7, 0.5])
    normals = np.random.default_rng(0).standard_normal((2, 400_000, 1))
    first, second = np.exp(predicted.mean + predicted.sd * normals)
    drawn = np.abs(first - truth).mean(axis=0) - np.abs(first - second).mean(axis=0) / 2
    np.testing.assert_allclose(predicted.crps(truth), drawn, rtol=0.01)


def test_a_sure_prediction_scores_its_distance():
    predicted, truth = LogNormals(np.zeros(3), np.full(3, 1e-9)), np.array([0.5, 1.5, 3.0])
    found = score_prediction(predicted, truth)
    assert found["mae"] == pytest.approx(1.0)
    assert found["crps"] == pytest.approx(1.0)
    assert found["coverage95"] == 0.0


def test_references_know_nothing_of_the_samples_that_were_held_back(tmp_path):
    known, held_back = split(tmp_path)
    alike, nearest, *published = references(known, held_back)
    errors = np.abs(np.exp(known.values.mean()) - np.exp(held_back.values))
    assert alike["mae"] == pytest.approx(errors.mean())
    assert alike["crps"] < alike["mae"] < nearest["mae"]
    assert {row["role"] for row in published} == {"published"}


@pytest.mark.slow
def test_the_demo_beats_what_was_published_with_intervals_that_hold(tmp_path):
    stages = []
    rows = run_demo(tmp_path, seed=0, stage=stages.append)
    by_place, with_metals = rows[:2]
    others = [row["mae"] for row in rows[2:]]
    assert with_metals["mae"] < min(others)
    assert with_metals["crps"] < by_place["crps"]
    assert all(0.9 <= row["coverage95"] <= 1 for row in (by_place, with_metals))
    assert {path.name for path in tmp_path.iterdir()} == {
        *("jura.csv", "problem.toml", "with-metals.toml", "run", "run-with-metals"),
        *("cadmium.png", "report.html"),
    }
    assert len(stages) == len(set(stages)) == 4
    assert rz.read_run(tmp_path / "run").posterior.engine == "laplace(marginal)"


def test_the_command_leaves_the_agreed_result_file(tmp_path, monkeypatch, capsys):
    rows = list(references(*split(tmp_path)))
    monkeypatch.setattr("riesz_demo.job.run_demo", lambda out, **_: rows)
    out = tmp_path / "new"
    monkeypatch.setattr(sys, "argv", ["riesz", "demo", "--out", str(out), "--seed", "3", "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    told, content = (
        json.loads(capsys.readouterr().out),
        json.loads((out / "results.json").read_text()),
    )
    assert told == {"out": str(out), **content["summary"]}
    assert content["seed"] == 3
    assert content["rows"] == rows
    assert "| GPDK | published |" in (out / "table.md").read_text()

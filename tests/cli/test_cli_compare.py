"""`riesz compare`: what it prints and writes, and how it says no."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.command import run
from tests.pairs import pair
from tests.tiny_run import tiny_run

from riesz.amortise.engine import Amortise
from riesz.case.data.schema import ObservationsTable
from riesz.case.run.compare import engine_of_run
from riesz.case.run.folder import Run
from riesz.comparison.results import BLOCKS, ONE, Comparison, Model
from riesz.diagnose.held_out import HeldOut
from riesz.io.store.results import read_results


def made_up(name, engine, level):
    log_density = level + 0.1 * np.random.default_rng(len(name)).normal(size=9)
    draws = 0.02 * log_density + np.array([[-0.1], [0.1]])
    kept = HeldOut(np.zeros(9), log_density, draws, np.zeros(3), ("weights",) * 3)
    return Model(name, engine, {ONE: kept, BLOCKS: kept}, 2.5 if engine else None)


@pytest.fixture
def found(monkeypatch):
    """A comparison that took no time, of a run that is nowhere."""
    asked = []

    def known(posteriors, **settings):
        asked.append(settings)
        models = [made_up(name, "laplace", -1.0) for name in posteriors]
        models += [made_up("kriging", "", -2.0), made_up("plane", "", -3.0)]
        return Comparison(tuple(models), np.arange(9) // 3, settings["seed"], unit="m")

    names = ObservationsTable(file="wells.csv", transform="log", unit="m")
    settings = {"exact.linear_solver": "Automatic()", "laplace.num_modes": 20}
    stub = Run(Path(), names, None, {"engine": "laplace", "settings": settings})
    stub.__dict__["posterior"] = None
    monkeypatch.setattr("riesz.case.run.compare.compare", known)
    monkeypatch.setattr("riesz.case.run.compare.read_run", lambda _: stub)
    return asked


def test_it_is_printed_and_kept(found, tmp_path, monkeypatch, capsys):
    out = tmp_path / "new"
    words = ["compare", "runs/one", "--no-refit", "--blocks", 3, "--out", out]
    status, printed, _ = run(words, monkeypatch, capsys)
    assert status == 0
    assert "9 observations left out by blocks (3)" in printed
    assert "\nphysics helps here: it predicts left-out blocks better than kriging" in printed
    (asked,) = found
    assert (asked["blocks"], asked["refit"], asked["back"](0.0)) == (3, False, 1.0)
    assert asked["engines"]["one"].method.num_modes == 20
    content = read_results(out / "results.json")
    assert content["command"].endswith("--blocks 3 --no-refit")
    assert [row["model"] for row in content["rows"]] == ["one", "kriging", "plane"]
    assert content["summary"]["verdict"]
    assert len(content["summary"]["blocks"]) == 9
    assert (out / "models.csv").read_text().startswith("model,engine,elpd_loo,")
    assert (out / "pairs.csv").read_text().count("\n") == 1 + 3 * 2 * 3
    assert (out / "differences.png").read_bytes().startswith(b"\x89PNG")


def test_programs_get_json(found, monkeypatch, capsys):
    _, printed, _ = run(["compare", "one", "other", "--json"], monkeypatch, capsys)
    told = json.loads(printed.splitlines()[-1])
    assert [one["model"] for one in told["models"]] == ["one", "other", "kriging", "plane"]


def test_runs_of_one_name_are_told_apart_by_their_paths(found, monkeypatch, capsys):
    _, printed, _ = run(["compare", "a/run", "b/run"], monkeypatch, capsys)
    assert "a/run: physics helps here" in printed
    assert "b/run: physics helps here" in printed


def test_what_is_no_run_or_one_run_twice_is_refused(tmp_path, monkeypatch, capsys):
    status, _, told = run(["compare", "one", "one"], monkeypatch, capsys)
    assert status == 2
    assert "is named more than once" in told
    status, _, told = run(["compare", tmp_path / "none"], monkeypatch, capsys)
    assert status == 2
    assert "there is no such folder" in told


@pytest.mark.slow
def test_two_runs_are_told_apart_or_not_and_logarithms_are_no_values(tmp_path, monkeypatch, capsys):
    one = tiny_run(tmp_path, name="one")
    other = tiny_run(tmp_path, name="other")
    words = ["compare", one, other, "--no-refit", "--blocks", 3]
    _, printed, _ = run(words, monkeypatch, capsys)
    assert "one and other cannot be told apart" in printed
    _, printed, _ = run([*words, "--json"], monkeypatch, capsys)
    told = json.loads(printed.splitlines()[-1])
    assert [one["model"] for one in told["models"]] == ["one", "other", "kriging", "plane"]
    logs = tiny_run(tmp_path, name="logs", logarithm=True)
    status, _, told = run(["compare", one, logs], monkeypatch, capsys)
    assert status == 2
    assert "one takes logarithms" in told


@pytest.mark.parametrize(
    ("engine", "settings", "taken"),
    [
        ("mcmc", {"mcmc.num_chains": 2, "exact.linear_solver": "x"}, pair("mcmc", num_chains=2)),
        ("amortise", {"steps": 7, "start": None}, Amortise(steps=7)),
        ("laplace", {"num_modes": 20}, pair("laplace", num_modes=20)),
        ("nuts", {"num_samples": 7}, pair("mcmc", kernel="nuts", num_samples=7)),
        (
            "conditional",
            {"over": "laplace", "num_others": 7, "num_chains": 4},
            pair("laplace(marginal)", num_values=7),
        ),
        (
            "relax",
            {"surrogate": "nodal", "epsilon_rel": 2.0},
            pair("gaussian-vi(relaxed)", epsilon_rel=2.0),
        ),
    ],
)
def test_runs_of_this_version_and_of_earlier_ones_are_fitted_again_as_they_were(
    engine, settings, taken
):
    numbers = {"engine": engine, "settings": settings}
    found = Run(Path(), ObservationsTable(file="wells.csv"), None, numbers)
    assert engine_of_run(found) == taken

"""A run of the experiment `jura` leaves rows with the names that scripts rely on."""

import json

import pytest

from riesz.datasets.jura import jura
from riesz_paper.experiments.jura import experiment as module
from riesz_paper.experiments.jura.cases import cases_of
from riesz_paper.experiments.jura.methods import BY_NAME, entries_for
from riesz_paper.running.runner import run_experiment

KEYS = (
    *("method", "role", "selected", "metal", "secondaries", "split", "restart"),
    *("mae", "crps", "coverage95", "seconds"),
)


def test_methods_that_cannot_read_categories_are_not_asked_to():
    plain, with_categories = cases_of("Cd")
    assert len(entries_for(plain)) > len(entries_for(with_categories))
    assert {entry.role for entry in entries_for(plain)} == {"ours", "paper-method", "baseline"}


@pytest.mark.parametrize(
    "few",
    [
        ("random-forest",),
        pytest.param(("field-regression-no-field", "random-forest"), marks=pytest.mark.slow),
    ],
)
def test_rows_have_the_agreed_names_and_restarts_are_pooled(few, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "entries_for", lambda case: [BY_NAME[name] for name in few])
    monkeypatch.setattr(module, "ENSEMBLED", ("random-forest",))
    monkeypatch.setattr(module, "cases_of", lambda metal: cases_of(metal)[:1])
    run_experiment(
        module.jura_experiment(jura(), 0, "quick", "Co"), tmp_path, seed=0, command="riesz test"
    )
    results = json.loads((tmp_path / "results.json").read_text())
    assert all(set(KEYS) <= set(row) for row in results["rows"])
    own = [row for row in results["rows"] if row["role"] != "published"]
    # one start of the regression, three of the forest and their pool
    assert [row["restart"] for row in own] == [*(0 for _ in few[1:]), 0, 1, 2, "ensemble of 3"]
    # a mean absolute error of 1.5 mg/kg or so; guessing the median would make 2.9
    assert all(1.2 < row["mae"] < 2.2 for row in own)
    assert all(0.8 < row["coverage95"] <= 1 for row in own)
    theirs = [row for row in results["rows"] if row["role"] == "published"]
    assert [row["mae"] for row in theirs] == [1.755, 1.820, 1.801, 1.692]
    assert {path.name for path in tmp_path.iterdir()} >= {"scores.md", "scores.png"}

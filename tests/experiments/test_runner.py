"""Experiments keep finished rows and never mix runs."""

import json

import pytest

from riesz.errors import RieszError
from riesz.experiments.runner import Experiment, Task, run_experiment


def experiment(calls, *, config=None, fail_at=None):
    def task(k):
        def run():
            if k == fail_at:
                raise RuntimeError("power cut")
            calls.append(k)
            return {"square": k * k}

        return Task({"replicate": k}, run)

    return Experiment(
        "squares",
        config or {"mode": "quick"},
        [task(k) for k in range(4)],
        lambda rows: {"count": len(rows)},
        lambda rows, out: (out / "figure.png").write_bytes(b"png"),
    )


def test_a_run_leaves_rows_table_and_figures(tmp_path):
    content = run_experiment(experiment([]), tmp_path / "new", seed=5, command="riesz x")
    assert content["rows"][2] == {"replicate": 2, "square": 4}
    assert content["summary"] == {"count": 4}
    assert (content["seed"], content["command"]) == (5, "riesz x")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {
        "results.json",
        "table.md",
        "figure.png",
    }


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    calls = []
    with pytest.raises(RuntimeError, match="power cut"):
        run_experiment(experiment(calls, fail_at=2), tmp_path, seed=0, command="riesz x")
    assert len(json.loads((tmp_path / "results.json").read_text())["rows"]) == 2
    content = run_experiment(experiment(calls), tmp_path, seed=0, resume=True, command="riesz x")
    assert calls == [0, 1, 2, 3]
    assert [row["square"] for row in content["rows"]] == [0, 1, 4, 9]


def test_rows_of_another_seed_or_configuration_are_not_mixed_in(tmp_path):
    run_experiment(experiment([]), tmp_path, seed=0, command="riesz x")
    with pytest.raises(RieszError, match="was made with seed 0, not 1"):
        run_experiment(experiment([]), tmp_path, seed=1, resume=True, command="riesz x")
    other = experiment([], config={"mode": "full"})
    with pytest.raises(RieszError, match="was made with config"):
        run_experiment(other, tmp_path, seed=0, resume=True, command="riesz x")


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RieszError, match="cannot be made"):
        run_experiment(experiment([]), tmp_path / "file" / "out", seed=0, command="riesz x")

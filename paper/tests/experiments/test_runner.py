"""Experiments keep finished rows and never mix runs."""

import json

import pytest

from riesz.errors import RieszError
from riesz_paper.running.runner import run_experiment
from riesz_paper.running.task import Experiment, Task
from riesz_paper.running.workers import groups_of


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
    assert "parts" not in content


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


def squares() -> Experiment:
    """At the top of a module, so that other processes can build it too."""
    return experiment([])


def squares_that_fail() -> Experiment:
    return experiment([], fail_at=2)


def test_processes_give_the_same_rows_in_the_same_order(tmp_path):
    alone = run_experiment(squares(), tmp_path / "alone", seed=0, command="riesz x")
    shared = run_experiment(
        squares(), tmp_path / "shared", seed=0, command="riesz x", workers=(squares, 2)
    )
    assert shared["rows"] == alone["rows"]


def test_an_error_in_a_process_is_told_and_finished_rows_are_kept(tmp_path):
    with pytest.raises(RieszError, match="power cut"):
        run_experiment(
            squares_that_fail(), tmp_path, seed=0, command="x", workers=(squares_that_fail, 1)
        )
    assert [r["square"] for r in json.loads((tmp_path / "results.json").read_text())["rows"]] == [
        0,
        1,
    ]


def test_rows_made_elsewhere_are_told_apart(tmp_path):
    with pytest.raises(RuntimeError, match="power cut"):
        run_experiment(experiment([], fail_at=3), tmp_path, seed=0, command="riesz x")
    file = tmp_path / "results.json"
    elsewhere = {**json.loads(file.read_text()), "machine": {"system": "Plan 9"}}
    file.write_text(json.dumps(elsewhere))
    content = run_experiment(experiment([]), tmp_path, seed=0, resume=True, command="riesz x")
    assert [part["rows"] for part in content["parts"]] == [3, 1]
    assert content["parts"][0]["machine"] == {"system": "Plan 9"}
    assert content["parts"][1]["machine"] == content["machine"]


def test_drawing_figures_again_does_not_claim_rows_made_elsewhere(tmp_path):
    run_experiment(experiment([]), tmp_path, seed=0, command="riesz x")
    file = tmp_path / "results.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "machine": {"system": "Plan 9"}}))
    content = run_experiment(experiment([]), tmp_path, seed=0, resume=True, command="riesz x")
    assert content["machine"] == {"system": "Plan 9"}
    assert "parts" not in content


def test_tasks_of_a_group_go_to_one_process():
    tasks = [
        Task({"method": m, "quantity": q}, dict, group=(m,)) for q in ("u", "v") for m in ("a", "b")
    ]
    found = [[task.identity["quantity"] for task in group] for group in groups_of(tasks)]
    assert found == [["u", "v"], ["u", "v"]]

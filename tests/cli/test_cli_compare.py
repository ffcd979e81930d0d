"""`riesz compare`: what it prints and writes, and how it says no."""

import json

import pytest
from tests.command import run
from tests.tiny_run import tiny_run

from riesz.io.store.results import read_results


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [tiny_run(folder, name=name) for name in ("one", "other")]


def test_runs_are_compared_printed_and_kept(runs, tmp_path, monkeypatch, capsys):
    out = tmp_path / "new"
    status, printed, _ = run(
        ["compare", *runs, "--no-refit", "--blocks", 3, "--out", out], monkeypatch, capsys
    )
    assert status == 0
    assert "9 observations left out by blocks (3)" in printed
    assert "one and other cannot be told apart" in printed
    content = read_results(out / "results.json")
    assert [row["model"] for row in content["rows"]] == ["one", "other", "kriging", "plane"]
    assert content["summary"]["verdict"]
    assert len(content["summary"]["blocks"]) == 9
    assert (out / "models.csv").read_text().startswith("model,engine,elpd_loo,")
    assert (out / "pairs.csv").read_text().count("\n") == 1 + 6 * 2 * 3
    assert (out / "differences.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_programs_get_json(runs, monkeypatch, capsys):
    words = ["compare", runs[0], "--no-refit", "--blocks", 3, "--json"]
    _, printed, _ = run(words, monkeypatch, capsys)
    told = json.loads(printed.splitlines()[-1])
    assert [one["model"] for one in told["models"]] == ["one", "kriging", "plane"]


def test_what_cannot_be_compared_is_refused(runs, tmp_path, monkeypatch, capsys):
    status, _, told = run(["compare", runs[0], runs[0]], monkeypatch, capsys)
    assert status == 2
    assert "is named more than once" in told
    status, _, told = run(["compare", tmp_path / "none"], monkeypatch, capsys)
    assert status == 2
    assert "there is no such folder" in told
    logs = tiny_run(tmp_path, name="logs", logarithm=True)
    status, _, told = run(["compare", runs[0], logs], monkeypatch, capsys)
    assert status == 2
    assert "one takes logarithms" in told

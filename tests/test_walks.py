"""The walks of the Start page are what was run."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_commands_of_the_page_are_those_that_were_recorded(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    commands_of = runpy.run_path(str(ROOT / "benchmarks" / "walks.py"))["commands_of"]
    printed = commands_of((ROOT / "docs" / "index.md").read_text())
    recorded = json.loads((ROOT / "results" / "walks" / "results.json").read_text())["rows"]
    assert [len(walk) for walk in printed] == [4, 4]
    assert [" ".join(c.split()) for walk in printed for c in walk] == [
        row["command"] for row in recorded
    ]


def test_the_page_rounds_the_seconds_that_were_recorded():
    rows = json.loads((ROOT / "results" / "walks" / "results.json").read_text())["rows"]
    lines = (ROOT / "docs" / "index.md").read_text().splitlines()
    told = [int(line.split("|")[2]) for line in lines if line.startswith("| `")]
    assert len(told) == len(rows)
    assert all(abs(t - row["seconds"]) <= 0.6 for t, row in zip(told, rows, strict=True))

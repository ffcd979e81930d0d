"""Every experiment from its command to its files, by the lines of `make reproduce-smoke`."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from riesz.io.store.results import read_results
from riesz_paper.catalogue import ExperimentName

ROOT = Path(__file__).parents[2]
RIESZ = [sys.executable, "-c", "from riesz.cli.main import main; main()"]
NEEDS = {"hanford": "hanford", "pumping": "pumping", "aquifer": "esrp", "aquifer-time": "esrp"}
"""Folders of RIESZ_DATA, by experiment."""


def reproduced() -> list[list[str]]:
    """The words of each command that `make reproduce-smoke` would run, and of blind problems."""
    words = ["make", "--dry-run", "reproduce-smoke"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line.partition("/riesz ")[2] for line in told.splitlines() if "/riesz " in line]
    return [shlex.split(line) for line in lines]


COMMANDS = [*reproduced(), ["experiment", "blind", "--smoke", "--out", "results/blind"]]


def test_every_experiment_is_run():
    named = {words[1] for words in COMMANDS if words[0] == "experiment"}
    assert named == set(ExperimentName)


QUICK = ("smoother", "norms", "transport")
"""Others are among the slow tests."""

NOT_KEPT = {"crossover"}
"""Run at no size that means anything so far."""


def marked(words: list[str]):
    marks = [] if words[1] in QUICK else [pytest.mark.slow]
    return pytest.param(
        words, marks=marks, id=" ".join(words[:2]) + " --select" * ("--select" in words)
    )


@pytest.mark.parametrize("words", [marked(words) for words in COMMANDS])
def test_a_command_leaves_rows_like_those_that_are_kept(words, tmp_path):
    folder = NEEDS.get(words[1])
    data = Path(os.environ.get("RIESZ_DATA", "nowhere")).resolve()
    if folder and not (data / folder).is_dir():
        pytest.skip(f"needs RIESZ_DATA, a folder with {folder} in it: see paper/docs/data.md")
    place = words.index("--out") + 1
    told = os.environ | {"RIESZ_DATA": str(data), "MPLBACKEND": "Agg", "RIESZ_CACHE": "off"}
    done = subprocess.run(
        [*RIESZ, *words[:place], str(tmp_path), *words[place + 1 :]],
        capture_output=True,
        cwd=ROOT,
        env=told,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = read_results(tmp_path / "results.json")  # numbers that are not finite are never written
    name = Path(words[place]).name
    if words[1] in NOT_KEPT:
        return
    (kept,) = (path for path in kept_files() if path.parent.name == name)
    like(found["rows"], read_results(kept)["rows"])


def kept_files() -> list[Path]:
    folders = (ROOT / "paper" / "results", ROOT / "results")
    return [path for folder in folders for path in folder.glob("*/results.json")]


def like(rows: list[dict], kept: list[dict]) -> None:
    """All columns are there, and all kinds of methods."""
    assert rows
    assert {key for row in kept for key in row} <= {key for row in rows for key in row}
    for key in ("method", "estimator", "role"):
        assert kinds(kept, key) <= kinds(rows, key)


def kinds(rows: list[dict], key: str) -> set[str]:
    """Without the numbers in which methods differ."""
    return {re.sub(r"-[\d.]+$", "", row[key]) for row in rows if key in row}

"""The command: what it writes, how it says no, and its exit status."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tests.command import run
from typer.testing import CliRunner

from riesz.case.run.folder import Run
from riesz.cli.main import app
from riesz.errors import RieszError
from riesz.io import write_mesh
from riesz.mesh.shapes import rectangle
from riesz_paper.commands import report

TRANSPORT = Path(__file__).parent.parent.parent / "examples" / "transport" / "problem.toml"

SQUARE = {
    "type": "Polygon",
    "coordinates": [[[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]],
}


def test_help_names_every_command_with_an_example():
    runner = CliRunner()
    listing = runner.invoke(app, ["--help"]).output
    commands = re.findall(r"^  ([a-z-]+) ", listing.split("Commands:")[1], flags=re.MULTILINE)
    ours = ["init", "check", "fit", "predict", "next", "report", "compare"]
    assert commands == [*ours, "app", "demo", "fit-many", "experiment", "pumptest", "data"]
    for command in commands:
        text = runner.invoke(app, [command, "--help"]).output
        assert f"Example: riesz {command}" in text


def test_help_with_commands_of_the_paper_waits_for_nothing_heavy():
    words = "import sys, riesz.cli.main; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    modules = set(told.stdout.split())
    assert "riesz_paper.commands" in modules
    assert not {"pydantic", "numpy", "jax", "scipy", "matplotlib"} & modules


def test_shells_complete_the_names_of_commands():
    words = {"COMP_WORDS": "riesz rep", "COMP_CWORD": "1", "_RIESZ_COMPLETE": "complete_bash"}
    assert CliRunner().invoke(app, [], prog_name="riesz", env=words).output.strip() == "report"


def test_a_quiet_fit_prints_nothing(tmp_path, monkeypatch, capsys):
    asked = []

    def fitted(case, choice, options, *_):
        asked.append(options.progress)
        made = Mock(spec=Run, summary="a summary", numbers={"engine": choice.engine.name})
        made.__class__, made.folder = Run, options.out
        return made

    monkeypatch.setattr("riesz.case.run.fit.run_case", fitted)
    words = ["fit", TRANSPORT, "--engine", "laplace", "--out", tmp_path / "run"]
    assert run([*words, "--quiet"], monkeypatch, capsys) == (0, "", "")
    status, text, errors = run([*words, "--quiet", "--json"], monkeypatch, capsys)
    assert (status, json.loads(text)["engine"], errors) == (0, "laplace", "")
    assert asked == [False, False]
    status, text, errors = run(words, monkeypatch, capsys)
    assert text.startswith("a summary")
    assert "engine laplace" in errors


@pytest.mark.slow
def test_an_experiment_on_the_users_own_mesh_leaves_its_files(tmp_path, monkeypatch, capsys):
    write_mesh(tmp_path / "own.vtu", rectangle((12, 8), upper=(3, 2)))
    out = tmp_path / "out"
    words = ["experiment", "smoother", "--domain", tmp_path / "own.vtu", "--out", out, "--json"]
    status, text, _ = run(words, monkeypatch, capsys)
    assert status == 0
    assert json.loads(text.splitlines()[-1])["rows"] == 1
    results = json.loads((out / "results.json").read_text())
    again = shlex.split(results["command"])
    assert again[:4] == ["riesz", "experiment", "smoother", "--quick"]
    assert again[4:] == [
        *("--out", str(out)),
        *("--seed", "0"),
        *("--domain", str(tmp_path / "own.vtu")),
    ]
    assert results["config"]["domain"] == str(tmp_path / "own.vtu")
    assert results["rows"][0]["nodes"] == 13 * 9
    assert {p.name for p in out.iterdir()} == {
        "results.json",
        "table.md",
        "smoother.png",
        "fem.png",
    }
    # Another mesh under the same name, with as many nodes and cells, is another run.
    write_mesh(tmp_path / "own.vtu", rectangle((12, 8), upper=(3, 1)))
    status, _, errors = run([*words, "--resume"], monkeypatch, capsys)
    assert status == 2
    assert "was made with config" in errors


def geojson(tmp_path, content):
    path = tmp_path / "domain.geojson"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not GeoJSON"),
        ("[1]", "is not GeoJSON: it holds a list"),
        ({"type": "Point", "coordinates": [0, 0]}, "is of type 'Point'"),
        ({**SQUARE, "coordinates": [SQUARE["coordinates"][0][:-1]]}, "is not closed"),
        (
            {**SQUARE, "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]},
            "crosses itself",
        ),
        (
            {**SQUARE, "coordinates": [*SQUARE["coordinates"], [[5, 5], [6, 5], [6, 6], [5, 5]]]},
            "outside its shell",
        ),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [NaN, 1], [1, 0], [0, 0]]]}', "NaN"),
        ({"type": "Polygon"}, "has no 'coordinates'"),
        ({"type": "Polygon", "coordinates": 5}, "not a list"),
        ({"type": "MultiPolygon", "coordinates": None}, "not a list"),
        ({"type": "FeatureCollection"}, "has no 'features'"),
        ({"type": "FeatureCollection", "features": [None]}, "in place of a feature"),
        ({"type": "Feature"}, "has no geometry"),
        ({"type": "Feature", "geometry": None}, "has no geometry"),
        ({"type": "Feature", "geometry": [1]}, "in place of a feature"),
        ({**SQUARE, "coordinates": [[[0, 0], [1e200, 0], [0, 1e200], [0, 0]]]}, "absurd"),
        ({**SQUARE, "coordinates": [[[0, 0], [10**400, 0], [0, 1], [0, 0]]]}, "not an array"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_a_bad_outline_is_one_line_and_status_two(content, message, tmp_path, monkeypatch, capsys):
    path = geojson(tmp_path, content)
    words = ["experiment", "smoother", "--domain", path, "--out", tmp_path / "out"]
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 2
    assert message in errors
    assert "Traceback" not in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suffix", [".vtu", ".npz"])
def test_a_damaged_mesh_file_is_one_line_and_status_two(suffix, tmp_path, monkeypatch, capsys):
    path = tmp_path / f"mesh{suffix}"
    write_mesh(path, rectangle((4, 4)))
    whole = path.read_bytes()
    garbage = np.random.default_rng(0).bytes(200)
    for content in (whole[: len(whole) // 2], garbage):
        path.write_bytes(content)
        words = ["experiment", "smoother", "--domain", path, "--out", tmp_path / "out"]
        status, _, errors = run(words, monkeypatch, capsys)
        assert status == 2
        assert str(path) in errors
        assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["experiment", "smother", "--out", "x"], "smother"),
        (["experiment", "smoother"], "--out"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--seed", str(2**63)], "--seed"),
        (["fit", "a.toml", "--out", "x", "--seed", str(2**63)], "--seed"),
        (["predict", "run", "--out", "a.csv", "--seed", str(2**63)], "--seed"),
        (["experiment", "smoother", "--domain", "nowhere.msh", "--out", "x"], "nowhere.msh"),
        (["experiment", "smoother", "--domain", "a.txt", "--out", "x"], ".msh, .npz, .vtu"),
        (["experiment", "taper", "--domain", "a.msh", "--out", "x"], "--domain is for smoother"),
    ],
)
def test_wrong_words_have_status_two(words, message, monkeypatch, capsys):
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 2
    assert message in errors
    assert "Traceback" not in errors


def test_what_is_not_finite_is_not_printed_as_json(tmp_path, capsys):
    with pytest.raises(RieszError, match=r"the results hold nan at error\[1\]"):
        report({"error": [1.0, float("nan")]}, tmp_path, as_json=True)
    assert not capsys.readouterr().out

"""`riesz check --calibrate`: what it prints, what it writes, and how it says no."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.command import run
from tests.small_problem import NORMAL, problem_toml, rectangle, written

from riesz.amortise.engine import Amortise
from riesz.case.file.problem import read_problem
from riesz.diagnose import sbc
from riesz.diagnose.calibration import Calibration
from riesz.errors import RieszError
from riesz.io.store.results import read_results

TRANSPORT = Path(__file__).parent.parent.parent / "examples" / "transport" / "problem.toml"

LIMITED = problem_toml(
    domain=rectangle([4, 2], max_edge=1.5, levels=2),
    noise=0.1,
    equation={"diffusion": 1.0, "source": "f"},
    boundary={"boundary": 0.0},
    unknowns={"f": NORMAL},
)


@pytest.fixture
def found(monkeypatch):
    """Two hundred data sets, fitted in no time."""

    def known(problem, *, num_data_sets, seed):
        assert problem.num_coordinates == 2
        rows = (np.arange(num_data_sets) + 0.5) / num_data_sets
        return Calibration(
            names=("tau[0]", "tau[1]"),
            ranks=np.stack([rows, rows], axis=1),
            contraction=np.array([0.99, 0.98]),
            sensor_errors=np.full(num_data_sets, 0.03),
            start_gaps=np.zeros(20),
            num_unsettled=0,
            seconds=1.0,
        )

    monkeypatch.setattr("riesz.case.check.calibration.sbc", known)


def test_it_is_printed_and_written(found, tmp_path, monkeypatch, capsys):
    words = ["check", TRANSPORT, "--calibrate", "--data-sets", 200, "--out", tmp_path / "new"]
    status, out, _ = run(words, monkeypatch, capsys)
    assert status == 0
    assert "tau[1]" in out
    assert "nothing speaks against" in out
    content = read_results(tmp_path / "new" / "results.json")
    assert [row["unknown"] for row in content["rows"]] == ["tau[0]", "tau[1]"]
    assert content["summary"]["num_data_sets"] == 200
    assert (tmp_path / "new" / "ranks.png").read_bytes().startswith(b"\x89PNG")


def test_programs_get_json(found, monkeypatch, capsys):
    words = ["check", TRANSPORT, "--calibrate", "--data-sets", 40, "--json"]
    _, out, _ = run(words, monkeypatch, capsys)
    assert json.loads(out.splitlines()[-1])["calibrated"] is True


def test_a_folder_needs_something_to_put_there(tmp_path, monkeypatch, capsys):
    status, _, errors = run(["check", TRANSPORT, "--out", tmp_path], monkeypatch, capsys)
    assert status == 2
    assert "add --calibrate" in errors


def test_observations_below_a_limit_are_refused_before_any_work(tmp_path, monkeypatch, capsys):
    path = written(tmp_path, LIMITED, "x,y,value\n1,1,<0.5\n2,1,0.4\n3,1,0.7\n")
    words = ["check", path, "--calibrate", "--out", tmp_path / "new"]
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 2
    assert errors.startswith("riesz: 1 of 3 observations are only known to lie below a limit")
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "new").exists()
    problem = read_problem(path).problem
    for made_up in (sbc, Amortise().train):
        with pytest.raises(RieszError, match="no data sets can be made up like these"):
            made_up(problem)


def test_a_folder_that_cannot_be_made_is_told_before_any_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    words = ["check", TRANSPORT, "--calibrate", "--out", tmp_path / "file" / "folder"]
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 2
    assert "cannot be made" in errors

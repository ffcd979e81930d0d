"""A fit whose mesh is refined for the data, and what is made of its run folder."""

import json

import numpy as np
import pytest
from tests.command import run
from tests.small_problem import NORMAL, problem_toml, rectangle, written

from riesz.case.file.problem import read_problem
from riesz.case.run.folder import REFINED, read_run
from riesz.case.run.stored_problem import case_before
from riesz.errors import RieszError

PROBLEM = 'mesh_error = "correct"\n' + problem_toml(
    domain=rectangle([1, 1], max_edge=0.4),
    noise=0.01,
    equation={"diffusion": 1.0, "source": "s"},
    unknowns={"s": NORMAL},
    engine_name="laplace",
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The folder, and the run as it was at hand."""
    path = tmp_path_factory.mktemp("refined")
    case = read_problem(written(path, PROBLEM))
    return path, case.fit(path / "run", refine=True, check=False, progress=False)


def test_a_run_on_a_refined_mesh_is_read_as_it_was_written(fitted, monkeypatch, capsys):
    path, made = fitted
    opened = read_run(path / "run")
    (note,) = [note for note in opened.notes if note.code == "mesh_refined"]
    assert (path / "run" / REFINED).is_file()
    assert opened.numbers["nodes"] == note.values["nodes"] > note.values["before"]
    assert case_before(opened).problem.forward.space.mesh.num_nodes == note.values["before"]
    at = opened.posterior.coordinate_mean()
    own, stored = made.case.problem, opened.case.problem
    np.testing.assert_array_equal(stored.state(at), own.state(at))
    monkeypatch.chdir(path)
    status, _, error = run(
        ("predict", "run", "--quantity", "u", "--grid", "4x4", "--out", "u.csv"),
        monkeypatch,
        capsys,
    )
    assert status == 0, error
    made.predict("u", grid=(4, 4)).save(path / "made.csv")
    assert (path / "u.csv").read_text() == (path / "made.csv").read_text()


def test_a_finished_run_knows_whether_it_was_refined(fitted):
    path, _ = fitted
    case = read_problem(path / "problem.toml")
    case.fit(path / "run", refine=True, check=False, resume=True)  # is read
    manifest = json.loads((path / "run" / "manifest.json").read_text())
    assert "--refine" in manifest["command"]
    with pytest.raises(RieszError, match="differs in refine"):
        case.fit(path / "run", check=False, resume=True)

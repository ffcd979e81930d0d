"""True fits, many of them in one process, are those that are run alone."""

import warnings

import numpy as np
import pytest
from tests.many.stub import content
from tests.small_problem import problem_toml, written

import riesz as rz
from riesz.errors import RieszError
from riesz_many import fit_many


def wells(k):
    """Four of them, at other places and with other values for each k."""
    rng = np.random.default_rng(k)
    lines = [f"{x:.3f},{y:.3f},{v:.3f}" for x, y, v in rng.uniform(0.2, 0.8, (4, 3))]
    return "\n".join(["x,y,value", *lines]) + "\n"


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    for k in range(3):
        (folder / f"site{k}").mkdir()
        written(folder / f"site{k}", problem_toml(engine_name="laplace"), wells(k))
    (folder / "broken").mkdir()
    written(folder / "broken", problem_toml(equation={"diffusion": "nothing"}))
    return folder


def test_files_are_fitted_as_alone_and_what_is_broken_is_told(sites):
    runs = sites / "runs"
    with warnings.catch_warnings(action="ignore"):
        rows = {row.name: row for row in fit_many(sites, out=runs, progress=False)}
        alone = rz.read_problem(sites / "site2" / "problem.toml").fit(
            sites / "alone", progress=False
        )
    assert {row.state for name, row in rows.items() if name != "broken"} == {"done"}
    assert rows["site0"].engine == "laplace"
    assert rows["site0"].verdict in ("good", "doubtful", "bad")
    assert rows["broken"].state == "failed"
    assert "nothing" in rows["broken"].message
    assert content(runs / "site2") == content(alone.folder)
    assert (runs / "site0" / "report.html").is_file()
    assert "site0/report.html" in (runs / "index.html").read_text()


def test_problems_in_memory_are_fitted_here_and_an_error_is_in_its_place(sites):
    cases = [rz.read_problem(sites / f"site{k}" / "problem.toml") for k in range(2)]
    with warnings.catch_warnings(action="ignore"):
        found = fit_many([cases[0], cases[1].problem], "laplace", check=False, progress=False)
        other = fit_many([cases[0]], "gaussian-vi(surrogate)", time_limit=1.0, progress=False)
    assert [one.engine for one in found] == ["laplace", "laplace"]
    assert not np.array_equal(*(one.distribution.mean for one in found))
    assert isinstance(other[0], RieszError)
    with pytest.raises(RieszError, match="problems in memory are fitted in this process"):
        fit_many(cases, jobs=2)
    with pytest.raises(RieszError, match="give the folder for them, out"):
        fit_many(sites)
    with pytest.raises(RieszError, match="found a Case among paths"):
        fit_many([sites / "site0" / "problem.toml", cases[0]], out=sites / "other")

"""`mesh_error = "correct"` in a problem file, from the fit to a prediction between the nodes."""

import numpy as np
import pytest
from tests.small_problem import problem_toml, rectangle, written

import riesz as rz
from riesz.case.file.problem import read_problem
from riesz.case.report.content import content_of
from riesz.case.run.folder import read_run

NOISE = 0.001
PLACES = np.random.default_rng(1).uniform(0.1, 0.9, (40, 2))


def truth(places):
    """Of -u'' = 1 with nothing at the left and no flux elsewhere."""
    return places[:, 0] - places[:, 0] ** 2 / 2


def run_with(folder, mesh_error, **options):
    rng = np.random.default_rng(0)
    wells = rng.uniform(0.05, 0.95, (20, 2))
    values = truth(wells) + NOISE * rng.normal(size=20)
    rows = [",".join(map(repr, map(float, row))) for row in np.column_stack([wells, values])]
    text = problem_toml(domain=rectangle([1, 1], max_edge=0.5), noise=NOISE, engine_name="laplace")
    folder.mkdir()
    table = "\n".join(["x,y,value", *rows, ""])
    path = written(folder, f'mesh_error = "{mesh_error}"\n{text}', table)
    return read_problem(path).fit(folder / "run", check=False, progress=False, **options)


def state(run, stat):
    """From the draws that the run keeps."""
    (values,) = run.predict("u", stat, points=PLACES).values.values()
    return np.asarray(values)


def off(run):
    """The largest error of the state, in its sd."""
    return np.abs((state(run, "mean") - truth(PLACES)) / state(run, "sd")).max()


def test_a_run_is_corrected_and_read_again(tmp_path):
    plain, run = (run_with(tmp_path / word, word) for word in ("report", "correct"))
    assert off(plain) > 5
    assert off(run) < 4
    assert "corrected by that" in (run.folder / "summary.txt").read_text()
    again = read_run(run.folder)
    np.testing.assert_allclose(state(again, "mean"), state(run, "mean"))
    mapped = content_of(again).maps[-1]
    assert mapped.name == "mesh error"
    assert mapped.title == "largest error of the mesh in value, before any correction"
    shift = again.posterior.mesh_shift
    assert shift is not None
    seen = np.abs(shift.at(again.draws().mesh, PLACES)).max()
    assert seen <= mapped.mean.max() < 2 * seen
    computed = rz.predict(again.posterior, "u", PLACES, num_draws=400)
    assert np.abs(computed.mean - truth(PLACES)).max() < 4 * NOISE


@pytest.mark.slow
def test_a_refined_mesh_is_corrected_by_what_it_misses_itself(tmp_path):
    run = run_with(tmp_path / "both", "correct", refine=True)
    assert off(run) < 4
    shift = run.posterior.mesh_shift
    assert shift is not None
    assert shift.at_nodes(run.posterior.problem.forward.space.mesh).shape[1] < len(shift.states[0])
    assert off(read_run(run.folder)) < 4

"""A run is predicted from without a solve, and what was fitted is never lost."""

import json
import shutil
import subprocess
import sys

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from tests.command import run
from tests.pairs import pair, replace_run
from tests.small_problem import written
from tests.tiny_run import FOUND, tiny_run

from riesz.case.file.problem import read_problem
from riesz.case.run.fit import account_of, write_run
from riesz.case.run.folder import read_run
from riesz.case.run.misfit import read_misfit
from riesz.errors import FileFormatError, RieszError
from riesz.inference.fit import Choice, fit
from riesz.notes import Note, text_note
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("kept"), exchange=True)


@pytest.fixture
def programs():
    """Counts those that are compiled, from here on."""
    counted = []

    def listen(event, duration, **_):
        if "backend_compile" in event:
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield counted
    jax.monitoring.clear_event_listeners()


def test_what_is_kept_is_predicted_without_compiling_anything(folder, tmp_path, programs):
    jax.jit(lambda x: x + 1.2345)(1.0)
    assert len(programs) >= 1  # they are counted
    programs.clear()
    for quantity in ("u", "value", "measurement", "conductivity", "level"):
        words = {"quantity": quantity, "stat": "mean,sd,q2.5,exceed:100", "cell": 400.0}
        for suffix in ("csv", "tif", "gpkg"):
            read_run(folder).predict(**words).save(tmp_path / f"a.{suffix}")
    read_run(folder).predict(quantity="conductivity", stat="all").save(tmp_path / "a.vtu")
    read_run(folder).predict(stat="ensemble", cell=400.0, num_draws=5).save(tmp_path / "a.csv")
    read_run(folder).report(tmp_path / "page.html")
    assert programs == []


def test_whoever_predicts_imports_no_engine():
    """They bring most of what Riesz is made of, and take longer than most predictions."""
    words = "import sys, riesz.case.run.predict, riesz.case.report.page; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    modules = told.stdout.split()
    assert "riesz.prediction.draws" in modules
    absent = ("riesz.method", "riesz.density", "optax")
    assert not [name for name in modules if name.startswith(absent)]


def test_a_measurement_is_wider_than_the_value_by_the_noise(folder, tmp_path):
    found = {}
    for quantity in ("value", "measurement"):
        out = tmp_path / f"{quantity}.csv"
        read_run(folder).predict(quantity=quantity, stat="sd", cell=400.0).save(out)
        found[quantity] = np.loadtxt(out, delimiter=",", skiprows=1)[:, 2]
    # Thirty draws go together with their noise by chance, up to half of it or so.
    together = (found["measurement"] ** 2 - found["value"] ** 2 - 4) / (4 * found["value"])
    assert np.abs(together).max() < 3 / np.sqrt(30)


def test_without_being_asked_for_anything_else_a_prediction_is_of_measurements(folder, tmp_path):
    told = read_run(folder).predict(stat="sd", cell=400.0).save(tmp_path / "a.csv")
    assert list(told["ranges"]) == ["measurement_sd"]
    assert told["ranges"]["measurement_sd"][0] > 1.5  # the noise alone has 2


def test_draws_that_are_not_kept_are_computed(folder, tmp_path, monkeypatch):
    run, asked = read_run(folder), []

    def drawn(posterior, **words):
        asked.append(words)
        return run.stored[0]

    monkeypatch.setattr("riesz.case.run.stored_problem.posterior_draws", drawn)
    run.predict(cell=400.0, num_draws=30).save(tmp_path / "a.csv")
    assert asked == []
    run.predict(cell=400.0, num_draws=31).save(tmp_path / "a.csv")
    run.predict(cell=400.0, seed=1).save(tmp_path / "a.csv")
    run.predict(cell=400.0, seed=1).save(tmp_path / "b.csv")  # once is enough
    assert asked == [{"num_draws": 31, "seed": 0}, {"num_draws": None, "seed": 1}]


def test_a_run_of_a_version_that_kept_no_draws_is_read(folder, tmp_path, monkeypatch):
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    (old / "draws.npz").unlink()
    manifest = json.loads((old / "manifest.json").read_text())
    del manifest["files"]["draws.npz"]
    (old / "manifest.json").write_text(json.dumps(manifest))
    kept = read_run(folder).stored[0]
    monkeypatch.setattr(
        "riesz.case.run.stored_problem.posterior_draws", lambda posterior, **_: kept
    )
    read_run(old).predict(cell=400.0).save(tmp_path / "old.csv")
    read_run(folder).predict(cell=400.0).save(tmp_path / "new.csv")
    assert (tmp_path / "old.csv").read_text() == (tmp_path / "new.csv").read_text()


def test_what_this_version_cannot_read_is_told_with_the_command_that_makes_it_again(
    folder, tmp_path, monkeypatch
):
    def refused(path):
        raise FileFormatError("a saved thing is of another version: fit again.")

    monkeypatch.setattr("riesz.case.run.folder.read_draws", refused)
    with pytest.raises(RieszError, match=r"fit again\. The run was made by: riesz fit problem\."):
        read_run(folder).predict(cell=400.0).save(tmp_path / "a.csv")


def posterior_of(folder, coordinates):
    """Of a diffusivity, by draws of its coordinate: far out it is infinite."""
    case = read_problem(written(folder))
    draws = EmpiricalDraws(jnp.asarray(coordinates, float).reshape(1, -1, 1))
    return case, Posterior(case.problem, draws, ExactStates(), {}, "mcmc", 0)


@pytest.mark.slow
def test_draws_without_a_solution_are_left_out_and_told(tmp_path):
    _, posterior = posterior_of(tmp_path, [0.0, 0.5, 1e5, -0.5])
    found = account_of(posterior)
    assert found.failed is None
    assert found.stored[0].num_draws == 3
    assert Note("draws_lost", lost=1, total=4) in found.posterior.notes
    assert np.isfinite(found.summary.residual_rms)
    assert found.misfit.words == ()  # of three draws
    assert "misfit: no observation, place or prior contradicts the model" in str(found.summary)


def test_what_contradicts_a_model_is_kept_and_read(tmp_path):
    run = read_run(tiny_run(tmp_path, misfit=FOUND))
    assert run.misfit.findings == FOUND.findings
    np.testing.assert_allclose(run.misfit.residuals, FOUND.residuals)
    np.testing.assert_array_equal(np.isnan(run.misfit.k_hat), np.isnan(FOUND.k_hat))
    assert run.misfit.labels == FOUND.labels
    assert run.numbers["misfit"] == list(FOUND.words)
    for damage in ("{}", '{"schema": 1, "findings": [3]}'):
        (tmp_path / "misfit.json").write_text(damage)
        with pytest.raises(RieszError, match="is not what riesz fit wrote: fit again"):
            read_misfit(tmp_path / "misfit.json")


def test_what_was_fitted_is_kept_where_it_cannot_be_summarised(tmp_path):
    case, posterior = posterior_of(tmp_path, [1e5, 2e5, 3e5, 0.0])
    details = {
        "choice": Choice(pair("mcmc", kernel="nuts"), text_note("so")),
        "command": "",
        "seed": 0,
        "seconds": 1.0,
    }
    numbers = write_run(tmp_path / "run", case, account_of(posterior), **details)
    assert "has no solution for 3 of 4 draws" in numbers["failed"]
    run = read_run(tmp_path / "run")
    assert run.notes[-1].code == "not_summarised"
    assert run.numbers["failed"] == str(run.notes[-1]) == run.numbers["notes"][-1]
    assert json.loads(json.dumps(run.numbers)) == run.numbers == numbers
    assert run.numbers["failed"] in run.summary
    np.testing.assert_array_equal(run.posterior.distribution.all(), posterior.distribution.all())


@eqx.filter_jit
def solved(value):
    return eqx.error_if(value, value > 0, "the linear solve broke down")


def fails(*_, **__):
    """As compiled code does: with pages about programs around what went wrong."""
    return solved(jnp.ones(()))


def test_an_engine_that_fails_leaves_a_message_and_status_one(tmp_path, monkeypatch, capsys):
    replace_run(monkeypatch, "mcmc", fails)
    words = ["fit", written(tmp_path), "--out", tmp_path / "run", "--engine", "mcmc"]
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 1
    assert "riesz: the engine mcmc failed: the linear solve broke down. Look for" in errors
    assert "Traceback" not in errors
    assert "JIT" not in errors


def test_a_mistake_in_an_engine_is_no_failure_of_numbers(tmp_path, monkeypatch):
    def mistaken(*_, **__):
        raise NotImplementedError("no such branch")

    replace_run(monkeypatch, "mcmc", mistaken)
    with pytest.raises(NotImplementedError):
        fit(read_problem(written(tmp_path)).problem, "mcmc")


def test_a_summary_that_fails_leaves_the_run_a_message_and_status_one(
    tmp_path, monkeypatch, capsys
):
    def fitted(engine, problem, **_):
        draws = EmpiricalDraws(jnp.zeros((1, 4, problem.num_coordinates)))
        return Posterior(problem, draws, ExactStates(), {}, "mcmc", 0)

    replace_run(monkeypatch, "mcmc", fitted)
    monkeypatch.setattr("riesz.case.run.fit.draws_and_course", fails)
    words = ["fit", written(tmp_path), "--out", tmp_path / "run", "--engine", "mcmc"]
    status, _, errors = run(words, monkeypatch, capsys)
    assert status == 1
    assert "the posterior is kept, but could not be summarised: the linear solve broke" in errors
    assert "Traceback" not in errors
    assert read_run(tmp_path / "run").posterior.distribution.num_draws == 4

"""A fit that is stopped, by whatever means, goes on and ends at the same numbers."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import braked, tiny_run_in_time, walk
from tests.pairs import replace_run
from tests.small_problem import problem_toml, table, written

import riesz
from riesz.case.file.problem import read_problem
from riesz.cli.main import main
from riesz.io.store.checkpoint import Checkpoint
from riesz.prediction.drawing import draws_and_course

resource = pytest.importorskip("resource")  # not on Windows

PROBLEM = problem_toml(
    engine_name="mcmc",
    engine={
        "mcmc": {"kernel": "nuts", "num_warmup": 150, "num_samples": 5000, "num_chains": 2},
        "gaussian-vi": {"max_steps": 300, "tolerance": 1e-4},
    },
)
"""On 25 nodes, with settings that find little, in a number of blocks."""

DRAWN = "riesz.case.run.fit.draws_and_course"

FIT = ("fit", "problem.toml", "--out", "run", "--checkpoint-seconds", "0")


def place(folder):
    folder.mkdir()
    written(folder, PROBLEM)
    return folder


def riesz_command(*words):
    """Exit status of the command, run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["riesz", *words])
        with pytest.raises(SystemExit) as stop:
            main()
    return stop.value.code or 0


def arrays_of(run):
    """All numbers of a posterior, under the names that they are saved by."""
    (archive,) = (run / "posterior").glob("*.npz")
    with np.load(archive) as arrays:
        return {name: arrays[name] for name in arrays.files}


def check_same(run, other):
    ours, theirs = arrays_of(run), arrays_of(other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.tobytes() == theirs[name].tobytes(), name


@pytest.fixture(scope="module")
def walking():
    """All fits of this process walk, and what was read and compiled for one serves the next.

    What they found is neither checked nor told by more than a few draws.
    """
    read = {}

    def read_once(path, **own):
        text = path.read_bytes()
        read[text] = read.get(text) or read_problem(path, **own)
        return read[text]

    with pytest.MonkeyPatch.context() as patch:
        replace_run(patch, "mcmc", walk.walked)
        patch.setattr("riesz.case.file.problem.read_problem", read_once)
        patch.setattr(
            "riesz.inference.run.with_importance_check", lambda found, seed, devices: found
        )
        patch.setattr(DRAWN, lambda found, **_: draws_and_course(found, num_draws=8))
        patch.setattr(walk, "SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def whole(walking, tmp_path_factory):
    """A fit that nothing came in the way of."""
    folder = place(tmp_path_factory.mktemp("whole") / "case")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert riesz_command(*FIT[:4]) == 0
    return folder / "run"


@pytest.fixture
def case(tmp_path, monkeypatch):
    folder = place(tmp_path / "case")
    monkeypatch.chdir(folder)
    return folder


def stop_writing(monkeypatch, number, error):
    """Let a checkpoint be written so often, and something happen then."""
    write, count = Checkpoint.write, iter(range(1000))

    def counted(self):
        write(self)
        if next(count) + 1 == number:
            raise error

    monkeypatch.setattr(Checkpoint, "write", counted)


SLOWLY = str(Path(walk.__file__))
FULLY = (str(Path(braked.__file__)),)


def begun(folder, program, words):
    """The command in a process of its own."""
    ours = (Path(riesz.__file__).parents[1], Path(__file__).parents[2])  # which hold tests, too
    paths = [*map(str, ours), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_checkpoints(process, folder, number):
    """Until so many were seen to be written, or the process ended."""
    file = folder / "run.unfinished" / "checkpoint"
    times = {modified(file)}
    while process.poll() is None and len(times - {None}) <= number:
        time.sleep(0.001)
        times.add(modified(file))


def killed(folder, program, words, moments):
    """Kill the command while it works; returns whether it still did."""
    with begun(folder, program, words) as process:
        wait_for_checkpoints(process, folder, moments.randint(1, 4))
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        return process.wait() == -signal.SIGKILL


def modified(file):
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@pytest.mark.slow
def test_a_fit_that_is_killed_thrice_ends_as_if_nothing_had_been(whole, case, capsys):
    moments = random.Random(0)
    for _ in range(3):
        assert killed(case, [SLOWLY], [*FIT, "--resume"], moments)
        assert not (case / "run").exists()
        assert (case / "run.unfinished" / "checkpoint").exists()
    assert riesz_command(*FIT, "--resume") == 0
    assert "going on from" in capsys.readouterr().err
    check_same(case / "run", whole)
    assert {path.name for path in case.iterdir()} == {"problem.toml", "wells.csv", "run"}


def test_ctrl_c_keeps_the_last_block_and_says_how_to_go_on(whole, case, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        stop_writing(patch, 3, KeyboardInterrupt)
        assert riesz_command(*FIT) == 130
    errors = capsys.readouterr().err
    assert errors.endswith(
        "stopped; go on with: riesz fit problem.toml --out run --seed 0 --resume\n"
    )
    assert riesz_command(*FIT) == 2  # not without being told so
    told = f"an unfinished fit of run is in {case / 'run.unfinished'}: add --resume to go on with"
    assert told in capsys.readouterr().err
    problem = (case / "problem.toml").read_text()
    (case / "problem.toml").write_text(problem.replace("num_samples = 5000", "num_samples = 5001"))
    assert riesz_command(*FIT, "--resume") == 2
    assert "setting mcmc.num_samples (saved: 5000; given: 5001)" in capsys.readouterr().err
    (case / "problem.toml").write_text(problem)
    assert riesz_command(*FIT, "--resume") == 0
    check_same(case / "run", whole)


def test_ctrl_c_within_a_solve_of_the_host_is_a_stop_as_well(case, monkeypatch, capsys):
    """JAX tells it as an error of its own, which is none of the engine."""

    def stop(_):
        raise KeyboardInterrupt

    def run(self, problem, *, deadline, **_):
        shape = jax.ShapeDtypeStruct((2,), jnp.float64)
        with deadline.enforce("in a solve"):
            jax.block_until_ready(jax.jit(partial(jax.pure_callback, stop, shape))(jnp.ones(2)))

    replace_run(monkeypatch, "mcmc", run)
    assert riesz_command(*FIT) == 130
    assert "stopped; " in capsys.readouterr().err


@pytest.mark.slow
def test_a_full_disk_ends_in_one_message_and_the_fit_is_not_lost(whole, case, monkeypatch, capsys):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:

        def full(*_, **__):
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
            return patch.undo()

        patch.setattr(DRAWN, lambda found, **_: full() or draws_and_course(found, num_draws=8))
        try:
            assert riesz_command(*FIT) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].startswith("riesz: the run folder")
    assert "cannot be written: File too large. The fit is kept in" in errors[-1]
    assert not (case / "run").exists()
    assert [path.name for path in (case / "run.unfinished").iterdir()] == ["checkpoint"]
    assert riesz_command(*FIT, "--resume") == 0
    check_same(case / "run", whole)


def test_a_finished_run_is_not_fitted_again(whole, monkeypatch, capsys):
    monkeypatch.chdir(whole.parent)
    (whole.parent / "run.unfinished").mkdir()  # as by a kill just before it would be removed
    (whole.parent / "run.unfinished" / "checkpoint").touch()
    assert riesz_command(*FIT, "--resume") == 0
    assert capsys.readouterr().out == "finished already: run\n"
    assert not (whole.parent / "run.unfinished").exists()
    assert riesz_command(*FIT, "--resume", "--json") == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "mcmc"
    assert riesz_command(*FIT, "--resume", "--seed", "1") == 2
    told = (
        "run is a finished run of another fit, which differs in seed (saved: 0; given: 1): choose"
    )
    assert told in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "kills"), [("mcmc", 14), ("gaussian-vi", 6)])
def test_a_real_fit_may_be_killed_at_any_moment(engine, kills, tmp_path, monkeypatch):
    """Every third time anywhere, which may well be before there is a first checkpoint."""
    words = [*FIT, "--engine", engine]
    whole, case = place(tmp_path / "whole"), place(tmp_path / "case")
    monkeypatch.chdir(whole)
    assert riesz_command(*words) == 0
    monkeypatch.chdir(case)
    moments = random.Random(1)
    for number in range(kills):
        if number % 3 == 2:
            with begun(case, FULLY, [*words, "--resume"]) as process:
                time.sleep(moments.uniform(0, 15))
                process.kill()
        else:
            assert killed(case, FULLY, [*words, "--resume"], moments), f"finished at {number}"
    assert riesz_command(*words, "--resume") == 0
    check_same(case / "run", whole / "run")


@pytest.mark.slow
def test_a_fit_in_time_may_be_killed_as_well(tmp_path, monkeypatch):
    settings = table(
        "engine.mcmc",
        {"kernel": "nuts", "num_warmup": 100, "num_samples": 1500, "num_chains": 1},
    )
    folders = [tmp_path / name for name in ("whole", "case")]
    for folder in folders:
        folder.mkdir()
        for name, text in tiny_run_in_time.TABLES.items():
            (folder / name).write_text(text)
        written(folder, f"{tiny_run_in_time.PROBLEM}\n{settings}", tiny_run_in_time.READ)
    words = [*FIT, "--engine", "mcmc", "--no-check"]
    monkeypatch.chdir(folders[0])
    assert riesz_command(*words) == 0
    monkeypatch.chdir(folders[1])
    assert killed(folders[1], FULLY, words, random.Random(1))
    assert not (folders[1] / "run").exists()
    assert riesz_command(*words, "--resume") == 0
    check_same(folders[1] / "run", folders[0] / "run")


@pytest.mark.slow
def test_ctrl_c_stops_a_sampler_in_the_middle_of_its_solves(tmp_path):
    case = place(tmp_path / "case")
    with begun(case, FULLY, FIT) as process:
        wait_for_checkpoints(process, case, 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.endswith("--out run --seed 0 --resume\n")

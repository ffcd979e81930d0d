"""Processes that are killed, poisoned sites, full disks: nothing is lost, nothing done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.many.stub import content, finished, rows, sites
from tests.small_problem import problem_toml, written

psutil = pytest.importorskip("psutil", reason="comes with the extra cluster")
pytest.importorskip("distributed", reason="comes with the extra cluster")

ROOT = Path(__file__).parents[2]
SECONDS = 180


NUM_SITES = 50
STUB = ["-m", "tests.many.stub"]
RIESZ = ["-c", "from riesz.cli.main import main; main()"]


def start(words, *, program=STUB, **told):
    paths = [ROOT, ROOT / "src", os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(map(str, paths))
    return subprocess.Popen(
        [sys.executable, *program, "fit-many", *map(str, words)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, **told},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(words, **told):
    process = start(words, **told)
    output, _ = process.communicate(timeout=SECONDS)
    return process.returncode, output


def workers_of(process):
    """Processes that fit, not those that look after others."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [one for one in children if "spawn_main" in " ".join(one.cmdline())]
    except psutil.Error:
        return []


def kill_one(process, rng):
    """A process that fits, once there is one; nothing where all is done before."""
    while process.poll() is None:
        if found := workers_of(process):
            rng.choice(found).kill()
            return
        time.sleep(0.02)


@pytest.mark.slow
def test_kills_lose_nothing_and_repeat_nothing_and_one_poisoned_site_stops_no_other(tmp_path):
    names = [f"site{k}" for k in range(8)]
    source = sites(tmp_path / "sites", [*names, "poison", "wrong"])
    runs, rng = tmp_path / "runs", random.Random(0)
    command = [source, "--out", runs, "--jobs", 2, "--attempts", 2, "--quiet"]

    first = start(command, STUB_SECONDS="0.6")
    while not any((runs / "ledger").glob("*.json")):  # somebody fits
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.02)
    kill_one(first, rng)
    while not finished(runs):
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.02)
    first.kill()  # with the scheduler in it
    first.communicate(timeout=SECONDS)

    status, output = run([*command, "--attempts", 3])
    assert status == 1, output
    found = rows(runs)
    assert {name for name, row in found.items() if row["state"] == "done"} == set(names)
    assert "ended 4 times without a word" in found["poison"]["message"]
    assert found["wrong"]["message"] == "the engine failed: no solution."
    assert found["wrong"]["state"] == found["poison"]["state"] == "failed"
    assert sorted(finished(runs)) == names  # none twice
    for name in names:
        assert (runs / name / "draws").read_text().startswith(f"{name} 0 # {name}")
    assert not list(runs.glob("*.unfinished"))

    before = (runs / "ledger" / "site0.json").stat().st_mtime_ns
    (source / "poison" / "problem.toml").rename(source / "poison" / "gone")
    (source / "wrong" / "problem.toml").unlink()
    status, output = run([*command[:-1], "--json"])
    assert status == 0, output
    assert json.loads(output.splitlines()[-1])["verdicts"] == {"good": 8}
    assert (runs / "ledger" / "site0.json").stat().st_mtime_ns == before
    assert sorted(finished(runs)) == names


@pytest.mark.slow
def test_a_second_coordinator_is_refused_and_the_first_is_stopped_in_order(tmp_path):
    source, runs = sites(tmp_path / "sites", ["a", "b", "c"]), tmp_path / "runs"
    first = start([source, "--out", runs, "--jobs", 2], STUB_SECONDS="30")
    while len(list((runs / "ledger").glob("*.json"))) < 2:
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.02)
    status, output = run([source, "--out", runs, "--jobs", 1])
    assert status == 2
    assert "another riesz fit-many is at work on" in output
    first.send_signal(signal.SIGINT)
    output, _ = first.communicate(timeout=SECONDS)
    assert first.returncode == 130, output
    assert "the same command goes on" in output
    assert "Traceback" not in output
    # Neither was at fault.
    assert [(row["state"], row["attempts"]) for row in rows(runs).values()] == [
        ("waiting", "0")
    ] * 3


def test_a_full_disk_fails_what_does_not_fit_and_a_second_run_completes_it(tmp_path):
    source, runs = sites(tmp_path / "sites", ["large", "small"]), tmp_path / "runs"
    with (source / "large" / "problem.toml").open("a") as file:
        file.write("#" * 50_000)
    command = [source, "--out", runs, "--part", "1/1", "--quiet"]
    status, output = run(command, STUB_LARGEST="20000")
    assert status == 1
    assert "1 of 2 fits failed; large: OSError: [Errno 27] File too large" in output
    assert {name: row["state"] for name, row in rows(runs).items()} == {
        "large": "failed",
        "small": "done",
    }
    assert run(command)[0] == 0
    assert finished(runs) == ["small", "large"]


def harassed(command, runs, rng, *, kills, ends, seconds, program, **told):
    """Run a command until it is done, whose workers are killed so often, and itself too.

    Where fits go on faster than kills, the next ones follow upon another: some die in a fit, some
    before they have begun one.
    """
    at = set(rng.sample(range(1, kills // 3), ends))
    process = start(command, program=program, **told)
    done = 0
    while done < kills:
        is_behind = done / kills < len(list(runs.glob("site??/manifest.json"))) / NUM_SITES
        time.sleep(rng.uniform(0.2, seconds / 4 if is_behind else seconds))
        if process.poll() is not None:  # all is done before
            break
        if found := workers_of(process):
            rng.choice(found).kill()
            done += 1
        if done in at:
            at.remove(done)
            process.kill()
            process.communicate(timeout=SECONDS)
            process = start(command, program=program, **told)
    output, _ = process.communicate(timeout=3600)
    return process.returncode, output, done, ends - len(at)


@pytest.mark.slow
def test_a_hundred_kills_of_workers_and_five_of_the_scheduler_repeat_nothing(tmp_path):
    names = [f"site{k:02d}" for k in range(NUM_SITES)]
    source, runs = sites(tmp_path / "sites", names), tmp_path / "runs"
    command = [source, "--out", runs, "--jobs", 2, "--attempts", 200, "--quiet"]
    how = {"kills": 100, "ends": 5, "seconds": 3.5, "program": STUB, "STUB_SECONDS": "4"}
    status, output, kills, ends = harassed(command, runs, random.Random(1), **how)
    assert (status, kills, ends) == (0, 100, 5), output
    assert {row["state"] for row in rows(runs).values()} == {"done"}
    assert sorted(finished(runs)) == names


@pytest.mark.slow
def test_true_fits_under_a_hundred_kills_are_those_of_an_undisturbed_run(tmp_path):
    rng, source = np.random.default_rng(0), tmp_path / "sites"
    for k in range(NUM_SITES):
        (source / f"site{k:02d}").mkdir(parents=True)
        lines = [f"{x:.3f},{y:.3f},{v:.3f}" for x, y, v in rng.uniform(0.2, 0.8, (4, 3))]
        wells = "\n".join(["x,y,value", *lines]) + "\n"
        written(source / f"site{k:02d}", problem_toml(engine_name="laplace"), wells)
    words = ["--jobs", 2, "--attempts", 200, "--quiet", "--no-reports", "--out"]
    clock = time.monotonic()
    status, output = run([source / "site00", *words, tmp_path / "first"], program=RIESZ)
    first = time.monotonic() - clock  # most of which a process takes to begin, and to compile
    assert status == 0, output
    words = [source, *words]
    status, output = run([*words, tmp_path / "calm"], program=RIESZ)
    assert status == 0, output
    # Most processes die before they have fitted anything, and others after some fits.
    how = {"kills": 100, "ends": 5, "seconds": 0.4 * first, "program": RIESZ}
    runs = tmp_path / "runs"
    status, output, kills, ends = harassed([*words, runs], runs, random.Random(2), **how)
    assert (status, kills, ends) == (0, 100, 5), output
    assert {row["state"] for row in rows(runs).values()} == {"done"}
    for name in (f"site{k:02d}" for k in range(NUM_SITES)):
        calm, disturbed = (content(tmp_path / one / name) for one in ("calm", "runs"))
        assert calm == disturbed, name
        assert len(calm) >= 6
    assert not list(runs.glob("*.unfinished"))

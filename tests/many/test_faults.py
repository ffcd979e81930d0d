"""Processes that are killed, poisoned sites, full disks: nothing is lost, nothing done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.many.stub import finished, rows, sites

psutil = pytest.importorskip("psutil", reason="comes with the extra cluster")
pytest.importorskip("distributed", reason="comes with the extra cluster")

ROOT = Path(__file__).parents[2]
SECONDS = 180


def start(words, **told):
    paths = [ROOT, ROOT / "src", os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(map(str, paths))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.many.stub", "fit-many", *map(str, words)],
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

"""A fit on several devices, and in several processes, comes to the numbers of one."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_problem import written

import riesz as rz
from riesz.devices import devices_of, join_processes
from riesz.errors import RieszError

HERE = Path(__file__).parent
SAME = 1e-8
MINUTE = 60.0


def started(script: str, *words: object, num_devices: int = 1) -> subprocess.Popen[str]:
    """The process; killed where it does not end, as one that waits for others may not."""
    own = {
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} "
        f"--xla_force_host_platform_device_count={num_devices}",
    }
    return subprocess.Popen(
        ["timeout", "-s", "KILL", "300", sys.executable, str(HERE / script), *map(str, words)],
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> Any:
    printed, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(printed.splitlines()[-1])


def free_address() -> str:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return f"localhost:{found.getsockname()[1]}"


def test_rows_that_fill_up_are_dropped_and_do_not_count():
    for found in answer(started("rows.py", num_devices=8)):
        assert found == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_two_processes_give_the_posterior_of_one():
    address, words = free_address(), ("--engines", "laplace", "--devices")
    first = started("fits.py", *words, "all", 0, "--joined", address, 0)
    second = started("fits.py", *words, "all", "--joined", address, 1)
    one, other = (answer(process)["laplace"] for process in (first, second))
    for together in (one["all"], other["all"]):
        np.testing.assert_allclose(together, one["0"], rtol=0, atol=SAME)


def test_a_process_that_dies_ends_the_other_with_a_clear_message():
    address, begun = free_address(), time.monotonic()
    first, second = (started("rows.py", address, number) for number in (0, 1))
    printed, _ = first.communicate()
    second.communicate()
    assert second.returncode != 0
    assert first.returncode == 1
    assert "another process of this fit has ended" in printed
    assert time.monotonic() - begun < MINUTE


@pytest.mark.slow
def test_two_commands_make_the_run_of_one(tmp_path):
    problem, address = written(tmp_path), free_address()
    command = [sys.executable, "-c", "from riesz.cli.main import main; main()", "fit", str(problem)]
    words = ["--engine", "laplace", "--quiet", "--json", "--out"]
    subprocess.run([*command, *words, str(tmp_path / "alone")], capture_output=True, check=True)
    both = [
        subprocess.Popen(
            [*command, *words, str(tmp_path / "together"), "--processes", f"{address},2,{number}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]
    first, second = (process.communicate()[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert '"check"' in first
    assert '"check"' not in second
    one, other = (
        rz.read_run(tmp_path / name).posterior.coordinate_mean() for name in ("alone", "together")
    )
    np.testing.assert_allclose(other, one, rtol=0, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["laplace", "nuts", "mcmc", "surrogate", "relaxed"])
def test_every_number_of_devices_gives_the_same_posterior(engine):
    words = ("--engines", engine, "--check", "--devices", 0, 1, 2, 4, 8)
    found = answer(started("fits.py", *words, num_devices=8))[engine]
    for count in ("1", "2", "4", "8"):
        np.testing.assert_allclose(found[count], found["0"], rtol=0, atol=SAME)


@pytest.mark.parametrize("wanted", [0, 1000, ()])
def test_devices_that_are_not_there_are_refused(wanted):
    with pytest.raises(RieszError, match="devices is"):
        devices_of(wanted)


def test_processes_say_who_they_are_in_full():
    with pytest.raises(RieszError, match="all of them, or none"):
        join_processes("localhost:1", 2)
    with pytest.raises(RieszError, match="numbered from 0 to 1"):
        join_processes("localhost:1", 2, 2)

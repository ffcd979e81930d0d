"""What all benchmarks share: their options, their smallest sizes, their processes, their files.

The sizes of a benchmark are constants at the top of its script; with `--smoke` those that its SMOKE
names are replaced, so that all of it runs in seconds, in one process, and means nothing.
"""

import argparse
import contextlib
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SMOKE_FOLDER = Path("out/smoke")


def is_smoke() -> bool:
    return "--smoke" in sys.argv


def parser_of(script: dict[str, Any], out: str | None = None) -> argparse.ArgumentParser:
    """For the globals of a script; `out` is where its results are kept, those of smoke are not."""
    if is_smoke():
        script.update(script["SMOKE"])
    parser = argparse.ArgumentParser(description=(script["__doc__"] or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="Seconds, with the smallest sizes.")
    if out is not None:
        default = SMOKE_FOLDER / Path(out).name if is_smoke() else Path(out)
        parser.add_argument("--out", type=Path, default=default)
    return parser


def save(
    out: Path,
    config: Mapping[str, Any],
    seed: int,
    rows: Sequence[dict[str, Any]],
    summary: Mapping[str, Any],
) -> None:
    """The result file, with the command that makes it."""
    # Imported only now: a child process starts with its parent's memory on its account.
    from riesz.io.store.results import results, write_results

    script = Path(sys.argv[0]).resolve()
    named = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script
    command = shlex.join(["python", named.as_posix(), *sys.argv[1:]])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_results(out, results(command, config, seed, rows, summary))


def in_process(*words: str) -> Any:
    """What the script prints last with these words, in a process of its own but for smoke."""
    script = sys.argv[0]
    if is_smoke():
        return json.loads(printed_here(script, ["--smoke", *words]).splitlines()[-1])
    done = subprocess.run(
        [sys.executable, script, *words], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def printed_here(script: str, words: list[str]) -> str:
    """What a script prints that runs in this process, whose cores are given back."""
    before, cores, text = sys.argv, os.sched_getaffinity(0), io.StringIO()
    try:
        sys.argv = [script, *words]
        with contextlib.redirect_stdout(text):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
        os.sched_setaffinity(0, cores)
    return text.getvalue()


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row, printed as soon as it is known."""
    print(json.dumps(row), flush=True)
    return row


def is_there(python: str, module: str) -> bool:
    """Whether a Python has a module."""
    answer = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    return answer.returncode == 0


def small_emulate() -> Any:
    """`gaussian-vi(surrogate)`, trained too little to be right."""
    import riesz as rz

    return rz.inference.Engine(rz.GaussianVI(), rz.Surrogate(
        width=8, features=8, num_bends=4, patch_nodes=9, coarse_patch_nodes=9, num_samples=20,
        readout_batches=4, rounds=1, tries_states=False,
    ))  # fmt: skip

"""What is taken away from a run: its report, maps as files, its problem file."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from riesz.case import MANIFEST
from riesz.errors import EngineError, RieszError
from riesz_app.folder import Folder
from riesz_app.jobs import RIESZ

STATISTICS = ("--stat", "mean,sd,q:0.025,q:0.975", "--grid", "100x100")
COMMANDS = {
    "report.html": ("report", "."),
    "map.csv": ("predict", ".", *STATISTICS, "--out", "map.csv"),
    "map.tif": ("predict", ".", *STATISTICS, "--out", "map.tif"),
    "map.gpkg": ("predict", ".", *STATISTICS, "--out", "map.gpkg"),
    "next.csv": ("next", ".", "--count", "3", "--report", "--out", "next.csv"),
}
"""Files that are made when they are asked for, by which command; where to measure next stands in
the report from then on."""

NEXT = "next.csv"
KEPT = ("problem.toml", "summary.txt", MANIFEST)

SCRIPT = "script.py"
SCRIPT_TEXT = """\
# The fit {run!r} and its maps in Python, in the folder with the table, the outline and {problem!r}.
import jax

jax.config.update("jax_enable_x64", True)  # exact solves need it

import riesz as rz

if __name__ == "__main__":
    run = rz.read_problem({problem!r}).fit({again!r})
    print(run.summary)
    run.predict(stat="mean,sd,q:0.025,q:0.975", grid=(100, 100)).save({file!r})
    run.report()
"""


def output_file(folder: Folder, run: str, name: str) -> Path:
    """The file of a run, which is made where it is not there yet."""
    root = folder.path(run)
    if not (root / MANIFEST).is_file():
        raise RieszError(f"there is no run {run} in {folder.root} that has ended.")
    names = [*COMMANDS, *KEPT, SCRIPT]
    if name not in names:
        raise RieszError(f"{name} is no file of a run: {', '.join(names)}.")
    path, report = Folder(root).path(name), root / "report.html"
    made = path.exists() and (name != NEXT or newer(report, path))
    if not made and name in COMMANDS:
        run_command(COMMANDS[name], root)
    return path


def newer(file: Path, other: Path) -> bool:
    return file.exists() and file.stat().st_mtime >= other.stat().st_mtime


def script_of(folder: Folder, run: str, problem: str) -> str:
    """What the window has done for a run, without a window: of a problem file that is as it was."""
    kept = output_file(folder, run, "problem.toml")
    if not problem or folder.problem(problem).read_bytes() != kept.read_bytes():
        raise RieszError(
            f"no problem file here is that of {run} any more: take its problem file, and fit that."
        )
    again = f"{run}-again"
    return SCRIPT_TEXT.format(run=run, problem=problem, again=again, file=f"{again}/map.csv")


def comparison_of(folder: Folder, runs: Sequence[str]) -> dict[str, list[str]]:
    """What `riesz compare` says of runs."""
    names = [folder.path(run).name for run in runs]
    return {"lines": run_command(("compare", *names), folder.root).splitlines()}


def run_command(words: Sequence[str], root: Path) -> str:
    """What a command of `riesz` says, in that folder; its last line is what went wrong."""
    done = subprocess.run(
        [*RIESZ, *words], cwd=root, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise EngineError("".join(last).removeprefix("riesz: ") or f"riesz {words[0]} failed.")
    return done.stdout

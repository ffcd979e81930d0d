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
}
"""Files that are made when they are asked for, by which command."""

KEPT = ("problem.toml", "summary.txt", MANIFEST)


def output_file(folder: Folder, run: str, name: str) -> Path:
    """The file of a run, which is made where it is not there yet."""
    root = folder.path(run)
    if not (root / MANIFEST).is_file():
        raise RieszError(f"there is no run {run} in {folder.root} that has ended.")
    if name not in COMMANDS and name not in KEPT:
        raise RieszError(f"{name} is no file of a run: {', '.join([*COMMANDS, *KEPT])}.")
    path = Folder(root).path(name)
    if not path.exists() and name in COMMANDS:
        run_command(COMMANDS[name], root)
    return path


def run_command(words: Sequence[str], root: Path) -> None:
    """A command of `riesz` in a run's folder, whose last line says what went wrong."""
    done = subprocess.run(
        [*RIESZ, *words], cwd=root, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise EngineError("".join(last).removeprefix("riesz: ") or f"riesz {words[0]} failed.")

"""Fits that a window has begun: ordinary `riesz fit` processes, each with its log beside the runs.

What a job is stands in its log and its run folder alone, so that a window that was killed shows
them again, and any of them can be gone on with in a shell.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from riesz.case import MANIFEST, checkpoint_of
from riesz.errors import RieszError
from riesz_app.folder import Folder

LOGS = ".riesz-app"
RIESZ = (sys.executable, "-c", "from riesz.cli.main import main; main()")

SHOWN = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "COLUMNS": "160", "NO_COLOR": "1"}
"""Of the environment: a bar is written to a log as to a terminal."""

TAIL = 20_000
"""Bytes of a log that hold the last state of a bar and what a command says at its end."""

LAST = 5
"""Lines of what a command says that a page is given."""

PATIENCE = 20
"""Seconds for a fit to keep what it has, once it is told to stop."""

BEGINNING = 5
"""Looks at a process that is just being made."""

CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BAR = re.compile(
    r"(?P<what>\S.*?) +[━╸╺ ]+ *(?P<done>\d+)/(?P<total>\d+|\?) *(?P<left>[\d:-]*)(.*)"
)


class Jobs:
    """All fits below a folder, running or ended."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, problem: str, run: str) -> None:
        """Fit a problem file; a run that was stopped goes on."""
        source, out = self.folder.problem(problem), self.folder.path(run)
        if out.exists():
            raise RieszError(f"there is a run {run} already: give the new one another name.")
        if self.is_running(run):
            raise RieszError(f"the fit {run} is at work: wait for it, or stop it.")
        command = [*RIESZ, "fit", source.name, "--out", out.name]
        command += ["--resume"] if checkpoint_of(out).exists() else []
        logs, names = self.folder.root / LOGS, (f"{run}.log", f"{run}.json")
        if any(path.is_symlink() for path in (logs, *(logs / name for name in names))):
            raise RieszError(f"{LOGS} in {self.folder.root} leads out of it: remove it.")
        logs.mkdir(exist_ok=True)
        with (logs / names[0]).open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder.root,
                env={**os.environ, **SHOWN},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the shell of the window is not for them
            )
        self.processes[run] = process
        (logs / names[1]).write_text(json.dumps({"problem": problem, "pid": process.pid}))

    def stop(self, run: str) -> None:
        """As by Ctrl-C: what was done is kept, and the fit can go on."""
        self.folder.path(run)
        if not self.is_running(run):
            raise RieszError(f"the fit {run} is not at work.")
        os.kill(self.record(run)["pid"], signal.SIGINT)

    def close(self) -> None:
        """Stop what this window has begun."""
        running = [one for one in self.processes.values() if one.poll() is None]
        for process in running:
            os.kill(process.pid, signal.SIGINT)
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PATIENCE)
            process.kill()
            process.wait()

    def states(self) -> list[dict[str, Any]]:
        """Of every run, the newest first."""
        logs = {path.stem for path in (self.folder.root / LOGS).glob("*.log")}
        runs = {path.name for path in self.folder.root.iterdir() if (path / MANIFEST).is_file()}
        found = [self.state(name) for name in logs | runs if self.folder.may_name(name)]
        return sorted(found, key=lambda one: (-one["when"], one["name"]))

    def state(self, run: str) -> dict[str, Any]:
        """What is to be told of a run."""
        folder, log = self.folder.path(run), self.folder.root / LOGS / f"{run}.log"
        told, words = tail_of(log), "stopped"
        if self.is_running(run):
            words = "running"
        elif (folder / MANIFEST).is_file():
            words = "done"
        elif any(line.startswith("riesz: ") for line in told):
            words = "failed"
        bars = [found for line in told if (found := BAR.fullmatch(line.strip()))]
        seen = folder / MANIFEST if words == "done" else log
        return {
            "name": run,
            "state": words,
            "problem": self.record(run).get("problem"),
            "progress": bars[-1].groupdict() if bars and words == "running" else None,
            "told": [one for one in told if one.strip() and not BAR.fullmatch(one.strip())][-LAST:],
            "when": seen.stat().st_mtime if seen.exists() else 0.0,
        }

    def record(self, run: str) -> Mapping[str, Any]:
        try:
            return json.loads((self.folder.root / LOGS / f"{run}.json").read_bytes())
        except (OSError, ValueError):
            return {}

    def is_running(self, run: str) -> bool:
        """Whether its process is there: of this window, or of one that was before it."""
        if (process := self.processes.get(run)) is not None:
            return process.poll() is None
        pid = self.record(run).get("pid")
        return isinstance(pid, int) and is_fit(pid, run)


def is_fit(pid: int, run: str) -> bool:
    """Whether a process is that fit, and no other that has its number by now."""
    for _ in range(BEGINNING):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        if words != [b""]:
            return b"fit" in words and run.encode() in words
        time.sleep(0.05)  # it has no words yet, or is gone
    return False


def tail_of(log: Path) -> list[str]:
    """The last lines of a log, as a terminal would show them."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return re.split(r"[\r\n]+", CONTROLS.sub("", text))

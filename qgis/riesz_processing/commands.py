"""What the plugin says to the command `riesz`, and what it hears back; nothing here needs QGIS.

The command runs in a Python of its own, so that neither QGIS nor this plugin has to hold JAX.
"""

from __future__ import annotations

import csv
import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path

COMMAND = "riesz"
PATIENCE = 5.0
"""Seconds that a command has to stop by itself after it was cancelled."""

POLL = 0.2
"""Seconds between looks whether somebody cancelled."""

X, Y, VALUE = "x", "y", "value"
"""The columns of the tables that the plugin writes."""

GRID = "100x100"
"""Cells of a map where nobody says how large they are."""

OF_QGIS = ("PYTHONHOME", "PYTHONPATH", "PYTHONEXECUTABLE")
"""What QGIS sets for its own Python, and would lead that of the command astray."""


class RieszFailed(Exception):  # noqa: N818 - it is what happened
    """The command ended with an error, whose message this is."""


class Cancelled(Exception):  # noqa: N818
    """Somebody pressed the button."""


def command_path(setting, environment=None):
    """The command as the setting names it, or as it is found; raises where there is none."""
    environment = os.environ if environment is None else environment
    wanted = (setting or "").strip() or environment.get("RIESZ_COMMAND") or COMMAND
    found = shutil.which(wanted)
    if found is None:
        raise RieszFailed(
            f"There is no command {wanted!r}: install Riesz into a Python of its own (pip install "
            "'.[gis]' in a clone of its repository), and set the path of its command in Settings, "
            "Options, Processing, Providers, Riesz."
        )
    return found


def own_environment(environment=None):
    """Without what belongs to the Python of QGIS."""
    environment = dict(os.environ if environment is None else environment)
    return {key: value for key, value in environment.items() if key not in OF_QGIS}


def init_words(table, out, *, crs=None, polygon=None, polygon_crs=None, log=False):
    """`riesz init` on files that this plugin wrote."""
    words = ["init", str(table), *([] if polygon is None else [str(polygon)])]
    words += ["--out", str(out), "--x", X, "--y", Y, "--value", VALUE]
    words += ["--crs", crs] if crs else []
    words += ["--polygon-crs", polygon_crs] if polygon is not None and polygon_crs else []
    return [*words, *(["--log"] if log else []), "--json"]


def fit_words(problem, run, *, engine=None, seed=0):
    words = ["fit", str(problem), "--out", str(run), "--seed", str(seed)]
    return [*words, *(["--engine", engine] if engine else []), "--json"]


def predict_words(run, out, *, quantity, stat, cell=None):
    words = ["predict", str(run), "--out", str(out), "--quantity", quantity, "--stat", stat]
    return [*words, *(["--cell", repr(float(cell))] if cell else ["--grid", GRID]), "--json"]


def report_words(run, out):
    return ["report", str(run), "--out", str(out), "--json"]


def write_points(path, rows):
    """A table of places and values, without rows that have none; returns how many it holds."""
    kept = [(x, y, value) for x, y, value in rows if value is not None and str(value).strip()]
    if not kept:
        raise RieszFailed("No point has a value in the chosen field.")
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((X, Y, VALUE))
        writer.writerows((repr(float(x)), repr(float(y)), value) for x, y, value in kept)
    return len(kept)


def write_polygon(path, geometry):
    """A GeoJSON file with one geometry; which coordinates it is in is told by an option."""
    if geometry.get("type") not in ("Polygon", "MultiPolygon"):
        raise RieszFailed(f"The outline is a {geometry.get('type')}: choose a layer of polygons.")
    Path(path).write_text(json.dumps(geometry), encoding="utf-8")


def result_of(stdout):
    """The JSON object that commands print last."""
    lines = [line for line in stdout if line.strip()]
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        raise RieszFailed("The command ended well, but did not say what it made.") from None


def failure_of(status, stderr):
    """One line of error, as commands end with; the last lines where there is no such."""
    told = [line for line in stderr if line.strip()]
    own = [line for line in told if line.startswith(f"{COMMAND}: ")]
    if own:
        return own[-1].removeprefix(f"{COMMAND}: ")
    return f"The command ended with status {status}: {' / '.join(told[-3:]) or 'it said nothing'}"


def run_command(path, words, *, tell, is_cancelled, environment=None):
    """Run the command to its end and return what it says as JSON.

    Each line on its error stream goes to `tell` as it comes. `is_cancelled` is asked all the
    time; where it says so, the command is stopped, and `Cancelled` is raised.
    """
    before = path if isinstance(path, list) else [path]
    process = subprocess.Popen(
        [*before, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=own_environment() if environment is None else environment,
        **window_less(),
    )
    heard = queue.Queue()
    readers = [
        threading.Thread(target=listen, args=(stream, name, heard), daemon=True)
        for name, stream in (("out", process.stdout), ("err", process.stderr))
    ]
    for reader in readers:
        reader.start()
    said = {"out": [], "err": []}
    open_streams = len(readers)
    while open_streams:
        if is_cancelled():
            stop(process)
            raise Cancelled("The command was stopped.")
        try:
            name, line = heard.get(timeout=POLL)
        except queue.Empty:
            continue
        if line is None:
            open_streams -= 1
            continue
        said[name].append(line)
        if name == "err":
            tell(line)
    status = process.wait()
    if status:
        raise RieszFailed(failure_of(status, said["err"]))
    return result_of(said["out"])


def listen(stream, name, heard):
    """Lines of a stream, then None; progress that is written over itself is a line each time."""
    with stream:
        for line in stream:
            for part in line.replace("\r", "\n").splitlines():
                if part.strip():
                    heard.put((name, part.rstrip()))
    heard.put((name, None))


def stop(process):
    process.terminate()
    try:
        process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def window_less():
    """On Windows a command would open a black window."""
    flag = getattr(subprocess, "CREATE_NO_WINDOW", None)
    return {} if flag is None else {"creationflags": flag}

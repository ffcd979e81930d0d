"""Result files: one JSON object an experiment or benchmark, with all it takes to run it again."""

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import riesz
from riesz.errors import FileFormatError, RieszError
from riesz.io.store.files import csv_content, write_bytes
from riesz.notes import Note

SCHEMA = 1
KEYS = {"command": str, "config": dict, "seed": int, "rows": list, "summary": dict}
"""What a result file must hold to be gone on with, and of which type."""

PACKAGES = ("jax", "jaxlib", "equinox", "numpyro", "numpy", "scipy")

Row = dict[str, Any]
"""One replicate: flat names and numbers, and perhaps lists of them, which no table shows."""


def results(
    command: str,
    config: Mapping[str, Any],
    seed: int,
    rows: Sequence[Row],
    summary: Mapping[str, Any],
) -> dict[str, Any]:
    """The object that every result file holds."""
    return {
        "schema": SCHEMA,
        "command": command,
        "config": dict(config),
        "seed": seed,
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "rows": list(rows),
        "summary": dict(summary),
    }


def write_results(path: Path | str, content: Mapping[str, Any]) -> None:
    """Write a result file, one row a line; NaN and infinity, which JSON lacks, are refused."""
    check_finite_results(content)
    rows = (
        json.dumps(r, allow_nan=False, separators=(",", ":")) for r in content.get("rows") or ()
    )
    frame = {key: [] if key == "rows" and value else value for key, value in content.items()}
    text = json.dumps(frame, indent=1, allow_nan=False)
    text = text.replace('\n "rows": []', '\n "rows": [\n' + ",\n".join(rows) + "\n ]", 1)
    write_bytes(Path(path), f"{text}\n".encode())


def json_line(content: Mapping[str, Any]) -> str:
    """An object for programs to read."""
    check_finite_results(content)
    return json.dumps(content, allow_nan=False, default=note_sentence)


def note_sentence(value: Any) -> str:
    """What commands tell of a note."""
    if not isinstance(value, Note):
        raise TypeError(f"{type(value).__name__} is nothing that JSON holds.")
    return str(value)


def check_finite_results(content: Mapping[str, Any]) -> None:
    """Raise where there is NaN or infinity, which JSON lacks, with the first place."""
    for place, number in not_finite(content, ""):
        raise RieszError(
            f"the results hold {number} at {place}, which is no number to report: the input or the "
            "fit is wrong there."
        )


def not_finite(content: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(content, float) and not math.isfinite(content):
        yield place, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from not_finite(value, f"{place}.{key}" if place else str(key))
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from not_finite(value, f"{place}[{index}]")


def read_results(path: Path) -> dict[str, Any]:
    """Read a result file and check that it is one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a result file: {error}.") from None
    check_not_newer(path, content, SCHEMA)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileFormatError(f"{path} is not a result file with schema {SCHEMA}: delete it.")
    wrong = [key for key, kind in KEYS.items() if not isinstance(content.get(key), kind)]
    if wrong:
        raise FileFormatError(
            f"{path} is not a result file: {', '.join(wrong)} missing or damaged; delete it."
        )
    if not all(isinstance(row, dict) for row in content["rows"]):
        raise FileFormatError(f"{path} is not a result file: a row is no object; delete it.")
    return content


def check_not_newer(path: Path, content: Any, schema: int) -> None:
    """Raise where a file is of a later format than this version knows."""
    result = content.get("schema") if isinstance(content, dict) else None
    if isinstance(result, int) and result > schema:
        raise FileFormatError(
            f"{path} was written by a newer version of riesz (schema {result}; this one reads "
            f"{schema}): use that version, or make it again with this one."
        )


def markdown_table(rows: Sequence[Row]) -> str:
    """Rows as a table in Markdown; columns in the order of the first row, without its lists."""
    columns = [name for name, value in rows[0].items() if not isinstance(value, list)]
    lines = [columns, ["---"] * len(columns)]
    lines += [[format_entry(row.get(column)) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_csv(path: Path | str, rows: Sequence[Row]) -> None:
    """Write rows as comma-separated values, with the columns of `markdown_table`."""
    columns = [name for name, value in rows[0].items() if not isinstance(value, list)]
    write_bytes(path, csv_content(columns, ([row.get(name) for name in columns] for row in rows)))


def format_entry(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def commit() -> str:
    """The commit of the source tree this runs from, marked where it differs; else "unknown"."""
    tree = Path(riesz.__file__).parent
    # A package installed inside another project's repository is ignored there, not part of it.
    tracked = git(tree, "ls-files", "--error-unmatch", "__init__.py")
    head = git(tree, "rev-parse", "HEAD")
    changes = git(tree, "status", "--porcelain", "--", ".")
    if tracked is None or head is None or changes is None:
        return "unknown"
    return f"{head}-modified" if changes else head


def git(folder: Path, *words: str) -> str | None:
    """What git says in a folder; nothing where it refuses or is not installed."""
    try:
        completed = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return None if completed.returncode else completed.stdout.strip()


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    result = {"riesz": riesz.__version__}
    for package in PACKAGES:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            result[package] = "absent"
    return result

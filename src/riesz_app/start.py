"""What a page shows of a table before anything is fitted: columns, places, a first problem file."""

import tomllib
from typing import Any

import numpy as np

from riesz import read_problem
from riesz.case import first_problem
from riesz.errors import RieszError
from riesz.io import read_table, write_bytes
from riesz_app.folder import Folder

ASKED = ("x", "y", "value", "crs", "polygon_crs", "site", "covariates", "log")
"""What a page may say of a table; the rest is guessed."""

NAMED = ("polygon", "recharge", "wells", "sites")
"""Files that it may name."""


def columns_of(folder: Folder, table: str) -> dict[str, Any]:
    """Of a table: what to choose from."""
    read = read_table(folder.file(table), value="value")
    shares = {name: np.isfinite(read.floats(name, limits=True)).mean() for name in read.header}
    return {
        "columns": list(read.header),
        "numeric": [name for name, share in shares.items() if share > 0.5],
        "rows": read.num_rows,
        "remarks": list(read.told),
    }


def problem_for(folder: Folder, table: str, answers: dict[str, Any]) -> dict[str, Any]:
    """The text of a problem file with what was guessed, and the places to be drawn."""
    unknown = set(answers) - {*ASKED, *NAMED}
    if unknown:
        raise RieszError(f"{', '.join(sorted(unknown))} cannot be said of a table.")
    given = {name: value for name, value in answers.items() if value not in (None, "", [])}
    given |= {name: folder.file(given[name]) for name in NAMED if name in given}
    made = first_problem(folder.file(table), **given, out=folder.root / "problem.toml")
    measured = made.measured
    columns = tomllib.loads(made.text)["observations"]
    return {
        "text": made.text,
        "guesses": list(map(str, made.guesses)),
        "columns": {name: columns.get(name) for name in ("x", "y", "value")},
        "crs": measured.systems.problem,
        "x": measured.rows.points[:, 0].tolist(),
        "y": measured.rows.points[:, 1].tolist(),
        "values": measured.rows.values.tolist(),
        "outline": [] if measured.file is None else rings_of(measured.file.outline.rings),
    }


def rings_of(rings: Any) -> list[list[list[float]]]:
    return [np.asarray(one).tolist() for one in rings]


def save_problem(folder: Folder, name: str, text: str) -> None:
    """Write a problem file, whatever stood there before."""
    path = folder.path(name)
    if path.suffix.lower() != ".toml":
        raise RieszError(f"{name}: problem files end in .toml.")
    write_bytes(path, text.encode())


def describe_problem(folder: Folder, name: str) -> dict[str, Any]:
    """What was understood of a problem file, in words."""
    return {"lines": str(read_problem(folder.problem(name)).check()).splitlines()}

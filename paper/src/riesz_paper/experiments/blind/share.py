"""Rows of blind problems as files of their own: shares run side by side, and go on where they were.

A row is written as soon as its problem is done, all at once. A problem that crashes has a row too,
with its traceback in a text beside it, and so has one whose time was over before there was any
posterior; what is there is not done again.
"""

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import jax

from riesz.errors import FileFormatError, OutOfTimeError, RieszError
from riesz.io.store.files import make_folder, write_bytes
from riesz.io.store.results import Row, commit, json_line, machine, versions
from riesz_paper.experiments.blind.judge import ERRORS, row_of
from riesz_paper.experiments.blind.tables import CRASH, OUT_OF_TIME

ROWS = "rows"

UNKNOWN = (
    *("family", "engine", "misspecified", "break", "coverage95", "reference", "points_at_break"),
    *ERRORS,
)
"""What a row without a posterior has no value for."""


def row_file(out: Path, seed: int, number: int) -> Path:
    return out / ROWS / f"{seed}-{number:04d}.json"


def share_of(part: str | None, problems: int) -> list[int]:
    """The numbers of a share such as `3/15`, from the first, 1/15, on; all of them without one."""
    if part is None:
        return list(range(problems))
    try:
        which, count = (int(word) for word in part.split("/"))
    except ValueError:
        raise RieszError(f"--part is {part!r}: give a share as 3/15.") from None
    if not 1 <= which <= count:
        raise RieszError(f"--part is {part!r}: the first number lies between 1 and the second.")
    return list(range(which - 1, problems, count))


def kept_row(out: Path, seed: int, number: int) -> Row | None:
    """The row that an earlier run left."""
    file = row_file(out, seed, number)
    if not file.exists():
        return None
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{file} is no row: {error}; delete it.") from None
    if not isinstance(found, dict) or found.get("problem") != number:
        raise FileFormatError(f"{file} is not the row of problem {number}: delete it.")
    return found


def made_here() -> Row:
    """Where a row was made: shares run elsewhere than their rows are put together."""
    here = machine()
    told = f"{here['processor']}, {here['cores']} cores"
    return {"commit": commit(), "machine": told, "jax": versions()["jax"]}


def done_row(out: Path, seed: int, number: int, judge: Callable[[int, int], Row] = row_of) -> Row:
    """The row of a problem: the one that is there, or a new one, which is kept."""
    found = kept_row(out, seed, number)
    if found is not None:
        return found
    file, clock = row_file(make_folder(out), seed, number), perf_counter()
    make_folder(file.parent)
    identity: Row = {"problem": number, "seed": seed}
    try:
        row = identity | judge(seed, number)
    except Exception as error:  # whatever a user would have seen is what is counted here
        write_bytes(file.with_suffix(".txt"), traceback.format_exc().encode())
        row = identity | dict.fromkeys(UNKNOWN)
        verdict = OUT_OF_TIME if isinstance(error, OutOfTimeError) else CRASH
        row |= {"verdict": verdict, "seconds": perf_counter() - clock}
    row |= made_here()
    write_bytes(file, f"{json_line(row)}\n".encode())
    # Each problem compiles for itself, and a process can hold only so many programs.
    jax.clear_caches()
    return row


def run_share(
    out: Path, seed: int, problems: int, part: str | None, told: Callable[[str], None]
) -> list[Row]:
    """All rows of a share, one after the other."""
    rows = []
    for number in share_of(part, problems):
        row = done_row(out, seed, number)
        told(
            f"problem {number}: {row['family']}, {row['engine']}, {row['verdict']}, mean off by "
            f"{row['worst_mean_error_sd']} sd, sd ratios {row['sd_ratio_low']} to "
            f"{row['sd_ratio_high']}, {row['seconds']:.0f} s"
        )
        rows.append(row)
    return rows

"""The ledger of many fits: one small file a fit, each written whole or not at all.

Who fits writes the row: before it begins, so that a fit that takes its process down is counted, and
after its run folder is complete. Nobody needs to survive for the ledger to be right.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from riesz.errors import FileFormatError, RieszError
from riesz.io.store.files import (
    csv_content,
    prepared_folder,
    read_bytes,
    remove_partials,
    write_bytes,
)
from riesz.many.locks import BusyError, locked
from riesz.many.sites import LEDGER, Site

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
SUSPECTED = "suspected"
"""Of a fit whose process ended too often: it is tried once more by itself."""

TABLE = "ledger.csv"
SECONDS_TO_END = 60.0
"""How long a process that lost its coordinator may take to end."""


@dataclass(frozen=True)
class Row:
    """How far a fit is."""

    name: str
    problem: str
    seed: int
    digest: str
    state: str = WAITING
    attempts: int = 0
    seconds: float | None = None
    verdict: str | None = None
    engine: str | None = None
    message: str = ""

    @property
    def died(self) -> int:
        """Attempts whose process ended before it could say anything."""
        return self.attempts if self.state in (RUNNING, WAITING) else 0


def waiting(site: Site) -> Row:
    return Row(site.name, site.problem, site.seed, site.digest)


def row_file(runs: Path, name: str) -> Path:
    return runs / LEDGER / f"{name}.json"


def read_row(runs: Path, name: str) -> Row | None:
    """The row of a fit that was begun."""
    path = row_file(runs, name)
    if not path.is_file():
        return None
    try:
        content = json.loads(read_bytes(path))
        known = {one.name for one in fields(Row)}
        return Row(**{key: value for key, value in content.items() if key in known})
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FileFormatError(
            f"{path} is no row of a ledger: delete it, and the fit is done again."
        ) from None


def write_row(runs: Path, row: Row) -> None:
    path = row_file(runs, row.name)
    prepared_folder(path.parent)
    remove_partials(path)
    write_bytes(path, f"{json.dumps(asdict(row), indent=1)}\n".encode())


def rows_of(runs: Path, sites: Sequence[Site]) -> list[Row]:
    """Of all fits, in their order; those that nobody began are waiting."""
    return [read_row(runs, site.name) or waiting(site) for site in sites]


def write_table(runs: Path, rows: Sequence[Row]) -> None:
    """All rows as one table."""
    header = [one.name for one in fields(Row)]
    write_bytes(runs / TABLE, csv_content(header, (asdict(row).values() for row in rows)))


@contextmanager
def coordinating(runs: Path, part: tuple[int, int] | None) -> Iterator[None]:
    """Be the only one who gives out the fits of a folder, or of a part of them."""
    folder = prepared_folder(runs / LEDGER)
    try:
        with locked(folder / ".lock", shared=part is not None):
            if part is None:
                yield
                return
            number, count = part
            with locked(folder / f".lock-{number}-of-{count}"):
                yield
    except BusyError:
        what = runs if part is None else f"part {part[0]} of {part[1]} of {runs}"
        raise RieszError(
            f"another riesz fit-many is at work on {what}: wait until it ends, or choose another "
            "--out."
        ) from None


@contextmanager
def fitting(runs: Path, name: str) -> Iterator[None]:
    """Be the only process that fits this one; one that lost its coordinator is waited for."""
    row = row_file(runs, name)
    path = prepared_folder(row.parent) / f".{row.name}.lock"
    try:
        with locked(path, seconds=SECONDS_TO_END):
            yield
    except BusyError:
        raise RieszError(
            f"another process has been fitting {name} for a minute: is an earlier riesz fit-many "
            "still at work, on this machine or another?"
        ) from None


@contextmanager
def assembling(runs: Path) -> Iterator[None]:
    """One at a time: the last part to end then sees the rows of all."""
    with locked(prepared_folder(runs / LEDGER) / ".lock-assembly", seconds=SECONDS_TO_END):
        yield

"""The ledger of many fits: one small file a fit, each written whole or not at all.

Who fits writes the row: before it begins, so that a fit that takes its process down is counted, and
after its run folder is complete. Nobody needs to survive for the ledger to be right:
locks between processes end with the process that holds them, however it ends.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path

from riesz.errors import FileFormatError, RieszError
from riesz.io import make_folder, read_bytes, remove_partials, write_bytes, write_csv
from riesz_many.sites import LEDGER, Site

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
SUSPECTED = "suspected"
"""Of a fit whose process ended too often: it is tried once more by itself."""

TABLE = "ledger.csv"
SECONDS_TO_END = 60.0
"""How long a process that lost its coordinator may take to end."""

SECONDS_BETWEEN_TRIES = 0.1


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
    make_folder(path.parent)
    remove_partials(path)
    write_bytes(path, f"{json.dumps(asdict(row), indent=1)}\n".encode())


def ledger_rows(runs: Path, sites: Sequence[Site]) -> list[Row]:
    """Of all fits, in their order; those that nobody began are waiting."""
    return [read_row(runs, site.name) or waiting(site) for site in sites]


def write_ledger(runs: Path, rows: Sequence[Row]) -> None:
    """All rows as one table."""
    write_csv(runs / TABLE, [asdict(row) for row in rows])


@contextmanager
def coordinating(runs: Path, part: tuple[int, int] | None) -> Iterator[None]:
    """Be the only one who gives out the fits of a folder, or of a part of them."""
    folder = make_folder(runs / LEDGER)
    try:
        with lock(folder / ".lock", shared=part is not None):
            if part is None:
                yield
                return
            number, count = part
            with lock(folder / f".lock-{number}-of-{count}"):
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
    path = make_folder(row.parent) / f".{row.name}.lock"
    try:
        with lock(path, seconds=SECONDS_TO_END):
            yield
    except BusyError:
        raise RieszError(
            f"another process has been fitting {name} for a minute: is an earlier riesz fit-many "
            "still at work, on this machine or another?"
        ) from None


@contextmanager
def assembling(runs: Path) -> Iterator[None]:
    """One at a time: the last part to end then sees the rows of all."""
    with lock(make_folder(runs / LEDGER) / ".lock-assembly", seconds=SECONDS_TO_END):
        yield


class BusyError(Exception):
    """Another process has it."""


@contextmanager
def lock(path: Path, *, shared: bool = False, seconds: float = 0.0) -> Iterator[None]:
    """Hold a lock by the name of a file, which stays; raises `BusyError` after so many seconds.

    Several may share one; one that is not shared excludes all others.
    """
    try:
        place = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RieszError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        end = time.monotonic() + seconds
        while not try_lock(place, shared=shared):
            if time.monotonic() >= end:
                raise BusyError(path)
            time.sleep(SECONDS_BETWEEN_TRIES)
        yield
    finally:
        os.close(place)


def try_lock(place: int, *, shared: bool) -> bool:
    """Whether the lock could be had now."""
    if os.name == "nt":
        own = import_module("msvcrt")
        with suppress(OSError):
            own.locking(place, own.LK_NBLCK, 1)
            return True
        return False
    own = import_module("fcntl")
    try:
        own.flock(place, (own.LOCK_SH if shared else own.LOCK_EX) | own.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some file systems of clusters have none
        raise RieszError(
            f"the file system has no locks ({error.strerror}): choose an --out on another one."
        ) from None
    return True

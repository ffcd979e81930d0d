"""Locks between processes that end with the process that holds them, however it ends."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from riesz.errors import RieszError

SECONDS_BETWEEN_TRIES = 0.1


class BusyError(Exception):
    """Another process has it."""


@contextmanager
def locked(path: Path, *, shared: bool = False, seconds: float = 0.0) -> Iterator[None]:
    """Hold a lock by the name of a file, which stays; raises `BusyError` after so many seconds.

    Several may share one; one that is not shared excludes all others.
    """
    try:
        place = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RieszError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        end = time.monotonic() + seconds
        while not taken(place, shared=shared):
            if time.monotonic() >= end:
                raise BusyError(path)
            time.sleep(SECONDS_BETWEEN_TRIES)
        yield
    finally:
        os.close(place)


def taken(place: int, *, shared: bool) -> bool:
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

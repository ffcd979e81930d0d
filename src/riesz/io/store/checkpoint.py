"""Checkpoints on disk: the states of an unfinished fit, in one file that is whole or not there.

The first line tells the format, and the digest of all that follows: a header in JSON that says
which fit this is, and an archive of arrays. A file that was cut short or edited is found out before
anything in it is believed; nothing is ever unpickled.
"""

import json
import re
import time
import warnings
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import jax
import numpy as np

from riesz.errors import FileFormatError, RieszError
from riesz.io.store.files import archive_arrays, read_bytes, remove_partials, replacing
from riesz.io.store.modules import from_plain, to_plain
from riesz.io.store.posterior import SAVED, differing_in, identity, npz_bytes
from riesz.io.store.results import versions
from riesz.method.checkpoint import AbstractCheckpoint
from riesz.problem.problem import InverseProblem

SCHEMA = 1
FIRST_LINE = re.compile(rb"riesz checkpoint (\d{1,9}) ([0-9a-f]{32})\n")
SECONDS = 30.0
"""Between two checkpoints, at the least."""

HEADER = {"fit": dict, "versions": dict, "spent": float, "stages": dict}
AGAIN = "remove it to start from the beginning"

Arrays = dict[str, np.ndarray]


def warn_user(message: str) -> None:
    warnings.warn(message, stacklevel=2)


class Checkpoint(AbstractCheckpoint):
    """A file that a fit writes its state to, at the end of a block, and goes on from.

    It is written every so many seconds at most, and at the end. Where it cannot be written that is
    told, once, and the fit goes on: the last good checkpoint stays.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        seconds: float | int = SECONDS,
        told: Callable[[str], None] = warn_user,
    ):
        self.path = Path(path)
        self.seconds = seconds
        self.told = told
        self.spent = 0.0  # before this session
        self.began = self.written = time.monotonic()
        self.header: dict[str, Any] = {}
        self.read: dict[str, tuple[Any, Arrays]] = {}  # of the file, by stage
        self.states: dict[str, Any] = {}  # since then
        self.is_whole = True  # the file holds all states
        self.has_failed = False

    def begin(
        self, problem: InverseProblem, engine: str, seed: int, settings: Mapping[str, Any]
    ) -> None:
        self.began = self.written = time.monotonic()
        # What was kept of another fit, by the same object, is not of this one.
        self.read, self.states, self.spent, self.is_whole = {}, {}, 0.0, True
        fit = fit_identity(problem, engine, seed, settings)
        self.header = {"fit": fit, "versions": versions() | {"device": jax.default_backend()}}
        remove_partials(self.path)
        if not self.path.exists():
            return
        header, arrays = read_checkpoint(self.path)
        check_same_fit(self.path, header, self.header)
        for name, version in self.header["versions"].items():
            saved = header["versions"].get(name)
            if saved != version:
                warnings.warn(
                    f"the fit was begun with {name} {saved} and goes on with {version}: numbers "
                    "may differ from an uninterrupted fit",
                    stacklevel=2,
                )
        self.spent = header["spent"]
        self.read = {stage: (plain, arrays) for stage, plain in header["stages"].items()}

    def restore(self, stage: str) -> Any | None:
        if not self.header:
            raise RieszError(
                "a checkpoint must know its fit: give it to rz.fit(problem, engine, checkpoint=...)"
            )
        if stage in self.states:
            return self.states[stage]
        if stage not in self.read:
            return None
        plain, arrays = self.read[stage]
        # Here and not when reading: the engine has chosen the precision of its arrays by now.
        return from_plain(plain, stage, arrays, SAVED)

    def keep(self, stage: str, state: Any) -> None:
        self.states[stage] = state
        self.is_whole = False
        if time.monotonic() - self.written >= self.seconds:
            self.flush()

    def flush(self) -> None:
        if self.is_whole:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.write()
            self.is_whole = True
        except (OSError, FileFormatError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
            if not self.has_failed:
                self.told(f"no checkpoint: {reason}; the fit goes on, and tries again later")
            self.has_failed = True
        self.written = time.monotonic()

    def write(self) -> None:
        arrays: Arrays = {}
        stages = {}
        for stage, (plain, old) in self.read.items():
            if stage not in self.states:
                stages[stage] = plain
                arrays |= {name: old[name] for name in old if name.split("/")[0] == stage}
        for stage, state in self.states.items():
            stages[stage] = to_plain(state, stage, arrays, SAVED)
        spent = self.spent + time.monotonic() - self.began
        content = self.header | {"spent": spent, "stages": stages}
        header = json.dumps(content, allow_nan=False).encode() + b"\n"
        archive = npz_bytes(arrays)
        digest = blake2b(header, digest_size=16)
        digest.update(archive)
        with replacing(self.path) as file:
            file.write(f"riesz checkpoint {SCHEMA} {digest.hexdigest()}\n".encode())
            file.write(header)
            file.write(archive)


def fit_identity(
    problem: InverseProblem, engine: str, seed: int | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What must be the same for a fit to go on."""
    levels = 1 if problem.hierarchy is None else len(problem.hierarchy.meshes)
    return {
        "engine": engine,
        "seed": seed,
        "settings": plain_settings(settings),
        "levels": levels,
        "problem": identity(problem),
    }


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as files keep them."""
    return {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in settings.items()
    }


def read_checkpoint(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays, if all is as it was written."""
    data = read_bytes(path)
    first = FIRST_LINE.match(data)
    if first is None:
        raise FileFormatError(f"{path} is not a checkpoint of riesz, or is damaged: {AGAIN}.")
    if int(first[1]) > SCHEMA:
        raise FileFormatError(
            f"{path} was written by a newer version of riesz (format {int(first[1])}; this one "
            f"reads up to {SCHEMA}): go on with that version, or {AGAIN}."
        )
    rest = data[first.end() :]
    if int(first[1]) != SCHEMA or blake2b(rest, digest_size=16).hexdigest() != first[2].decode():
        raise FileFormatError(f"{path} is damaged, cut short or edited: {AGAIN}.")
    text, _, archive = rest.partition(b"\n")
    header = json.loads(text)
    known = header if isinstance(header, dict) else {}
    if not all(isinstance(known.get(name), kind) for name, kind in HEADER.items()):
        raise FileFormatError(f"{path} is not a checkpoint of this version: {AGAIN}.")
    return header, archive_arrays(path, archive)


def check_same_fit(path: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise where a checkpoint comes from another fit, with what differs."""
    differing = differing_fits(saved["fit"], given["fit"])
    name = "riesz"
    if saved["versions"].get(name) != given["versions"][name]:
        differing.append(f"version of riesz{both(saved['versions'], given['versions'], name)}")
    if differing:
        raise RieszError(
            f"the checkpoint {path} is of another fit, which differs in {', '.join(differing)}: go "
            f"on with what it was begun with, or {AGAIN}."
        )


def differing_fits(saved: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """What differs between two fits, in words."""
    differing = [
        f"{name}{both(saved, given, name)}"
        for name in ("engine", "seed", "levels")
        if saved.get(name) != given[name]
    ]
    if saved.get("engine") == given["engine"]:
        old, new = saved["settings"], given["settings"]
        differing += [
            f"setting {name}{both(old, new, name)}"
            for name in {**old, **new}
            if old.get(name) != new.get(name)
        ]
    return differing + differing_in(saved["problem"], given["problem"])


def both(saved: Mapping[str, Any], given: Mapping[str, Any], name: str) -> str:
    return f" (saved: {saved.get(name)}; given: {given.get(name)})"

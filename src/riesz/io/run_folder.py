"""Run folders: a fit with all that it takes to predict from it again.

All is written to a folder beside and renamed at the end: a fit that is stopped leaves nothing.
What was read is kept as it was, and its digests stand in the manifest: a posterior goes with the
very files that were fitted.
"""

import dataclasses
import math
import shutil
import uuid
import warnings
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from riesz.errors import FileFormatError, RieszError
from riesz.infer.fit import Choice, fit
from riesz.infer.importance import ImportanceCheck
from riesz.infer.posterior import Posterior
from riesz.infer.sampler_check import SamplerCheck
from riesz.infer.summary import Summary, summary
from riesz.io.npz import read_npz, write_npz
from riesz.io.posterior_file import load_posterior, save_posterior
from riesz.io.problem_file import Case, read_problem
from riesz.io.results import read_results, results, write_results
from riesz.io.whole_file import read_bytes

PROBLEM = "problem.toml"
TABLE = "observations.csv"
MESH = "mesh.npz"
GOES_WITH = (PROBLEM, TABLE, MESH)
POSTERIOR = "posterior"
MANIFEST = "manifest.json"
SUMMARY = "summary.txt"

FILES = "files"
"""The manifest's key for the digests of what the posterior goes with."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run that was read again."""

    case: Case
    posterior: Posterior


def check_free(folder: Path) -> None:
    """Raise, before any work, where a run folder could not be made."""
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise RieszError(f"{folder} is not a folder: choose another --out.")
        if folder.exists() and any(folder.iterdir()):
            raise RieszError(
                f"the folder {folder} is not empty: choose another --out, or remove it."
            )
        # It is replaced at the end, which would pull the ground from under the caller.
        if folder.resolve() == Path.cwd():
            raise RieszError(f"{folder} is where this runs: choose another --out.")
        try_making(folder.resolve())
    except (OSError, RuntimeError) as error:  # links in a circle are a RuntimeError
        told = error.strerror if isinstance(error, OSError) else error
        raise RieszError(f"the folder {folder} cannot be made: {told}.") from None


def try_making(folder: Path) -> None:
    """Make all folders that a run needs, and remove those that were not there before."""
    wanted = [*reversed(folder.parents), partial_of(folder), folder]
    missing = [path for path in wanted if not path.exists()]
    made: list[Path] = []
    try:
        for path in missing:
            path.mkdir()
            made.append(path)
    finally:
        for path in reversed(made):
            with suppress(OSError):  # another run may be at work in the same new folder
                path.rmdir()


def partial_of(folder: Path) -> Path:
    """A new name beside a folder, not much longer than its own, since names have a largest size."""
    return folder.with_name(f".{folder.name[:40]}.{uuid.uuid4().hex}.partial")


def fit_case(
    case: Case,
    choice: Choice,
    folder: Path,
    *,
    seed: int,
    command: str,
    check: bool | None = None,
    quiet: bool = False,
) -> tuple[Summary, dict[str, Any]]:
    """Fit a problem by the chosen engine, with the file's settings, and write the run folder."""
    settings = case.tables.engine.settings(choice.engine)
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = fit(
            case.problem, choice.engine, seed=seed, quiet=quiet, check=check, **settings
        )
    seconds = perf_counter() - start
    told = (str(warning.message).removeprefix(f"{choice.engine}: ") for warning in caught)
    posterior = dataclasses.replace(
        posterior, notes=tuple(dict.fromkeys((*posterior.notes, *told)))
    )
    short = summary(posterior)
    numbers = write_run(
        folder, case, posterior, short, choice=choice, command=command, seed=seed, seconds=seconds
    )
    return short, numbers


def write_run(
    folder: Path,
    case: Case,
    posterior: Posterior,
    found: Summary,
    *,
    choice: Choice,
    command: str,
    seed: int,
    seconds: float,
) -> dict[str, Any]:
    """Write a run folder; returns the summary that its manifest holds.

    A run that is complete but cannot take its name stays under another, which the error tells.
    """
    short = {
        "engine": choice.engine,
        "why": choice.why,
        "seconds": round(seconds, 2),
        "nodes": case.problem.forward.space.mesh.num_nodes,
        "unknown_numbers": case.problem.num_coordinates,
        "observations": found.num_observations,
        "residual_rms": found.residual_rms,
        "coverage": found.coverage,
        "check": None if found.check is None else json_numbers(found.check),
        "notes": [*case.notes, *found.notes],
    }
    config = case.tables.model_dump(mode="json", exclude_none=True)
    folder = folder.resolve()
    partial = partial_of(folder)
    try:
        partial.mkdir(parents=True)
        (partial / PROBLEM).write_bytes(case.content)
        (partial / TABLE).write_bytes(case.columns.content)
        write_npz(partial / MESH, case.coarse, {}, {})
        save_posterior(partial / POSTERIOR, posterior)
        (partial / SUMMARY).write_text(f"{found}\n", encoding="utf-8")
        content = results(command, config, seed, found.rows, short)
        write_results(partial / MANIFEST, content | {FILES: digests(partial, GOES_WITH)})
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise RieszError(f"the folder {folder} cannot be written: {error.strerror}.") from None
        raise
    take_name(partial, folder)
    return short


def json_numbers(check: ImportanceCheck | SamplerCheck) -> dict[str, Any]:
    """The figures of a check, by name; infinity, which JSON has no word for, is null."""

    def spoken(value: Any) -> Any:
        if isinstance(value, list):
            return [spoken(one) for one in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    found = dataclasses.asdict(check)
    return {name: spoken(np.asarray(value).tolist()) for name, value in found.items()}


def take_name(partial: Path, folder: Path) -> None:
    """The last step of writing a run."""
    try:
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise RieszError(
            f"the run is complete but cannot be named {folder}: {error.strerror}; it is kept as "
            f"{partial}: move it where you want it."
        ) from None


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: blake2b(read_bytes(folder / name), digest_size=16).hexdigest() for name in names}


def check_unchanged(folder: Path) -> None:
    """Raise where a file is no more what it was when the run was written."""
    saved = read_results(folder / MANIFEST).get(FILES)
    if not isinstance(saved, dict):
        raise FileFormatError(
            f"{folder / MANIFEST} has no digests of the files that were fitted: fit again."
        )
    changed = [
        name for name, digest in digests(folder, GOES_WITH).items() if saved.get(name) != digest
    ]
    if changed:
        raise FileFormatError(
            f"{folder}: {' and '.join(changed)} changed after the fit: a changed problem needs a "
            "new fit, by riesz fit."
        )


def read_run(folder: Path) -> Run:
    """Read a run folder: the problem as it was fitted, and its posterior."""
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is not a run folder: there is no such folder.")
    missing = [name for name in (*GOES_WITH, MANIFEST) if not (folder / name).is_file()]
    if missing:
        raise FileFormatError(f"{folder} is not a run folder: it has no {', '.join(missing)}.")
    check_unchanged(folder)
    case = read_problem(folder / PROBLEM, coarse=read_npz(folder / MESH), table=folder / TABLE)
    return Run(case, load_posterior(folder / POSTERIOR, case.problem))

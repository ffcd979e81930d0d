"""Run folders: a fit with all that it takes to predict from it again.

All is written to a folder beside and renamed at the end: a fit that is stopped leaves nothing.
"""

import dataclasses
import shutil
import uuid
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

from riesz.errors import FileFormatError, RieszError
from riesz.infer.fit import Choice, fit
from riesz.infer.posterior import Posterior
from riesz.infer.summary import Summary, summary
from riesz.io.npz import read_npz, write_npz
from riesz.io.posterior_file import load_posterior, save_posterior
from riesz.io.problem_file import Case, read_problem
from riesz.io.results import results, write_results
from riesz.io.whole_file import read_bytes

PROBLEM = "problem.toml"
TABLE = "observations.csv"
MESH = "mesh.npz"
POSTERIOR = "posterior"
MANIFEST = "manifest.json"
SUMMARY = "summary.txt"


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run that was read again."""

    case: Case
    posterior: Posterior


def check_free(folder: Path) -> None:
    """Raise, before any work, where a run folder could not be made."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RieszError(f"{folder} is not a folder: choose another --out.")
    if folder.exists() and any(folder.iterdir()):
        raise RieszError(f"the folder {folder} is not empty: choose another --out, or remove it.")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RieszError(f"the folder {folder} cannot be made: {error.strerror}.") from None


def fit_case(
    case: Case, choice: Choice, folder: Path, *, seed: int, command: str, quiet: bool = False
) -> tuple[Summary, dict[str, Any]]:
    """Fit a problem by the chosen engine, with the file's settings, and write the run folder."""
    settings = case.tables.engine.settings(choice.engine)
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = fit(case.problem, choice.engine, seed=seed, quiet=quiet, **settings)
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
    """Write a run folder; returns the summary that its manifest holds."""
    short = {
        "engine": choice.engine,
        "why": choice.why,
        "seconds": round(seconds, 2),
        "nodes": case.problem.forward.space.mesh.num_nodes,
        "unknown_numbers": case.problem.num_coordinates,
        "observations": found.num_observations,
        "residual_rms": found.residual_rms,
        "coverage": found.coverage,
        "notes": [*case.notes, *found.notes],
    }
    config = case.tables.model_dump(mode="json", exclude_none=True)
    partial = folder.absolute().with_name(f".{folder.name}.{uuid.uuid4().hex}.partial")
    try:
        partial.mkdir()
        (partial / PROBLEM).write_bytes(read_bytes(case.path))
        (partial / TABLE).write_bytes(read_bytes(case.columns.path))
        write_npz(partial / MESH, case.coarse, {}, {})
        save_posterior(partial / POSTERIOR, posterior)
        (partial / SUMMARY).write_text(f"{found}\n", encoding="utf-8")
        write_results(partial / MANIFEST, results(command, config, seed, found.rows, short))
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise RieszError(f"the folder {folder} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return short


def read_run(folder: Path) -> Run:
    """Read a run folder: the problem as it was fitted, and its posterior."""
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is not a run folder: there is no such folder.")
    missing = [name for name in (PROBLEM, TABLE, MESH, MANIFEST) if not (folder / name).is_file()]
    if missing:
        raise FileFormatError(f"{folder} is not a run folder: it has no {', '.join(missing)}.")
    case = read_problem(folder / PROBLEM, coarse=read_npz(folder / MESH), table=folder / TABLE)
    return Run(case, load_posterior(folder / POSTERIOR, case.problem))

"""Run folders: a fit with all that it takes to predict from it again.

All is written to a folder beside and renamed at the end: a run folder is whole or not there. What
was read is kept as it was, and the digests of all files stand in the manifest: a posterior goes
with the very files that were fitted.
"""

import dataclasses
import math
import shutil
import warnings
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from riesz.case.data.prepared import prepared_content
from riesz.case.file.boundary import regions_content
from riesz.case.file.problem import Case, read_case
from riesz.case.file.rivers import rivers_content
from riesz.case.file.wells import wells_content
from riesz.diagnose.summary import SamplerCheck, Summary, summary
from riesz.engines.base import NO_CHECKPOINT
from riesz.errors import FileFormatError, RieszError
from riesz.inference.fit import Choice, fit
from riesz.io.meshes.files import read_npz, write_npz
from riesz.io.store.checkpoint import Checkpoint, differing_fits, fit_identity, plain_settings
from riesz.io.store.files import read_bytes, settle, write_bytes
from riesz.io.store.posterior import load_posterior, save_posterior
from riesz.io.store.results import read_results, results, versions, write_results
from riesz.posterior.checks import ImportanceCheck
from riesz.posterior.posterior import Posterior

CHECKPOINT = "checkpoint"
RUN = "run"

PROBLEM = "problem.toml"
TABLE = "observations.csv"
MESH = "mesh.npz"
WELLS, RIVERS, REGIONS = "wells.csv", "rivers.csv", "regions.geojson"
"""Of those that came from files; runs without any have no such files."""

GOES_WITH = (PROBLEM, TABLE, MESH)
POSTERIOR = "posterior"
MANIFEST = "manifest.json"
SUMMARY = "summary.txt"

FILES = "files"
"""The manifest's key for the digests of all other files."""


def unfinished_of(folder: Path) -> Path:
    """The folder beside a run folder in which a fit lives until it is finished.

    It holds the checkpoint, and the run folder while that is written; a fit that is killed leaves
    it behind. Its name is not much longer than that of the run, since names have a largest size.
    """
    return folder.with_name(f"{folder.name[:200]}.unfinished")


def checkpoint_of(folder: Path) -> Path:
    return unfinished_of(folder.resolve()) / CHECKPOINT


def clear(folder: Path) -> None:
    """Remove all that fits leave beside a run folder, and nothing else."""
    beside = unfinished_of(folder)
    shutil.rmtree(beside / RUN, ignore_errors=True)
    (beside / CHECKPOINT).unlink(missing_ok=True)
    with suppress(OSError):
        beside.rmdir()


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A fit that is kept in a folder: the problem as it was fitted, and its posterior."""

    folder: Path
    case: Case
    posterior: Posterior
    numbers: dict[str, Any]  # the engine and why, seconds, sizes, how well the data are met
    notes: tuple[str, ...] = ()  # about the version that wrote it

    @property
    def summary(self) -> str:
        """What `rz.summary` said of the posterior."""
        return read_bytes(self.folder / SUMMARY).decode().rstrip()


def is_finished(folder: Path) -> bool:
    """Whether there is a run folder of that name."""
    return (folder / MANIFEST).is_file()


def check_free(folder: Path, *, resume: bool = False) -> None:
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
        kept = checkpoint_of(folder)
        if not resume and kept.exists():
            raise RieszError(
                f"an unfinished fit of {folder} is in {kept.parent}: add --resume to go on with "
                "it, or remove that folder to start from the beginning."
            )
        try_making(folder.resolve())
    except (OSError, RuntimeError) as error:  # links in a circle are a RuntimeError
        told = error.strerror if isinstance(error, OSError) else error
        raise RieszError(f"the folder {folder} cannot be made: {told}.") from None


def try_making(folder: Path) -> None:
    """Make all folders that a run needs, and remove those that were not there before."""
    wanted = [*reversed(folder.parents), unfinished_of(folder), folder]
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


def run_case(
    case: Case,
    choice: Choice,
    folder: Path,
    *,
    seed: int,
    command: str,
    check: bool | None = None,
    progress: bool = True,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Fit a problem by the chosen engine, with the file's settings, and write the run folder."""
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = fit(
            case.problem,
            choice.engine,
            seed=seed,
            progress=progress,
            check=check,
            checkpoint=checkpoint or NO_CHECKPOINT,
        )
    seconds = perf_counter() - start + (checkpoint.spent if checkpoint else 0.0)
    # The engine's own are notes of the posterior already; others come from below it.
    told = [str(one.message) for one in caught]
    others = (one for one in told if not one.startswith(f"{choice.engine.name}: "))
    posterior = dataclasses.replace(posterior, notes=(*posterior.notes, *dict.fromkeys(others)))
    found = summary(posterior)
    numbers = write_run(
        folder, case, posterior, found, choice=choice, command=command, seed=seed, seconds=seconds
    )
    return Run(folder, case, posterior, numbers)


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
        "engine": choice.engine.name,
        "why": choice.why,
        "settings": plain_settings(choice.engine.settings()),
        "seconds": round(seconds, 2),
        "nodes": case.problem.forward.space.mesh.num_nodes,
        "unknown_numbers": case.problem.num_coordinates,
        "observations": found.num_observations,
        "censored": found.num_censored,
        "residual_rms": found.residual_rms,
        "coverage": found.coverage,
        "check": None if found.check is None else json_numbers(found.check),
        "notes": [*case.notes, *found.notes],
    }
    config = case.tables.model_dump(mode="json", exclude_none=True)
    folder = folder.resolve()
    partial = unfinished_of(folder) / RUN
    shutil.rmtree(partial, ignore_errors=True)  # of a fit that was killed
    try:
        partial.mkdir(parents=True)
        write_bytes(partial / PROBLEM, case.content)
        write_bytes(partial / TABLE, prepared_content(case.prepared))
        if any(well.file is not None for well in case.tables.wells):
            write_bytes(partial / WELLS, wells_content(case.wells, case.tables.wells))
        if case.rivers:
            write_bytes(partial / RIVERS, rivers_content(case.rivers))
        if case.regions:
            write_bytes(partial / REGIONS, regions_content(case.regions, case.coarse))
        write_npz(partial / MESH, case.coarse, {}, {})
        save_posterior(partial / POSTERIOR, posterior)
        write_bytes(partial / SUMMARY, f"{found}\n".encode())
        content = results(command, config, seed, found.rows, short)
        names = sorted(p.relative_to(partial).as_posix() for p in partial.rglob("*") if p.is_file())
        write_results(partial / MANIFEST, content | {FILES: digests(partial, names)})
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        with suppress(OSError):
            partial.parent.rmdir()  # where there is no checkpoint in it
        cause = error.__cause__ if isinstance(error, FileFormatError) else error
        if isinstance(cause, OSError):
            raise RieszError(not_written(folder, cause)) from None
        raise
    take_name(partial, folder)
    settle(folder)
    settle(folder.parent)  # before the checkpoint goes: a power cut may come between the two
    clear(folder)
    return short


def json_numbers(check: ImportanceCheck | SamplerCheck) -> dict[str, Any]:
    """The figures of a check, by name; infinity, which JSON has no word for, is null."""

    def spoken(value: Any) -> Any:
        if isinstance(value, list):
            return [spoken(one) for one in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    found = dataclasses.asdict(check)
    return {name: spoken(np.asarray(value).tolist()) for name, value in found.items()}


def not_written(folder: Path, error: OSError) -> str:
    kept = checkpoint_of(folder)
    advice = f" The fit is kept in {kept.parent}: mend that, and add --resume."
    told = f"the run folder {folder} cannot be written: {error.strerror}."
    return f"{told}{advice if kept.exists() else ''}"


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


def check_unchanged(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise where a file is missing, or no more what it was when the run was written."""
    saved = manifest.get(FILES)
    if not isinstance(saved, dict) or not set(GOES_WITH) <= set(saved):
        raise FileFormatError(
            f"{folder / MANIFEST} has no digests of the files that were fitted: fit again."
        )
    missing = [name for name in saved if not (folder / name).is_file()]
    if missing:
        raise FileFormatError(
            f"{folder} is not whole: {', '.join(missing)} missing. Bring it back, or fit again."
        )
    changed = [name for name, digest in digests(folder, saved).items() if saved[name] != digest]
    if changed:
        raise FileFormatError(
            f"{folder}: {' and '.join(changed)} changed after the fit: a changed problem needs a "
            "new fit, by riesz fit; what the fit wrote must stay as it is."
        )


def read_run(folder: Path | str) -> Run:
    """Read a run folder: the problem as it was fitted, and its posterior."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is not a run folder: there is no such folder.")
    missing = [name for name in (*GOES_WITH, MANIFEST) if not (folder / name).is_file()]
    if missing:
        raise FileFormatError(f"{folder} is not a run folder: it has no {', '.join(missing)}.")
    manifest = read_results(folder / MANIFEST)
    check_unchanged(folder, manifest)
    case = read_case(
        folder / PROBLEM,
        coarse=read_npz(folder / MESH),
        table=folder / TABLE,
        kept=(folder / WELLS, folder / RIVERS, folder / REGIONS),
    )
    posterior = load_posterior(folder / POSTERIOR, case.problem)
    saved, own = (manifest.get("versions") or {}).get("riesz"), versions()["riesz"]
    notes = () if saved == own else (f"the run was written by riesz {saved}; this is {own}",)
    return Run(folder, case, posterior, manifest["summary"], notes)


def finished_run(folder: Path, case: Case, choice: Choice, seed: int) -> Run:
    """A finished run, which must be of this very fit."""
    run = read_run(folder)
    differing = differing_fits(
        fit_identity(
            *(run.case.problem, run.posterior.engine, run.posterior.seed), run.numbers["settings"]
        ),
        fit_identity(case.problem, choice.engine.name, seed, choice.engine.settings()),
    )
    if differing:
        raise RieszError(
            f"{folder} is a finished run of another fit, which differs in {', '.join(differing)}: "
            "choose another --out."
        )
    clear(folder.resolve())  # where a fit was killed between its last two steps
    return run

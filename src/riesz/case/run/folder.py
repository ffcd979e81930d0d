"""Run folders: a fit with all that it takes to predict from it again.

What was read is kept as it was, and the digests of all files stand in the manifest: a posterior
goes with the very files that were fitted. Draws of it stand beside: whoever reads a run to predict
from it needs no more than these, and no compiler.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riesz.case.data.rows import TABLE, DataRows, read_data_rows
from riesz.case.data.schema import ObservationsTable
from riesz.case.options import NextOptions, PredictOptions, ReportOptions, takes
from riesz.case.run.misfit import MISFIT, read_misfit
from riesz.case.table import Decisions, parse_table, toml_in
from riesz.errors import FileFormatError, RieszError
from riesz.io.store.draws import StoredDraws, read_draws
from riesz.io.store.files import read_bytes
from riesz.io.store.results import read_results, versions
from riesz.notes import Note, read_notes
from riesz.posterior.checks import FitFacts
from riesz.prediction.draws import PosteriorDraws

if TYPE_CHECKING:
    import riesz as rz
    from riesz.case.file.problem import Case
    from riesz.diagnose.criticism.findings import Misfit
    from riesz.posterior.posterior import Posterior

CHECKPOINT = "checkpoint"
RUN = "run"

PROBLEM = "problem.toml"
MESH = "mesh.npz"

REFINED = "refined.npz"
"""The mesh that the fit ended on, where it was refined for the data, and in which cell of the one
before each of its cells lies."""

REQUIRED_FILES = (PROBLEM, TABLE, MESH)
POSTERIOR = "posterior"
DRAWS = "draws.npz"
MANIFEST = "manifest.json"
SUMMARY = "summary.txt"

NEXT = "next.json"
"""Where to measure next, where that was asked for the report; it came after the fit."""

DECIDED = "decided"
"""The manifest's key for what the problem file left open and the fit decided."""

FILES = "files"
"""The manifest's key for the digests of all other files."""


def partial_folder(folder: Path) -> Path:
    """The folder beside a run folder in which a fit lives until it is finished.

    It holds the checkpoint, and the run folder while that is written; a fit that is killed leaves
    it behind. Its name is not much longer than that of the run, since names have a largest size.
    """
    return folder.with_name(f"{folder.name[:200]}.unfinished")


def checkpoint_of(folder: Path | str) -> Path:
    """Where a fit that makes the run keeps its state, while it lasts or until it goes on."""
    return partial_folder(Path(folder).resolve()) / CHECKPOINT


def remove_unfinished(folder: Path | str) -> None:
    """Remove all that fits leave beside a run folder, and nothing else."""
    beside = partial_folder(Path(folder).resolve())
    shutil.rmtree(beside / RUN, ignore_errors=True)
    (beside / CHECKPOINT).unlink(missing_ok=True)
    with suppress(OSError):
        beside.rmdir()


PROBLEM_OF_RUN = "riesz.case.run.stored_problem"
"""The module of what takes the equation: it is imported where that is asked for, since it brings
all engines with it, which takes longer than most predictions."""

PREDICTING, NEXT_PLACES = "riesz.case.run.predict", "riesz.case.run.next"
REPORTING = "riesz.case.report.page"
"""The modules above this one that do what methods of a run are for: each method imports its own
when it is called."""


@contextmanager
def refit_hint(folder: Path) -> Iterator[None]:
    """What is raised inside ends with the command that makes the run again: versions differ."""
    try:
        yield
    except RieszError as error:
        command = read_results(folder / MANIFEST)["command"]
        raise type(error)(f"{error} The run was made by: {command}") from None


@dataclass(frozen=True, eq=False)
class Run:
    """A fit that is kept in a folder: the problem as it was fitted, its posterior, and draws of it.

    All but names and numbers is read when it is first asked for.
    """

    folder: Path
    observations: ObservationsTable  # what columns are called, and what they hold
    crs: str | None
    numbers: dict[str, Any]  # the engine and why, seconds, sizes, how well the data are met
    notes: tuple[Note, ...] = ()  # of the fit, about the version that wrote it, and a scenario
    time: Any = None  # the table [time], where the equation is one in time
    fitted: "tuple[Case, Posterior] | None" = None  # where they are at hand
    before: "Run | None" = None  # of a scenario, for which nothing is kept, the run it is of
    computed: dict[tuple[int | None, int], PosteriorDraws] = field(default_factory=dict)

    @property
    def decided(self) -> Decisions:
        """What the problem file left open; runs of older versions have it in their file."""
        return self.numbers.get(DECIDED, {})

    @property
    def is_around_observations(self) -> bool:
        """Whether the domain was drawn about the observations, and not given."""
        domain = toml_in(self.folder / PROBLEM).get("domain", {})
        return bool(domain.get("around_observations"))

    @property
    def summary(self) -> str:
        """What `rz.summary` said of the posterior."""
        return read_bytes(self.folder / SUMMARY).decode().rstrip()

    @cached_property
    def case(self) -> "Case":
        """The problem file, and the problem that it describes."""
        if self.fitted:
            return self.fitted[0]
        with refit_hint(self.folder):
            return import_module(PROBLEM_OF_RUN).case_in(self)

    @cached_property
    def posterior(self) -> "Posterior":
        if self.fitted:
            return self.fitted[1]
        case = self.case
        with refit_hint(self.folder):
            return import_module(PROBLEM_OF_RUN).posterior_in(self.folder, case)

    @cached_property
    def prepared(self) -> DataRows:
        """The observations."""
        if self.fitted:
            return self.case.prepared
        return read_data_rows(self.folder / TABLE, self.observations)

    @cached_property
    def stored(self) -> StoredDraws | None:
        """What stands in the folder beside the posterior; runs of older versions have none."""
        if self.before is not None:
            return None
        path = self.folder / DRAWS
        with refit_hint(self.folder):
            return read_draws(path) if path.is_file() else None

    @cached_property
    def misfit(self) -> "Misfit | None":
        """What contradicts the model, where that was looked for."""
        return None if self.before is not None else read_misfit(self.folder / MISFIT)

    @property
    def facts(self) -> FitFacts:
        if self.stored:
            return self.stored.facts
        return import_module(PROBLEM_OF_RUN).fit_facts(self.posterior)

    @takes(PredictOptions)
    def predict(self, options: PredictOptions) -> "rz.case.RunPrediction":
        """Predict a quantity; the result has `values`, and `save(path)` writes a file of them.

        The quantity is measurement, what a new one would read, noise included; value, the same
        without noise; u, the state of the equation; flux, or an unknown. The statistic is mean, sd,
        median, a quantile such as q05, exceed:VALUE, several by commas, all, or ensemble. Where is
        said by one of `points`, a file of places or an array, `grid`, cells along x and y, and
        `cell`, their size. All draws that the run keeps are taken, or `num_draws` of them; more,
        and those of another `seed`, are computed. `covariates` gives values, rasters or, for an
        array of points, a value each, where a table of places has no such column; a map without is
        of average ones, as its `holds_for` says.

        Of a problem in time, `at` is a date, several, or all of the axis; without it, predictions
        are of the last one, or of those that a table of places has. Without places they are of the
        observed ones. `changes` is a file of other stresses, as `scenario` takes it.
        """
        return import_module(PREDICTING).RunPrediction(self, options)

    @takes(NextOptions)
    def next(self, options: NextOptions) -> dict[str, Any]:
        """Where to measure next, so that a quantity becomes better known; to files, where `out`
        names any: .csv, .tif or .png.

        The quantity is u, the state; an unknown by its name; budget:TERM, a line of the budget; or
        exceed:VALUE, on which side of a value what is measured lies. `candidates` is a file of
        places, or an array; without, they are cells all over the domain, of the size `cell`. A
        measurement is of the kind that was fitted, or has `noise` of this sd, and `count` places
        are chosen one after the other. Of a problem in time, it is made at the date `at`, at the
        last one, or at those that a table of candidates has, and what is to be known is of that
        date, or of the last.

        With `report`, the report of the run is written with a section about it. Returns in short
        what was found.
        """
        return import_module(NEXT_PLACES).write_next(self, options)

    @takes(ReportOptions)
    def report(self, options: ReportOptions) -> dict[str, Any]:
        """Write the report, one web page: maps, parameters, fit, and how far to trust it.

        It is `report.html` in the run folder unless `out` names another. Returns in short what was
        written.
        """
        return import_module(REPORTING).write_report(self, options)

    def scenario(self, changes: Path | str) -> "Run":
        """The run as if wells, sources, boundary values or series had been others.

        `changes` is a file of the tables of a problem file, with what is to differ. The unknowns
        keep their posterior; states are those of the changed equation, solved for anew.
        """
        return import_module(PROBLEM_OF_RUN).scenario(self, changes)

    def draws(self, num_draws: int | None = None, seed: int = 0) -> PosteriorDraws:
        """So many draws by this seed: those that are kept, or others, which takes solves."""
        if self.stored and self.stored.draws.serve(num_draws, seed):
            return self.stored.draws.first(num_draws)
        if (num_draws, seed) not in self.computed:
            drawn = import_module(PROBLEM_OF_RUN).posterior_draws(
                self.posterior, num_draws=num_draws, seed=seed
            )
            self.computed[num_draws, seed] = drawn
        return self.computed[num_draws, seed]

    def with_residuals(self, draws: PosteriorDraws) -> PosteriorDraws:
        """Readings were made under the stresses of the fit, whatever a scenario has."""
        if self.before is None or draws.shifts.residuals is None:
            return draws
        asked = draws.num_draws + draws.num_lost
        residuals = self.before.draws(asked, draws.seed).shifts.residuals
        if residuals is None or len(residuals.offsets) != draws.num_draws:
            raise RieszError(
                "some draws have no solution under the scenario, so that what sites are off by "
                "cannot be told for the others: ask for value instead of measurement."
            )
        return replace(draws, shifts=replace(draws.shifts, residuals=residuals))


def load_answers(folder: Path) -> list[dict[str, Any]]:
    """What was asked about a run, for its report."""
    path = folder / NEXT
    return read_results(path)["rows"] if path.is_file() else []


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
        checkpoint = checkpoint_of(folder)
        if not resume and checkpoint.exists():
            raise RieszError(
                f"an unfinished fit of {folder} is in {checkpoint.parent}: add --resume to go on "
                "with it, or remove that folder to start from the beginning."
            )
        try_making(folder.resolve())
    except (OSError, RuntimeError) as error:  # links in a circle are a RuntimeError
        reason = error.strerror if isinstance(error, OSError) else error
        raise RieszError(f"the folder {folder} cannot be made: {reason}.") from None


def try_making(folder: Path) -> None:
    """Make all folders that a run needs, and remove those that were not there before."""
    wanted = [*reversed(folder.parents), partial_folder(folder), folder]
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


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: blake2b(read_bytes(folder / name), digest_size=16).hexdigest() for name in names}


def check_unchanged(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise where a file is missing, or no more what it was when the run was written."""
    saved = manifest.get(FILES)
    if not isinstance(saved, dict) or not set(REQUIRED_FILES) <= set(saved):
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
    """Read a run folder: the problem as it was fitted, its posterior, and draws of it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is not a run folder: there is no such folder.")
    missing = [name for name in (*REQUIRED_FILES, MANIFEST) if not (folder / name).is_file()]
    if missing:
        raise FileFormatError(f"{folder} is not a run folder: it has no {', '.join(missing)}.")
    manifest = read_results(folder / MANIFEST)
    check_unchanged(folder, manifest)
    numbers = manifest["summary"]
    notes = read_notes(numbers.get("notes", ()), folder / MANIFEST)
    numbers["notes"] = list(map(str, notes))
    path = folder / PROBLEM
    tables = toml_in(path, None, numbers.get(DECIDED, {}))
    saved, own = (manifest.get("versions") or {}).get("riesz"), versions()["riesz"]
    if saved != own:
        notes = (*notes, Note("other_version", saved=saved, own=own))
    return Run(
        folder,
        parse_table(ObservationsTable, tables["observations"], path),
        tables.get("crs"),
        numbers,
        notes,
        tables.get("time"),
    )

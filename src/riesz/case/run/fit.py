"""A fit of a problem file: from the choice of the engine to the run folder that keeps it.

Where the problem file leaves it to the data, they say whether neighbours share more than the
equation tells. All is written to a folder beside and renamed at the end: a run folder is whole or
not there.
"""

import dataclasses
import math
import shlex
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from riesz.case.data.covariates import LOCAL
from riesz.case.file.problem import Case, inputs_content
from riesz.case.options import FitOptions, command_words
from riesz.case.run import folder as layout
from riesz.case.run.folder import (
    Run,
    check_free,
    checkpoint_of,
    digests,
    is_finished,
    partial_folder,
    read_run,
    remove_unfinished,
)
from riesz.case.run.misfit import MISFIT, misfit_content
from riesz.case.run.refine import REFINING, fit_on_refined_mesh
from riesz.case.run.stored_problem import PARENT, case_before
from riesz.comparison.compare import compare_in_closed_form, gain_by
from riesz.deadline import Deadline
from riesz.density.engine import AbstractEngine, Engine
from riesz.diagnose.criticism.findings import Misfit
from riesz.diagnose.criticism.predictive_checks import misfit_of
from riesz.diagnose.facts import fit_facts
from riesz.diagnose.goal_oriented import NestedMesh, check_can_refine
from riesz.diagnose.summary import Summary, summary_of
from riesz.errors import FileFormatError, RieszError, error_sentence
from riesz.inference.fit import Choice, check_time, fit, with_notes
from riesz.inference.table import check_engine
from riesz.io.meshes.files import write_npz
from riesz.io.store.checkpoint import Checkpoint, differing_fits, fit_identity, plain_settings
from riesz.io.store.draws import StoredDraws, write_draws
from riesz.io.store.files import settle, write_bytes
from riesz.io.store.posterior import save_posterior
from riesz.io.store.results import results, write_results
from riesz.notes import Note, note_of_warning, to_json
from riesz.posterior.checks import ImportanceCheck, SamplerCheck
from riesz.posterior.posterior import MARGINAL, Posterior
from riesz.prediction.drawing import draws_and_course

AUTO = "auto"


def check_options(options: FitOptions) -> bool:
    """Raise, before any work, where there is no such engine or the run folder cannot be made;
    whether it is finished, and is to be read."""
    if isinstance(options.engine, str):
        check_engine(options.engine)
    out = Path(options.out)
    finished = options.resume and is_finished(out)
    if not finished:
        check_free(out, resume=options.resume)
    check_time(options.time_limit)
    return finished


def fit_case(case: Case, options: FitOptions) -> Run:
    """Fit, and write the run folder; or go on with a fit that was stopped, or read a finished."""
    finished, out = check_options(options), Path(options.out)
    told = options.told or (lambda message: None)
    choice = case.choice(options.engine, options.density)
    if options.refine:
        check_can_refine(case.problem)
    if finished:
        return open_finished_run(out, decide_local(case, choice.engine), choice, options)
    told(f"engine {choice.engine.name}: {choice.why}")
    case = decide_local(case, choice.engine)  # which may take a while
    for note in case.notes:
        told(f"note: {note}")
    checkpoint = Checkpoint(
        checkpoint_of(out),
        seconds=options.checkpoint_seconds,
        told=lambda message: told(f"note: {message}"),
    )
    if options.resume:
        result = checkpoint.path.exists()
        going = "going on from" if result else "starting from the beginning, there is no"
        told(f"{going} {checkpoint.path}")
    return run_case(case, choice, options, command_of(case.path, options), checkpoint)


def command_of(problem: Path, options: FitOptions) -> str:
    """The command that makes the same run; with an engine of Python's own, the call."""
    engine, density, limit = options.engine, options.density, options.time_limit
    if isinstance(engine, str | None) and isinstance(density, str | None):
        names = ("out", "seed", "engine", "density", "check", "time_limit", "refine")
        return shlex.join(["riesz", "fit", str(problem), *command_words(options, *names)])
    named = "" if engine is None else f"{in_python(engine)}, "
    named += "" if density is None else f"density={in_python(density)}, "
    named += f"seed={options.seed}, check={options.check}"
    named += "" if limit is None else f", time_limit={limit:g}"
    named += ", refine=True" if options.refine else ""
    return f"rz.read_problem({str(problem)!r}).fit({str(options.out)!r}, {named})"


def in_python(value: Any) -> str:
    """A method, a density or both as one writes them."""
    if isinstance(value, Engine):
        return f"{in_python(value.method)}, density={in_python(value.density)}"
    return repr(value) if isinstance(value, str) else f"rz.{value!r}"


def decide_local(case: Case, engine: AbstractEngine) -> Case:
    """The case with `local` decided by leaving out each observation; its remarks say how."""
    if case.tables.observations.local != AUTO:
        return case
    gain = gain_by(case.problem, LOCAL) if MARGINAL in engine.name else None
    if gain is None:
        reason = "with what neighbours share: whether it helps only the density marginal finds out"
        return case.with_local(local=True, remarks=(reason,))
    keep = gain.mean > 0
    reason = (
        f"{'with' if keep else 'without'} what neighbours share beyond the equation: it changes "
        f"the log-density of a left-out observation by {gain.mean:+.3f} +- {gain.error:.2g}"
    )
    return case.with_local(local=keep, remarks=(reason,))


def with_verdict(case: Case, posterior: Posterior) -> Case:
    """Its remarks also say what `compare` will: whether the equation helps at all."""
    if LOCAL not in case.decided.get("observations", {}) or MARGINAL not in posterior.engine:
        return case
    try:
        verdict = compare_in_closed_form(posterior.problem)
    except Exception as error:  # the fit may have taken hours
        notes = (Note("check_failed", what="what compare says", error=error_sentence(error)),)
    else:
        notes = () if verdict is None else verdict.verdict
    return dataclasses.replace(case, remarks=(*case.remarks, *map(str, notes)))


FITTING = 0.85
"""The share of a time limit that is the fit's: draws of its posterior take the rest."""


def run_case(
    case: Case,
    choice: Choice,
    options: FitOptions,
    command: str,
    checkpoint: Checkpoint,
) -> Run:
    """Fit a problem by the chosen engine, with the file's settings, and write the run folder."""
    start, deadline = perf_counter(), Deadline.after(options.time_limit)
    folder, limit = Path(options.out), options.time_limit
    fitting, finer = deadline.sooner(FITTING), None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = fit(
            case.problem,
            choice,
            seed=options.seed,
            progress=options.progress,
            check=options.check,
            checkpoint=checkpoint,
            time_limit=None if limit is None else FITTING * limit / (1 + options.refine),
            devices=options.devices,
            mesh_error=case.tables.mesh_error,
        )
        if options.refine:
            posterior, finer = fit_on_refined_mesh(case, posterior, choice, options, fitting)
            case = case if finer is None else dataclasses.replace(case, problem=finer.problem)
    seconds = perf_counter() - start + checkpoint.spent
    # Those that are in the posterior already are warned of as well; others come from libraries.
    others = dict.fromkeys(note_of_warning(one.message) for one in caught)
    posterior = with_notes(posterior, *(one for one in others if one not in posterior.notes))
    account = account_of(posterior, case, deadline, progress=options.progress)
    case = case if deadline.is_over() else with_verdict(case, account.posterior)
    for remark in case.remarks:
        if options.told:
            options.told(remark)
    made = {"choice": choice, "command": command, "seed": options.seed, "seconds": seconds}
    numbers = write_run(folder, case, account, finer=finer, **made)
    return make_run(folder, case, account.posterior, numbers)


class Account(NamedTuple):
    """A posterior with what is told of it; or, where that could not be made, why."""

    posterior: Posterior
    summary: Summary | None = None
    stored: StoredDraws | None = None
    failed: str | None = None
    misfit: Misfit | None = None


def account_of(
    posterior: Posterior,
    case: Case | None = None,
    deadline: Deadline = Deadline(),  # noqa: B008 (immutable)
    *,
    progress: bool = False,
) -> Account:
    """Draws, summary and facts of a posterior, and what contradicts its model.

    Whatever goes wrong here comes after the fit, which may have taken hours: it is told, and what
    was fitted is kept.
    """
    try:
        with deadline.enforce("before draws of the state were made; riesz predict makes them"):
            drawn, course = draws_and_course(posterior, progress=progress)
        if drawn.num_lost:
            total = drawn.num_draws + drawn.num_lost
            posterior = with_notes(posterior, Note("draws_lost", lost=drawn.num_lost, total=total))
        labels = None if case is None else observation_labels(case)
        if (shift := posterior.mesh_shift) is not None:  # with observations called by their labels
            others = (note for note in posterior.notes if note.code != "mesh_error")
            posterior = dataclasses.replace(posterior, notes=(*others, shift.note(labels)))
        misfit = None
        try:
            misfit = misfit_of(posterior, drawn, labels=labels)
        except Exception as error:
            note = Note("criticism_failed", error=error_sentence(error))
            posterior = with_notes(posterior, note)
        result = dataclasses.replace(summary_of(posterior, drawn), misfit=misfit)
        stored = StoredDraws(drawn, fit_facts(posterior), course)
        return Account(posterior, result, stored, misfit=misfit)
    except Exception as error:
        note = Note("not_summarised", error=error_sentence(error))
        return Account(with_notes(posterior, note), failed=str(note))


def observation_labels(case: Case) -> list[str]:
    """What observations are called: by their site, or the line of their table."""
    data, count = case.prepared, len(case.problem.observed)
    own = data.sites or [f"line {line}" for line in data.lines.tolist()]
    return [*own, *(f"further measurement {i}" for i in range(1, count - len(own) + 1))][:count]


def make_run(folder: Path, case: Case, posterior: Posterior, numbers: dict[str, Any]) -> Run:
    """A run whose problem and posterior are at hand."""
    tables = case.tables
    notes = (*case.notes, *posterior.notes)
    about = (tables.observations, tables.crs, numbers, notes)
    return Run(folder, *about, time=tables.time, fitted=(case, posterior))


def write_run(
    folder: Path,
    case: Case,
    account: Account,
    *,
    choice: Choice,
    command: str,
    seed: int,
    seconds: float,
    finer: NestedMesh | None = None,
) -> dict[str, Any]:
    """Write a run folder; returns the summary that its manifest holds, with notes as sentences.

    A run that is complete but cannot take its name stays under another, which the error tells.
    """
    posterior, found, draws, failed, misfit = account
    notes = (*case.notes, *posterior.notes)
    short = {
        "engine": posterior.engine,
        "first_engine": choice.engine.name,
        "why": str(choice.why),
        "settings": plain_settings(choice.engine.settings()),
        "seconds": round(seconds, 2),
        "nodes": case.problem.forward.space.mesh.num_nodes,
        "unknown_numbers": case.problem.num_coordinates,
        "observations": len(case.problem.observed),
        "censored": int(case.problem.censored.sum()),
        "residual_rms": found and found.residual_rms,
        "coverage": found and found.coverage,
        "check": json_numbers(found.check) if found and found.check else None,
        "misfit": None if misfit is None else list(misfit.words),
        "draws": draws.draws.num_draws if draws else 0,
        "notes": list(map(str, notes)),
        "remarks": list(case.remarks),
        layout.DECIDED: dict(case.decided),
        "rasters": {
            name: str((case.path.parent / file).resolve())
            for name, file in case.tables.observations.rasters.items()
        },
        "failed": failed,
    }
    config = case.tables.model_dump(mode="json", exclude_none=True)
    folder = folder.resolve()
    partial = partial_folder(folder) / layout.RUN
    shutil.rmtree(partial, ignore_errors=True)  # of a fit that was killed
    try:
        partial.mkdir(parents=True)
        write_bytes(partial / layout.PROBLEM, case.content)
        for name, content in inputs_content(case).items():
            write_bytes(partial / name, content)
        write_npz(partial / layout.MESH, case.coarse, {}, {})
        if finer is not None:
            write_npz(partial / layout.REFINED, finer.mesh, {}, {PARENT: finer.parent})
        save_posterior(partial / layout.POSTERIOR, posterior, overwrite=True)
        text = found or f"posterior by {posterior.engine}\n{failed or 'no summary'}"
        write_bytes(partial / layout.SUMMARY, "\n".join([str(text), *case.remarks, ""]).encode())
        if draws:
            write_draws(partial / layout.DRAWS, draws)
        if misfit:
            write_bytes(partial / MISFIT, misfit_content(misfit))
        summary = short | {"notes": to_json(notes)}
        content = results(command, config, seed, found.rows if found else (), summary)
        names = sorted(p.relative_to(partial).as_posix() for p in partial.rglob("*") if p.is_file())
        write_results(partial / layout.MANIFEST, content | {layout.FILES: digests(partial, names)})
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
    remove_unfinished(folder)
    return short


def json_numbers(check: ImportanceCheck | SamplerCheck) -> dict[str, Any]:
    """The figures of a check, by name; infinity, which JSON has no word for, is null."""

    def json_value(value: Any) -> Any:
        if isinstance(value, list):
            return [json_value(one) for one in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    result = dataclasses.asdict(check)
    return {name: json_value(np.asarray(value).tolist()) for name, value in result.items()}


def not_written(folder: Path, error: OSError) -> str:
    checkpoint = checkpoint_of(folder)
    advice = f" The fit is kept in {checkpoint.parent}: mend that, and add --resume."
    text = f"the run folder {folder} cannot be written: {error.strerror}."
    return f"{text}{advice if checkpoint.exists() else ''}"


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


def open_finished_run(folder: Path, case: Case, choice: Choice, options: FitOptions) -> Run:
    """A finished run, which must be of this very fit."""
    run = read_run(folder)
    differing = differing_fits(
        fit_identity(
            case_before(run).problem,
            run.numbers.get("first_engine", run.posterior.engine),
            run.posterior.seed,
            run.numbers["settings"],
        ),
        fit_identity(case.problem, choice.engine.name, options.seed, choice.engine.settings()),
    )
    if options.refine != any(note.code in REFINING for note in run.notes):
        differing = [*differing, "refine"]
    if differing:
        raise RieszError(
            f"{folder} is a finished run of another fit, which differs in {', '.join(differing)}: "
            "choose another --out."
        )
    remove_unfinished(folder)  # where a fit was killed between its last two steps
    return run

"""A fit of a problem file: from the choice of the engine to the run folder that keeps it.

Where the problem file leaves it to the data, they say whether neighbours share more than the
equation tells.
"""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from riesz.case.data.covariates import LOCAL
from riesz.case.file.problem import Case
from riesz.case.options import FitOptions
from riesz.case.run.folder import Run, check_free, checkpoint_of, is_finished
from riesz.case.run.write import open_finished_run, run_case
from riesz.comparison.compare import compare_before_fit, gain_by
from riesz.density.engine import AbstractEngine, Engine
from riesz.inference.fit import check_time
from riesz.inference.table import check_engine
from riesz.io.store.checkpoint import Checkpoint
from riesz.posterior.posterior import MARGINAL

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
    case = decide_local(case, choice.engine)
    if finished:
        return open_finished_run(out, case, choice, options.seed)
    told(f"engine {choice.engine.name}: {choice.why}")
    for note in case.notes:
        told(f"note: {note}")
    for remark in case.remarks:
        told(remark)
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
    out, engine, seed = str(options.out), options.engine, options.seed
    check, time_limit = options.check, options.time_limit
    density = options.density
    if not isinstance(engine, str | None) or not isinstance(density, str | None):
        named = "" if engine is None else f"{in_python(engine)}, "
        named += "" if density is None else f"density={in_python(density)}, "
        named += f"seed={seed}, check={check}"
        named += "" if time_limit is None else f", time_limit={time_limit:g}"
        return f"rz.read_problem({str(problem)!r}).fit({out!r}, {named})"
    words = ["riesz", "fit", str(problem), "--out", out, "--seed", str(seed)]
    words += [] if engine is None else ["--engine", engine]
    words += [] if density is None else ["--density", density]
    words += [] if check is None else ["--check" if check else "--no-check"]
    words += [] if time_limit is None else ["--time", f"{time_limit:g}s"]
    return shlex.join(words)


def in_python(value: Any) -> str:
    """A method, a density or both as one writes them."""
    if isinstance(value, Engine):
        return f"{in_python(value.method)}, density={in_python(value.density)}"
    return repr(value) if isinstance(value, str) else f"rz.{value!r}"


def decide_local(case: Case, engine: AbstractEngine) -> Case:
    """The case with `local` decided by leaving out each observation; its remarks say how.

    They also say what `compare` will say of the run: whether the equation helps at all.
    """
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
    case = case.with_local(local=keep, remarks=(reason,))
    verdict = compare_before_fit(case.problem)
    notes = () if verdict is None else verdict.verdict
    return dataclasses.replace(case, remarks=(*case.remarks, *map(str, notes)))

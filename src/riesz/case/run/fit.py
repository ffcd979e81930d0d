"""A fit of a problem file: from the choice of the engine to the run folder that keeps it.

Where the problem file leaves it to the data, they say whether neighbours share more than the
equation tells.
"""

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path

import riesz
from riesz.case.data.covariates import LOCAL
from riesz.case.file.problem import Case, read_problem
from riesz.case.run.folder import Run, check_free, checkpoint_of, is_finished
from riesz.case.run.write import open_finished_run, run_case
from riesz.comparison.compare import compare_before_fit, gain_by
from riesz.devices import Wanted
from riesz.engines.base import AbstractEngine
from riesz.engines.conditional.engine import Conditional
from riesz.engines.table import check_engine
from riesz.inference.fit import check_time
from riesz.io.store.checkpoint import Checkpoint

AUTO = "auto"


def fit_case(
    case: Case | Path | str,
    out: Path | str,
    engine: AbstractEngine | str | None = None,
    *,
    seed: int = 0,
    check: bool | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
    progress: bool = True,
    time_limit: float | None = None,
    devices: Wanted | None = None,
    told: Callable[[str], None] = lambda message: None,
) -> Run:
    """Fit a problem file, read or by its name, and keep the posterior in the run folder `out`.

    `engine` overrules the file: a name has the file's settings, a value its own. `check`,
    `progress`, `time_limit` and `devices` are those of `rz.fit`. The state of the fit is kept every
    `checkpoint_seconds`: with `resume`, one that was stopped goes on from there to the same
    numbers, and one that is finished is read. `told` is called with what a user may want to know
    before the work begins.
    """
    out = Path(out)
    if engine is not None and not isinstance(engine, AbstractEngine):
        check_engine(engine)
    finished = resume and is_finished(out)
    if not finished:
        check_free(out, resume=resume)
    case = case if isinstance(case, Case) else read_problem(case)
    choice = case.choice(engine)
    check_time(time_limit)
    case = decide_local(case, choice.engine)
    if finished:
        return open_finished_run(out, case, choice, seed)
    told(f"engine {choice.engine.name}: {choice.why}")
    for note in case.notes:
        told(f"note: {note}")
    for remark in case.remarks:
        told(remark)
    checkpoint = Checkpoint(
        checkpoint_of(out),
        seconds=checkpoint_seconds,
        told=lambda message: told(f"note: {message}"),
    )
    if resume:
        result = checkpoint.path.exists()
        going = "going on from" if result else "starting from the beginning, there is no"
        told(f"{going} {checkpoint.path}")
    return run_case(
        case,
        choice,
        out,
        seed=seed,
        command=command_of(case.path, out, engine, seed=seed, check=check, time_limit=time_limit),
        check=check,
        progress=progress,
        checkpoint=checkpoint,
        time_limit=time_limit,
        devices=devices,
    )


def command_of(
    problem: Path,
    out: Path,
    engine: AbstractEngine | str | None,
    *,
    seed: int,
    check: bool | None,
    time_limit: float | None = None,
) -> str:
    """The command that makes the same run; with an engine of Python's own, the call."""
    if isinstance(engine, AbstractEngine):
        space = "rz" if type(engine).__name__ in dir(riesz) else "rz.inference"
        named = f"{space}.{engine!r}, seed={seed}, check={check}"
        named += "" if time_limit is None else f", time_limit={time_limit:g}"
        return f"rz.case.fit_case({str(problem)!r}, {str(out)!r}, {named})"
    words = ["riesz", "fit", str(problem), "--out", str(out), "--seed", str(seed)]
    words += [] if engine is None else ["--engine", engine]
    words += [] if check is None else ["--check" if check else "--no-check"]
    words += [] if time_limit is None else ["--time", f"{time_limit:g}s"]
    return shlex.join(words)


def decide_local(case: Case, engine: AbstractEngine) -> Case:
    """The case with `local` decided by leaving out each observation; its remarks say how.

    They also say what `compare` will say of the run: whether the equation helps at all.
    """
    if case.tables.observations.local != AUTO:
        return case
    gain = gain_by(case.problem, LOCAL) if isinstance(engine, Conditional) else None
    if gain is None:
        told = "with what neighbours share: whether it helps is found out by conditional alone"
        return case.with_local(local=True, remarks=(told,))
    keep = gain.mean > 0
    told = (
        f"{'with' if keep else 'without'} what neighbours share beyond the equation: it changes "
        f"the log-density of a left-out observation by {gain.mean:+.3f} +- {gain.error:.2g}"
    )
    case = case.with_local(local=keep, remarks=(told,))
    verdict = compare_before_fit(case.problem)
    words = () if verdict is None else verdict.words
    return dataclasses.replace(case, remarks=(*case.remarks, *words))

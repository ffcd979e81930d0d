"""`riesz fit`: from a problem file to a run folder."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import (
    CheckJsonOption,
    FitSeedOption,
    ProblemArgument,
    QuietOption,
    json_of,
    use_float64,
)


def fit_problem(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.", metavar="RUN")],
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="auto, or the name of an engine such as nuts."),
    ] = None,
    seed: FitSeedOption = 0,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Check the posterior by exact solves afterwards [default: if that is quick].",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit of this --out that was stopped.")
    ] = False,
    checkpoint_seconds: Annotated[
        float,
        typer.Option("--checkpoint-seconds", help="Keep the state of the fit so often.", min=0),
    ] = 30.0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Infer the unknowns of a problem file and keep the posterior in a run folder."""
    use_float64()
    from riesz.case.file.problem import read_problem
    from riesz.case.run.folder import check_free, finished_numbers, fit_case, is_finished
    from riesz.case.run.unfinished import checkpoint_of
    from riesz.engines.table import check_engine
    from riesz.io.store.checkpoint import Checkpoint

    if engine is not None:
        check_engine(engine)
    finished = resume and is_finished(out)
    if not finished:
        check_free(out, resume=resume)
    case = read_problem(problem)
    words = ["riesz", "fit", str(problem), "--out", str(out), "--seed", str(seed)]
    words += [] if engine is None else ["--engine", engine]
    choice = case.choice(engine)
    if finished:
        numbers = finished_numbers(out, case, choice, seed)
        told = json_of({"out": str(out), **numbers}) if as_json else f"finished already: {out}"
        if as_json or not quiet:
            typer.echo(told)
        return

    def tell(message: str) -> None:
        if not quiet:
            typer.echo(message, err=True)

    tell(f"engine {choice.engine.name}: {choice.why}")
    for note in case.notes:
        tell(f"note: {note}")
    words += [] if check is None else ["--check" if check else "--no-check"]
    checkpoint = Checkpoint(
        checkpoint_of(out),
        seconds=checkpoint_seconds,
        told=lambda message: tell(f"note: {message}"),
    )
    if resume:
        found = checkpoint.path.exists()
        told = "going on from" if found else "starting from the beginning, there is no"
        tell(f"{told} {checkpoint.path}")
    command = shlex.join(words)
    try:
        summary, numbers = fit_case(
            case,
            choice,
            out,
            seed=seed,
            command=command,
            check=check,
            progress=not quiet,
            checkpoint=checkpoint,
        )
    except KeyboardInterrupt:
        kept = checkpoint.path.exists()
        told = f"go on with: {command} --resume" if kept else "nothing was done yet"
        typer.echo(f"stopped; {told}", err=True)
        raise typer.Exit(130) from None
    told = json_of({"out": str(out), **numbers}) if as_json else f"{summary}\nwritten: {out}"
    if as_json or not quiet:
        typer.echo(told)

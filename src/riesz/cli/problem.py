"""`riesz check` and `riesz fit`: what was understood of a problem file, and its run folder."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.cli.options import (
    CheckJsonOption,
    CheckOption,
    DevicesOption,
    EngineOption,
    FitSeedOption,
    ProblemArgument,
    ProcessesOption,
    QuietOption,
    engine_in_file,
    join_cluster,
    json_of,
    keep_compiled,
    parse_seconds,
    quick_compiling,
    use_float64,
    use_one_thread,
)
from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.case.file.problem import Case
    from riesz.case.run.folder import Run


def fit_problem(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.", metavar="RUN")],
    engine: EngineOption = None,
    seed: FitSeedOption = 0,
    check: CheckOption = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time",
            help="After 90s, 10m or 2h, say, end with what there is.",
            parser=parse_seconds,
            metavar="TIME",
        ),
    ] = None,
    devices: DevicesOption = None,
    processes: ProcessesOption = None,
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
    is_small_algebra = (engine or engine_in_file(problem)) == "conditional"
    if is_small_algebra:
        use_one_thread()
    use_float64()
    if processes is not None and resume:
        raise RieszError("--resume is for a fit by one process: leave out --processes.")
    is_first = processes is None or join_cluster(processes)
    keep_compiled()
    if is_small_algebra:
        quick_compiling()
    from riesz.case.run.fit import command_of, fit_case
    from riesz.case.run.folder import checkpoint_of, is_finished

    quiet = quiet or not is_first

    def tell(message: str) -> None:
        if not quiet:
            typer.echo(message, err=True)

    finished, stack = resume and is_finished(out), ExitStack()
    # All processes come to the same posterior; the first one keeps it.
    own = out if is_first else Path(stack.enter_context(TemporaryDirectory())) / "run"
    try:
        with stack:
            run = fit_case(
                problem,
                own,
                engine,
                seed=seed,
                check=check,
                resume=resume,
                checkpoint_seconds=checkpoint_seconds,
                progress=not quiet,
                time_limit=time_limit,
                devices="all" if devices is None and processes is not None else devices,
                told=tell,
            )
    except KeyboardInterrupt:
        command = command_of(problem, out, engine, seed=seed, check=check, time_limit=time_limit)
        kept = checkpoint_of(out).exists()
        told = f"go on with: {command} --resume" if kept else "nothing was done yet"
        typer.echo(f"stopped; {told}", err=True)
        raise typer.Exit(130) from None
    if as_json and is_first:
        typer.echo(json_of({"out": str(out), **run.numbers}))
    elif not quiet:
        told = f"finished already: {out}" if finished else f"{run.summary}\n{folder_line(run)}"
        typer.echo(told)
    if run.numbers.get("failed"):
        typer.echo(f"riesz: {run.numbers['failed']}", err=True)
        raise typer.Exit(1)


def folder_line(run: "Run") -> str:
    """What is in the folder, and how large it is."""
    size = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
    draws = run.numbers.get("draws")
    kept = f", {draws} draws to predict from" if draws else ""
    return f"written: {run.folder}, {size / 1e6:.1f} MB{kept}"


def check(
    problem: ProblemArgument,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Fit data made up from the prior: are posteriors right?"),
    ] = False,
    data_sets: Annotated[
        int | None,
        typer.Option("--data-sets", help="So many for --calibrate [default: 500].", min=20),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for results.json and ranks.png of --calibrate."),
    ] = None,
    predictive: Annotated[
        bool,
        typer.Option("--predictive", help="Solve for draws of the prior: are they like the data?"),
    ] = False,
    draw: Annotated[
        Path | None, typer.Option("--draw", help="Draw them: a .png file.", metavar="FILE")
    ] = None,
    seed: FitSeedOption = 0,
    as_json: CheckJsonOption = False,
) -> None:
    """Read a problem file and say in plain words what was understood."""
    use_float64()
    keep_compiled()
    if not calibrate:
        quick_compiling()
    from riesz.case.check.description import case_numbers, describe_case
    from riesz.case.file.problem import read_problem

    check_drawing(draw)
    for option, value in (("--out", out), ("--data-sets", data_sets)):
        if value is not None and not calibrate:
            raise RieszError(f"{option} is for --calibrate: add --calibrate, or leave it out.")
    case = read_problem(problem)
    if not calibrate:
        expected = prior_lines(case, seed, draw) if predictive or draw else []
        if as_json:
            typer.echo(json_of(case_numbers(case) | {"prior_predictive": expected}))
            return
        typer.echo("\n".join([describe_case(case), *expected]))
        return
    from riesz.case.check.calibration import NUM_DATA_SETS, calibrate_case

    result = calibrate_case(case, out, num_data_sets=data_sets or NUM_DATA_SETS, seed=seed)
    typer.echo(json_of({"rows": result.rows(), **result.figures()}) if as_json else str(result))


def check_drawing(path: Path | None) -> None:
    """Raise, before any work, where a picture could not be written."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise RieszError(f"--draw is {path}: give a file that ends in .png.")
    if not path.absolute().parent.is_dir():
        raise RieszError(f"{path} cannot be written: there is no folder {path.parent}.")


def prior_lines(case: "Case", seed: int, draw: Path | None) -> list[str]:
    """What the priors predict, in words, and drawn where that is wanted."""
    from riesz.case.check.predictive import prior_predictive

    result = prior_predictive(case, seed=seed)
    if draw is None:
        return result.lines()
    from riesz.case.check.predictive import prior_predictive_figure
    from riesz.plot.figure import save_figure

    save_figure(draw, prior_predictive_figure(case, result))
    return [*result.lines(), f"written: {draw}"]

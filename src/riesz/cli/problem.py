"""`riesz check` and `riesz fit`: what was understood of a problem file, and its run folder."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.case.options import CalibrationOptions, FitOptions
from riesz.cli.options import (
    CheckJsonOption,
    ProblemArgument,
    ProcessesOption,
    QuietOption,
    is_marginal,
    join_cluster,
    json_of,
    keep_compiled,
    quick_compiling,
    use_float64,
    use_one_thread,
    with_options,
)
from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.case.file.problem import Case
    from riesz.case.run.folder import Run


@with_options
def fit_problem(
    problem: ProblemArgument,
    options: FitOptions,
    processes: ProcessesOption = None,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Infer the unknowns of a problem file and keep the posterior in a run folder."""
    is_small_algebra = is_marginal(problem, options)
    if is_small_algebra:
        use_one_thread()
    use_float64()
    if processes is not None and options.resume:
        raise RieszError("--resume is for a fit by one process: leave out --processes.")
    is_first = processes is None or join_cluster(processes)
    keep_compiled()
    if is_small_algebra:
        quick_compiling()
    from riesz.case.file.problem import read_problem
    from riesz.case.run.fit import check_options, command_of
    from riesz.case.run.folder import checkpoint_of

    quiet = quiet or not is_first

    def tell(message: str) -> None:
        if not quiet:
            typer.echo(message, err=True)

    out, own = Path(options.out), replace(options, progress=not quiet, told=tell)
    if processes is not None and options.devices is None:
        own = replace(own, devices="all")
    try:
        with ExitStack() as stack:
            if not is_first:  # all come to the same posterior; the first one keeps it
                own = replace(own, out=Path(stack.enter_context(TemporaryDirectory())) / "run")
            finished = check_options(own)
            run = read_problem(problem).fit(**vars(own))
    except KeyboardInterrupt:
        has_checkpoint = checkpoint_of(out).exists()
        going = f"go on with: {command_of(problem, options)} --resume"
        typer.echo(f"stopped; {going if has_checkpoint else 'nothing was done yet'}", err=True)
        raise typer.Exit(130) from None
    if as_json and is_first:
        typer.echo(json_of({"out": str(out), **run.numbers}))
    elif not quiet:
        text = f"finished already: {out}" if finished else f"{run.summary}\n{folder_line(run)}"
        typer.echo(text)
    if run.numbers.get("failed"):
        typer.echo(f"riesz: {run.numbers['failed']}", err=True)
        raise typer.Exit(1)


def folder_line(run: "Run") -> str:
    """What is in the folder, and how large it is."""
    size = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
    draws = run.numbers.get("draws")
    draws_text = f", {draws} draws to predict from" if draws else ""
    return f"written: {run.folder}, {size / 1e6:.1f} MB{draws_text}"


@with_options
def check(
    problem: ProblemArgument,
    *,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Fit data made up from the prior: are posteriors right?"),
    ] = False,
    options: CalibrationOptions,
    predictive: Annotated[
        bool,
        typer.Option("--predictive", help="Solve for draws of the prior: are they like the data?"),
    ] = False,
    draw: Annotated[
        Path | None, typer.Option("--draw", help="Draw them: a .png file.", metavar="FILE")
    ] = None,
    as_json: CheckJsonOption = False,
) -> None:
    """Read a problem file and say in plain words what was understood."""
    use_float64()
    keep_compiled()
    if not calibrate:
        quick_compiling()
    from riesz.case.file.problem import read_problem
    from riesz.io.store.files import check_target

    if draw is not None:
        check_target(draw, "draws are", (".png",))
    for option, value in (("--out", options.out), ("--data-sets", options.num_data_sets)):
        if value is not None and not calibrate:
            raise RieszError(f"{option} is for --calibrate: add --calibrate, or leave it out.")
    case = read_problem(problem)
    if not calibrate:
        expected = prior_lines(case, options.seed, draw) if predictive or draw else []
        if as_json:
            typer.echo(json_of(case.check().numbers | {"prior_predictive": expected}))
            return
        typer.echo("\n".join([str(case.check()), *expected]))
        return
    result = case.calibrate(**vars(options))
    typer.echo(json_of({"rows": result.rows(), **result.figures()}) if as_json else str(result))


def prior_lines(case: "Case", seed: int, draw: Path | None) -> list[str]:
    """What the priors predict, in words, and drawn where that is wanted."""
    result = case.prior_predictive(seed)
    if draw is None:
        return result.lines()
    from riesz.case.check.predictive import prior_predictive_figure
    from riesz.plot.figure import save_figure

    save_figure(draw, prior_predictive_figure(case, result))
    return [*result.lines(), f"written: {draw}"]

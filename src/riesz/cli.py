"""The `riesz` command.

Heavy imports happen inside the commands, so that `--help` answers at once. A `RieszError` is one
line on the error stream and exit status 2; anything else is a bug and keeps its traceback.
"""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.catalogue import ExperimentName, Request, experiment_of
from riesz.cli_check import check
from riesz.cli_data import data_app
from riesz.cli_init import EXAMPLE as INIT_EXAMPLE
from riesz.cli_init import init
from riesz.cli_options import (
    CheckJsonOption,
    DomainOption,
    FitSeedOption,
    JsonOption,
    OutOption,
    ProblemArgument,
    QuietOption,
    SeedOption,
    json_of,
)
from riesz.cli_process import progress_on_error_stream, use_float64
from riesz.cli_report import report_run
from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.experiments.task import Experiment
    from riesz.experiments.workers import Build

app = typer.Typer(
    help="Bayesian PDE inverse problems from scattered measurements.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")
app.command(epilog=INIT_EXAMPLE)(init)

SHOWN_RANGES = 12
OWN_DATA = """with data of your own:
  samples of metals, a CSV with the columns of the built-in ones:
    riesz experiment jura --data samples.csv --metal Cd --out out/mine
  any measurements and any equation, by a problem file, of which the first command writes one:
    riesz init measurements.csv outline.geojson --out problem.toml
    riesz fit problem.toml --out out/run"""


@app.callback()
def riesz_command() -> None:
    """Bayesian PDE inverse problems from scattered measurements."""


@app.command(epilog="Example: riesz demo --out demo-output")
def demo(
    out: OutOption = Path("demo-output"),
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the main job on built-in data: figures, maps and a table in three minutes."""
    use_float64()
    from riesz.experiments.demo import demo as prepared

    command = shlex.join(["riesz", "demo", "--out", str(out), "--seed", str(seed)])
    run_and_report(
        prepared(seed), out, seed, resume=False, as_json=as_json, command=command, quiet=quiet
    )
    if not (as_json or quiet):
        typer.echo(OWN_DATA)


@app.command(epilog="Example: riesz experiment smoother --quick --out out/smoother")
def experiment(
    name: Annotated[ExperimentName, typer.Argument(help="Which experiment.")],
    out: OutOption,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All replicates and meshes, or a small case.")
    ] = False,
    seed: SeedOption = 0,
    domain: DomainOption = None,
    metal: Annotated[
        str | None, typer.Option("--metal", help="Cd, Cu, Pb or Co; for jura.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="A, B1, B2 or D; for aquifer.")
    ] = None,
    select: Annotated[
        bool,
        typer.Option("--select", help="Choose by training data alone; for jura and aquifer."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="For jura a CSV with the columns of the built-in samples, for aquifer a folder.",
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="A file that --select wrote; for jura.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep rows already in --out.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", help="So many processes at once.", min=1)] = 1,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Re-run an experiment: one row a replicate, a table and figures."""
    mode = "full" if full else "quick"
    request = Request(name, mode, seed, domain, metal, split, data, settings, select=select)
    words = ["riesz", "experiment", name, f"--{mode}", "--out", str(out), *request.words()]
    words += [] if jobs == 1 else ["--jobs", str(jobs)]
    build = partial(prepare, request)
    run_and_report(
        build(),
        out,
        seed,
        resume=resume,
        as_json=as_json,
        command=shlex.join(words),
        workers=None if jobs == 1 else (build, jobs),
        quiet=quiet,
    )


def prepare(request: Request) -> "Experiment":
    """The experiment that is asked for, ready to run, in any process."""
    use_float64()
    return experiment_of(request)


app.command(epilog="Example: riesz check examples/transport/problem.toml --calibrate")(check)


@app.command(epilog="Example: riesz fit examples/aquifer/problem.toml --out out/aquifer")
def fit(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.", metavar="RUN")],
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="auto, emulate, relax, laplace, conditional or nuts."),
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
    progress_on_error_stream()
    from riesz.infer.fit import check_engine
    from riesz.io.checkpoint_file import Checkpoint
    from riesz.io.problem_file import read_problem
    from riesz.io.run_folder import check_free, finished_numbers, fit_case, is_finished
    from riesz.io.unfinished import checkpoint_of

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

    tell(f"engine {choice.engine}: {choice.why}")
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
            quiet=quiet,
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


@app.command(
    epilog="Example: riesz predict out/aquifer --quantity u --stat mean --cell 1000 --out head.tif"
)
def predict(
    run: Annotated[Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")],
    out: Annotated[Path, typer.Option("--out", help="The file: .csv, .tif, .gpkg, .nc or .vtu.")],
    quantity: Annotated[
        str, typer.Option("--quantity", help="u, value, flux, or the name of an unknown.")
    ] = "u",
    stat: Annotated[
        str,
        typer.Option(
            "--stat",
            help="mean, sd, q05 or q97.5, exceed:VALUE; several by commas; all; or ensemble.",
        ),
    ] = "mean",
    points: Annotated[
        Path | None,
        typer.Option("--points", help="CSV of places, columns named as in the observations."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", help="So many cells along x and y, such as 80x60.")
    ] = None,
    cell: Annotated[float | None, typer.Option("--cell", help="Square cells of this size.")] = None,
    draws: Annotated[int, typer.Option("--draws", help="How many draws to average.", min=2)] = 400,
    seed: FitSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Map a quantity under the posterior of a run, at points or on a grid."""
    use_float64()
    from riesz.io.prediction_file import write_prediction
    from riesz.io.prediction_request import PredictionRequest

    request = PredictionRequest(
        run=run,
        out=out,
        quantity=quantity,
        stat=stat,
        points=points,
        grid=grid,
        cell=cell,
        num_draws=draws,
        seed=seed,
    )
    numbers = write_prediction(request)
    for note in () if quiet else numbers["notes"]:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json_of(numbers))
    if as_json or quiet:
        return
    for name, (low, high) in list(numbers["ranges"].items())[:SHOWN_RANGES]:
        typer.echo(f"{name}: {low:.6g} .. {high:.6g} at {numbers['places']} places")
    typer.echo(f"written: {', '.join(numbers['files'])}")


app.command("report", epilog="Example: riesz report out/aquifer")(report_run)


def run_and_report(
    prepared: "Experiment",
    out: Path,
    seed: int,
    *,
    resume: bool,
    as_json: bool,
    command: str,
    workers: "tuple[Build, int] | None" = None,
    quiet: bool = False,
) -> None:
    from riesz.experiments.runner import run_experiment

    content = run_experiment(
        prepared, out, seed=seed, resume=resume, command=command, workers=workers, quiet=quiet
    )
    if as_json or not quiet:
        report(content["summary"], out, as_json=as_json)


def report(summary: dict, out: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_of({"out": str(out), **summary}))
        return
    for key, value in summary.items():
        typer.echo(
            f"{key.replace('_', ' ')}: {value:.4g}"
            if isinstance(value, float)
            else f"{key}: {value}"
        )
    typer.echo(f"written: {', '.join(sorted(p.name for p in out.iterdir()))} in {out}")


def main() -> None:
    """Entry point of the `riesz` command."""
    try:
        app()
    except RieszError as error:
        typer.echo(f"riesz: {error}", err=True)
        sys.exit(2)

"""The `riesz` command.

Heavy imports happen inside the commands, so that `--help` answers at once. A `RieszError` is one
line on the error stream and exit status 2; anything else is a bug and keeps its traceback.
"""

import shlex
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.experiments.task import Experiment
    from riesz.experiments.workers import Build

app = typer.Typer(
    help="Bayesian PDE inverse problems from scattered measurements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class ExperimentName(StrEnum):
    """Experiments that can be run."""

    SMOOTHER = "smoother"
    TAPER = "taper"
    NORMS = "norms"
    TRANSPORT = "transport"
    AMORTISED = "amortised"
    CHECKERBOARD = "checkerboard"
    FIELD = "field"
    MISSPECIFIED = "misspecified"


OutOption = Annotated[
    Path, typer.Option("--out", help="Folder for results.json, table and figures.")
]
# The largest that a key takes; experiments make others, up to a thousand times as large.
SeedOption = Annotated[int, typer.Option("--seed", help="Draws fresh data.", min=0, max=2**32 - 1)]
FitSeedOption = Annotated[
    int, typer.Option("--seed", help="Starts the random numbers.", min=0, max=2**63 - 1)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")]
DomainOption = Annotated[
    Path | None,
    typer.Option(
        "--domain", help="Outline (.geojson) or mesh (.msh, .vtu, .npz); for the smoother."
    ),
]


@app.callback()
def riesz_command() -> None:
    """Bayesian PDE inverse problems from scattered measurements."""


@app.command(epilog="Example: riesz demo --out out/demo")
def demo(
    out: OutOption = Path("out/demo"), seed: SeedOption = 0, as_json: JsonOption = False
) -> None:
    """Run the main job on built-in data: figures and a table in a minute."""
    command = shlex.join(["riesz", "demo", "--out", str(out), "--seed", str(seed)])
    prepared = prepare(ExperimentName.SMOOTHER, seed, "quick", None)
    run_and_report(prepared, out, seed, resume=False, as_json=as_json, command=command)


@app.command(epilog="Example: riesz experiment smoother --quick --out out/smoother")
def experiment(
    name: Annotated[ExperimentName, typer.Argument(help="Which experiment.")],
    out: OutOption,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All replicates and meshes, or a small case.")
    ] = False,
    seed: SeedOption = 0,
    domain: DomainOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep rows already in --out.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", help="So many processes at once.", min=1)] = 1,
    as_json: JsonOption = False,
) -> None:
    """Re-run an experiment: one row a replicate, a table and figures."""
    mode = "full" if full else "quick"
    words = ["riesz", "experiment", name, f"--{mode}", "--out", str(out), "--seed", str(seed)]
    words += [] if domain is None else ["--domain", str(domain)]
    words += [] if jobs == 1 else ["--jobs", str(jobs)]
    build = partial(prepare, name, seed, mode, domain)
    run_and_report(
        build(),
        out,
        seed,
        resume=resume,
        as_json=as_json,
        command=shlex.join(words),
        workers=None if jobs == 1 else (build, jobs),
    )


ProblemArgument = Annotated[
    Path, typer.Argument(help="The problem file (TOML).", metavar="PROBLEM")
]
CheckJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object last.")]


@app.command(epilog="Example: riesz check examples/aquifer/problem.toml")
def check(problem: ProblemArgument, as_json: CheckJsonOption = False) -> None:
    """Read a problem file and say in plain words what was understood."""
    use_float64()
    from riesz.io.problem_check import case_numbers, case_text
    from riesz.io.problem_file import read_problem

    case = read_problem(problem)
    typer.echo(json_of(case_numbers(case)) if as_json else case_text(case))


@app.command(epilog="Example: riesz fit examples/aquifer/problem.toml --out out/aquifer")
def fit(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.", metavar="RUN")],
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="auto, emulate, relax, laplace or nuts."),
    ] = None,
    seed: FitSeedOption = 0,
    as_json: CheckJsonOption = False,
) -> None:
    """Infer the unknowns of a problem file and keep the posterior in a run folder."""
    use_float64()
    progress_on_error_stream()
    from riesz.infer.fit import check_engine
    from riesz.io.problem_file import read_problem
    from riesz.io.run_folder import check_free, fit_case

    if engine is not None:
        check_engine(engine)
    check_free(out)
    case = read_problem(problem)
    words = ["riesz", "fit", str(problem), "--out", str(out), "--seed", str(seed)]
    words += [] if engine is None else ["--engine", engine]
    choice = case.choice(engine)
    typer.echo(f"engine {choice.engine}: {choice.why}", err=True)
    for note in case.notes:
        typer.echo(f"note: {note}", err=True)
    summary, numbers = fit_case(case, choice, out, seed=seed, command=shlex.join(words))
    typer.echo(json_of({"out": str(out), **numbers}) if as_json else f"{summary}\nwritten: {out}")


@app.command(
    epilog="Example: riesz predict out/aquifer --quantity u --stat mean --cell 1000 --out head.tif"
)
def predict(
    run: Annotated[Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")],
    out: Annotated[Path, typer.Option("--out", help="The file to write: .csv or .tif.")],
    quantity: Annotated[
        str, typer.Option("--quantity", help="u, flux, or the name of an unknown.")
    ] = "u",
    stat: Annotated[
        str, typer.Option("--stat", help="mean, sd, a quantile as q05 or q97.5, or exceed:VALUE.")
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
    as_json: CheckJsonOption = False,
) -> None:
    """Map a quantity under the posterior of a run, at points or on a grid."""
    use_float64()
    from riesz.io.prediction_file import PredictionRequest, write_prediction

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
    for note in numbers["notes"]:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json_of(numbers))
        return
    for name, (low, high) in numbers["ranges"].items():
        typer.echo(f"{name}: {low:.6g} .. {high:.6g} at {numbers['places']} places")
    typer.echo(f"written: {out}")


def prepare(name: ExperimentName, seed: int, mode: str, domain: Path | None) -> "Experiment":
    """The experiment of that name, ready to run."""
    use_float64()
    from riesz.experiments.amortised import amortised
    from riesz.experiments.checkerboard import checkerboard
    from riesz.experiments.field import field
    from riesz.experiments.misspecified import misspecified
    from riesz.experiments.norms import norms
    from riesz.experiments.smoother import smoother
    from riesz.experiments.taper import taper
    from riesz.experiments.transport import transport
    from riesz.io.domain_file import read_domain

    if name is ExperimentName.SMOOTHER:
        if domain is None:
            return smoother(seed, mode)
        return smoother(seed, mode, read_domain(domain), domain=str(domain))
    if domain is not None:
        raise RieszError(
            f"the experiment {name} has domains of its own: leave --domain out; it is for smoother."
        )
    builders = {
        ExperimentName.TAPER: taper,
        ExperimentName.NORMS: norms,
        ExperimentName.TRANSPORT: transport,
        ExperimentName.AMORTISED: amortised,
        ExperimentName.CHECKERBOARD: checkerboard,
        ExperimentName.FIELD: field,
        ExperimentName.MISSPECIFIED: misspecified,
    }
    return builders[name](seed, mode)


def run_and_report(
    prepared: "Experiment",
    out: Path,
    seed: int,
    *,
    resume: bool,
    as_json: bool,
    command: str,
    workers: "tuple[Build, int] | None" = None,
) -> None:
    from riesz.experiments.runner import run_experiment

    content = run_experiment(
        prepared, out, seed=seed, resume=resume, command=command, workers=workers
    )
    report(content["summary"], out, as_json=as_json)


def json_of(content: dict[str, Any]) -> str:
    """One line of JSON; what is not finite is an error rather than no JSON."""
    from riesz.io.results import json_line

    return json_line(content)


def use_float64() -> None:
    """Exact solves need it; a program may choose for the whole process, a library may not."""
    import jax

    jax.config.update("jax_enable_x64", True)


def progress_on_error_stream() -> None:
    """Bars belong on the error stream, so that output can be piped."""
    import rich

    rich.reconfigure(stderr=True)


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

"""The commands `riesz experiment` and `riesz data`, which `riesz` finds by its entry points."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.cli.options import JsonOption, OutOption, QuietOption, SeedOption, json_of, use_float64
from riesz.errors import RieszError
from riesz_paper.catalogue import ExperimentName, Request, experiment_of
from riesz_paper.data_command import data_app

if TYPE_CHECKING:
    from riesz_paper.running.task import Experiment
    from riesz_paper.running.workers import Build

SMOKE = "smoke"

DomainOption = Annotated[
    Path | None,
    typer.Option(
        "--domain", help="Outline (.geojson) or mesh (.msh, .vtu, .npz); for the smoother."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `riesz`."""
    app.command(epilog="Example: riesz experiment smoother --quick --out out/smoother")(experiment)
    app.add_typer(data_app, name="data")


def experiment(
    name: Annotated[ExperimentName, typer.Argument(help="Which experiment.")],
    out: OutOption,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All replicates and meshes, or a small case.")
    ] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds: all of it, too small to mean anything.")
    ] = False,
    seed: SeedOption = 0,
    domain: DomainOption = None,
    metal: Annotated[
        str | None, typer.Option("--metal", help="Cd, Cu, Pb or Co; for jura.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="A, B1, B2 or D; for aquifer, A or D for aquifer-time."),
    ] = None,
    which: Annotated[
        int | None, typer.Option("--set", help="One of the sets 0 to 9; for hanford.")
    ] = None,
    select: Annotated[
        bool,
        typer.Option("--select", help="Choose by training data alone; for jura and aquifer."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="For jura a CSV with the columns of the built-in samples, for aquifer, "
            "aquifer-time, hanford and pumping a folder.",
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="A file that --select wrote; for jura.")
    ] = None,
    problems: Annotated[
        int | None,
        typer.Option("--problems", help="So many; for blind and mesh-error.", min=1),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option("--part", help="A share of the problems, such as 3/15; for blind."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep rows already in --out.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", help="So many processes at once.", min=1)] = 1,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Re-run an experiment: one row a replicate, a table and figures."""
    if smoke and full:
        raise RieszError("--full and --smoke are two sizes of one experiment: take one.")
    mode = SMOKE if smoke else "full" if full else "quick"
    request = Request(
        *(name, mode, seed, domain, metal, split, data, settings, which),
        select=select,
        problems=problems,
        part=part,
        out=out,
    )
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
    if request.mode == SMOKE:
        from riesz_paper.smoke import shrink

        shrink(request.name)
    return experiment_of(request)


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
    from riesz_paper.running.runner import run_experiment

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

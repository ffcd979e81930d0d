"""`riesz fit-many`: problem files of a folder or a table, each to a run folder of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.cli import (
    CheckJsonOption,
    CheckOption,
    EngineOption,
    FitSeedOption,
    QuietOption,
    json_of,
    parse_seconds,
)
from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz_many.campaign import Campaign
    from riesz_many.ledger import Row

EXAMPLE = "Example: riesz fit-many sites --out runs --jobs 4"

MOST_LINES = 40
"""Of a table of all fits; of more, only those that are not good are listed."""


def register(app: typer.Typer) -> None:
    """Add the command to `riesz`."""
    app.command("fit-many", epilog=EXAMPLE)(fit_each)


def part_of(text: str) -> tuple[int, int]:
    """From k/N."""
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise typer.BadParameter(f"{text!r} is no share: write 3/20 for the third of twenty")


def fit_each(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder of problem files, or a CSV table with a column problem, and perhaps "
            "name and seed.",
            metavar="FOLDER|TABLE",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder for all runs.", metavar="RUNS")],
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", help="Processes, or jobs of a queue [default: processors].", min=1),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", help="A Dask scheduler (tls://...), slurm or pbs."),
    ] = None,
    engine: EngineOption = None,
    seed: FitSeedOption = 0,
    check: CheckOption = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time", help="For each fit, as in riesz fit.", parser=parse_seconds, metavar="TIME"
        ),
    ] = None,
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts", help="A fit whose process dies so often is given up as failed.", min=1
        ),
    ] = 3,
    reports: Annotated[
        bool, typer.Option("--reports/--no-reports", help="Write the report of each run.")
    ] = True,
    refit: Annotated[
        bool, typer.Option("--refit", help="Replace runs whose files or settings have changed.")
    ] = False,
    part: Annotated[
        tuple | None,
        typer.Option(
            "--part",
            help="Only the k-th of N shares, in one process.",
            parser=part_of,
            metavar="k/N",
        ),
    ] = None,
    array: Annotated[
        int | None,
        typer.Option("--array", help="Only write a SLURM script of so many shares.", min=1),
    ] = None,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Fit many problem files; what is done is kept, and a second run does only the rest."""
    if sum(one is not None for one in (part, array, cluster)) > 1:
        raise RieszError("give one of --part, --array and --cluster: each says where fits run.")
    if engine is not None:
        from riesz.inference import check_engine

        check_engine(engine)
    from riesz_many.campaign import Campaign, counts, fit_sites
    from riesz_many.scheduler import Pool
    from riesz_many.sites import FitSettings

    campaign = Campaign(
        source=source,
        runs=out,
        settings=FitSettings(engine, check, time_limit),
        seed=seed,
        attempts=attempts,
        reports=reports,
        refit=refit,
        pool=Pool(jobs, cluster),
        part=part,
    )
    if array is not None:
        script = array_script(campaign, array)
        typer.echo(f"written: {script}; submit it by: sbatch {script}")
        return
    try:
        rows = fit_sites(
            campaign,
            progress=not quiet,
            told=lambda message: None if quiet else typer.echo(message, err=True),
        )
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on with what is left", err=True)
        raise typer.Exit(130) from None
    failed = [row for row in rows if row.state != "done"]
    if as_json:
        result = counts(rows)
        typer.echo(json_of({"out": str(out), "fits": len(rows), "verdicts": result}))
    elif not quiet:
        typer.echo("\n".join(verdict_lines(rows)))
        typer.echo(f"written: {out / 'index.html'} and {out / 'ledger.csv'}")
    if failed:
        first = f"{failed[0].name}: {failed[0].message}"
        typer.echo(f"riesz: {len(failed)} of {len(rows)} fits failed; {first}", err=True)
        raise typer.Exit(1)


def array_script(campaign: "Campaign", count: int) -> Path:
    """After a look at whether there is anything to do."""
    from riesz.io import make_folder
    from riesz_many.array_job import write_array_job
    from riesz_many.sites import LEDGER, sites_in

    sites_in(campaign.source, campaign.runs, campaign.seed)
    make_folder(campaign.runs / LEDGER)
    settings = campaign.settings
    words = ["fit-many", str(campaign.source.resolve()), "--out", str(campaign.runs.resolve())]
    words += ["--quiet", "--seed", str(campaign.seed), "--attempts", str(campaign.attempts)]
    words += [] if settings.engine is None else ["--engine", settings.engine]
    words += [] if settings.check is None else ["--check" if settings.check else "--no-check"]
    words += [] if settings.time_limit is None else ["--time", f"{settings.time_limit:g}s"]
    words += [] if campaign.reports else ["--no-reports"]
    words += ["--refit"] if campaign.refit else []
    return write_array_job(campaign.runs, words, count)


def verdict_lines(rows: Sequence["Row"]) -> list[str]:
    """Each fit and its verdict; of many, only those that are not good, and how many are."""
    from riesz_many.campaign import counts

    shown = [row for row in rows if len(rows) <= MOST_LINES or row.verdict != "good"]
    shown = sorted(shown, key=lambda row: (row.state == "done", row.name))[:MOST_LINES]
    width = max((len(row.name) for row in shown), default=0)
    lines = [
        f"{row.name.ljust(width)}  {row.verdict or row.state:<11}  "
        f"{row.engine or '':<11}  {'' if row.seconds is None else f'{row.seconds:.1f} s':>9}"
        f"{'  ' + row.message if row.message else ''}".rstrip()
        for row in shown
    ]
    result = ", ".join(f"{count} {word}" for word, count in sorted(counts(rows).items()))
    return [*lines, f"{len(rows)} fits: {result}"]

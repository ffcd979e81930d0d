"""`riesz fit-many`: problem files of a folder or a table, each to a run folder of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.cli import CheckJsonOption, QuietOption, command_words, json_of, with_options
from riesz.errors import RieszError
from riesz_many.options import Campaign

if TYPE_CHECKING:
    from riesz_many.ledger import Row

EXAMPLE = "Example: riesz fit-many sites --out runs --jobs 4"

MOST_LINES = 40
"""Of a table of all fits; of more, only those that are not good are listed."""


def register(app: typer.Typer) -> None:
    """Add the command to `riesz`."""
    app.command("fit-many", epilog=EXAMPLE)(fit_each)


@with_options
def fit_each(
    options: Campaign,
    array: Annotated[
        int | None,
        typer.Option("--array", help="Only write a SLURM script of so many shares.", min=1),
    ] = None,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Fit many problem files; what is done is kept, and a second run does only the rest."""
    if sum(one is not None for one in (options.part, array, options.cluster)) > 1:
        raise RieszError("give one of --part, --array and --cluster: each says where fits run.")
    if options.engine is not None or options.density is not None:
        from riesz.inference import check_engine

        check_engine(options.engine or "auto", options.density)
    from riesz_many.campaign import counts, fit_sites

    if array is not None:
        script = array_script(options, array)
        typer.echo(f"written: {script}; submit it by: sbatch {script}")
        return
    try:
        rows = fit_sites(
            options,
            progress=not quiet,
            told=lambda message: None if quiet else typer.echo(message, err=True),
        )
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on with what is left", err=True)
        raise typer.Exit(130) from None
    failed = [row for row in rows if row.state != "done"]
    if as_json:
        result = counts(rows)
        typer.echo(json_of({"out": str(options.runs), "fits": len(rows), "verdicts": result}))
    elif not quiet:
        typer.echo("\n".join(verdict_lines(rows)))
        typer.echo(f"written: {options.runs / 'index.html'} and {options.runs / 'ledger.csv'}")
    if failed:
        first = f"{failed[0].name}: {failed[0].message}"
        typer.echo(f"riesz: {len(failed)} of {len(rows)} fits failed; {first}", err=True)
        raise typer.Exit(1)


def array_script(campaign: Campaign, count: int) -> Path:
    """After a look at whether there is anything to do."""
    from riesz.io import make_folder
    from riesz_many.array_job import write_array_job
    from riesz_many.sites import LEDGER, sites_in

    sites_in(campaign.source, campaign.runs, campaign.seed)
    make_folder(campaign.runs / LEDGER)
    names = ("seed", "attempts", "engine", "density", "check", "time_limit", "reports", "refit")
    words = ["fit-many", str(campaign.source.resolve()), "--out", str(campaign.runs.resolve())]
    words += ["--quiet", *command_words(campaign, *names)]
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

"""`riesz report`: a run as one page that opens anywhere."""

from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import CheckJsonOption, FitSeedOption, QuietOption, json_of, use_float64


def report_run(
    run: Annotated[Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write [default: report.html in RUN].")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="How many draws to map.", min=20)] = 400,
    seed: FitSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Write one self-contained web page: maps, parameters, fit, and how far to trust it."""
    use_float64()
    from riesz.case.report.page import write_report

    told = write_report(run, out, num_draws=draws, seed=seed)
    if as_json:
        typer.echo(json_of(told))
    elif not quiet:
        typer.echo(f"trust: {told['trust']}")
        typer.echo(f"written: {told['out']}, {told['bytes'] / 1e6:.1f} MB; open it in a browser")

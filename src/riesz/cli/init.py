"""`riesz init`: a first problem file from a table and, if there is one, a polygon."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from riesz.case.options import InitOptions
from riesz.cli.options import Answer, with_options

EXAMPLE = (
    "Example: riesz init wells.csv area.geojson --out problem.toml; in time: riesz init heads.csv "
    "--sites wells.csv --recharge recharge.csv --wells pumping.csv"
)


@with_options
def init(
    table: Annotated[
        Path, typer.Argument(help="Measurements: .csv, .csv.gz, .xlsx, .gpkg.", metavar="CSV")
    ],
    options: InitOptions,
) -> Answer:
    """Write a first problem file, every line of it explained, and say what was guessed."""
    from riesz.case.start.starter import write_first_problem

    guesses = write_first_problem(table, **vars(options))
    then = f"next: riesz check {shlex.quote(str(options.out))}"
    lines = [*guesses, f"written: {options.out}", then]
    return Answer({"out": str(options.out), "guesses": list(guesses)}, lines)

"""`riesz init`: a first problem file from a table and, if there is one, a polygon."""

from pathlib import Path
from typing import Annotated

import typer

from riesz.cli_options import CheckJsonOption, QuietOption, json_of
from riesz.errors import RieszError

EXAMPLE = "Example: riesz init wells.csv area.geojson --out problem.toml"


def init(
    table: Annotated[
        Path, typer.Argument(help="Measurements: .csv, .csv.gz, .gpkg.", metavar="CSV")
    ],
    polygon: Annotated[
        Path | None,
        typer.Argument(help="The outline of the domain: .geojson, .gpkg, .shp.", metavar="POLYGON"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("problem.toml"),
    x: Annotated[str | None, typer.Option("--x", help="The column of x.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="The column of y.")] = None,
    value: Annotated[str | None, typer.Option("--value", help="The column of values.")] = None,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Write a first problem file, every line of it explained, and say what was guessed."""
    if out.exists():
        raise RieszError(f"{out} is there already: choose another --out, or remove it.")
    if not out.absolute().parent.is_dir():
        raise RieszError(f"{out} cannot be written: there is no folder {out.parent}.")
    from riesz.io.problem_starter import starter
    from riesz.io.whole_file import write_bytes

    made = starter(table, polygon, out.absolute().parent, x=x, y=y, value=value)
    write_bytes(out, made.text.encode())
    if as_json:
        typer.echo(json_of({"out": str(out), "guesses": list(made.guesses)}))
    if as_json or quiet:
        return
    for guess in made.guesses:
        typer.echo(guess)
    typer.echo(f"written: {out}\nnext: riesz check {out}")

"""`riesz init`: a first problem file from a table and, if there is one, a polygon."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import CheckJsonOption, QuietOption, json_of
from riesz.errors import RieszError

EXAMPLE = (
    "Example: riesz init wells.csv area.geojson --out problem.toml; in time: riesz init heads.csv "
    "--sites wells.csv --recharge recharge.csv --wells pumping.csv"
)


def init(
    table: Annotated[
        Path, typer.Argument(help="Measurements: .csv, .csv.gz, .xlsx, .gpkg.", metavar="CSV")
    ],
    polygon: Annotated[
        Path | None,
        typer.Argument(help="The outline of the domain: .geojson, .gpkg, .shp.", metavar="POLYGON"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("problem.toml"),
    x: Annotated[str | None, typer.Option("--x", help="The column of x.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="The column of y.")] = None,
    value: Annotated[str | None, typer.Option("--value", help="The column of values.")] = None,
    crs: Annotated[
        str | None,
        typer.Option("--crs", help="The table's coordinates, such as EPSG:25832 or EPSG:4326."),
    ] = None,
    polygon_crs: Annotated[
        str | None,
        typer.Option("--polygon-crs", help="The polygon's, where its file does not say."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option("--layer", help="Which layer of a map, or sheet of a spreadsheet.")
    ] = None,
    sites: Annotated[
        Path | None, typer.Option("--sites", help="A table of where the sites of the readings are.")
    ] = None,
    site: Annotated[
        str | None,
        typer.Option("--site", help="The column of sites: readings of one become one observation."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only rows with this cell.", metavar="COLUMN=CELL"),
    ] = None,
    sites_where: Annotated[
        list[str] | None,
        typer.Option("--sites-where", help="Only such sites.", metavar="COLUMN=CELL"),
    ] = None,
    covariates: Annotated[
        str | None, typer.Option("--covariates", help="Columns measured beside it, by commas.")
    ] = None,
    recharge: Annotated[
        Path | None,
        typer.Option("--recharge", help="A dated table of recharge: for a model in time."),
    ] = None,
    wells: Annotated[
        Path | None,
        typer.Option("--wells", help="A dated table of wells and their rates: likewise."),
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Model the logarithm of the value.")] = False,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Write a first problem file, every line of it explained, and say what was guessed."""
    from riesz.case.start.starter import write_first_problem

    guesses = write_first_problem(
        table,
        polygon,
        out,
        x=x,
        y=y,
        value=value,
        crs=crs,
        polygon_crs=polygon_crs,
        layer=layer,
        sites=sites,
        site=site,
        where=conditions("--where", where or []),
        sites_where=conditions("--sites-where", sites_where or []),
        covariates=[name.strip() for name in (covariates or "").split(",") if name.strip()],
        log=log,
        recharge=recharge,
        wells=wells,
    )
    if as_json:
        typer.echo(json_of({"out": str(out), "guesses": list(guesses)}))
    if as_json or quiet:
        return
    for guess in guesses:
        typer.echo(guess)
    typer.echo(f"written: {out}\nnext: riesz check {shlex.quote(str(out))}")


def conditions(option: str, words: list[str]) -> dict[str, str]:
    """Of `column=cell`; the cell may be empty."""
    for word in words:
        if "=" not in word.removeprefix("="):
            raise RieszError(
                f"{option} is {word!r}: give a column and what its cells must hold, such as "
                "status=ok, or status= for empty cells."
            )
    pairs = [word.partition("=") for word in words]
    result = {name.strip(): cell.strip() for name, _, cell in pairs}
    if len(result) < len(words):
        raise RieszError(f"{option} names a column twice: write a list into the problem file.")
    return result

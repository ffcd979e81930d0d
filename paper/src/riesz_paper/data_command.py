"""`riesz data`: which data sets there are, and how to get them."""

from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import CheckJsonOption, json_of
from riesz.errors import RieszError

data_app = typer.Typer(
    help="List data sets, and get those that are not part of the package.",
    epilog="Example: riesz data list",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@data_app.command("list", epilog="Example: riesz data list")
def list_data(as_json: CheckJsonOption = False) -> None:
    """Say which data sets there are, whether they are here, and under which licence."""
    from riesz_paper.data.library import DATA_SETS, VARIABLE, state_of

    rows = [state_of(one) for one in DATA_SETS.values()]
    if as_json:
        typer.echo(json_of({"data_sets": rows}))
        return
    for row in rows:
        where = row["where"] or f"nowhere: set {VARIABLE} to a folder for data sets"
        state = "present" if row["present"] else "not present"
        typer.echo(f"{row['name']}: {row['about']}")
        typer.echo(f"  {row['size']}, {row['licence']}")
        typer.echo(f"  {state}, {where}")


@data_app.command("fetch", epilog="Example: riesz data fetch esrp --out data/esrp")
def fetch_data(
    name: Annotated[str, typer.Argument(help="Which data set; riesz data list names them.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The folder to make [default: $RIESZ_DATA/NAME]."),
    ] = None,
    as_json: CheckJsonOption = False,
) -> None:
    """Download a data set, check it by its hashes, clean it, and write its folder.

    It is tested with made-up files, not yet tried live.
    """
    from riesz_paper.data.library import data_folder, data_set

    if not data_set(name).marker:
        raise RieszError(f"{name} is part of the package: there is nothing to fetch.")
    if name != "esrp":
        raise RieszError(f"{name} cannot be fetched: paper/docs/data.md says where it is from.")
    folder = data_folder(name) if out is None else out
    from riesz_paper.data.esrp_download import fetch_esrp

    written = fetch_esrp(folder)
    if as_json:
        typer.echo(json_of({"name": name, "out": str(folder), "files": written}))
        return
    typer.echo(f"written: {', '.join(written)} in {folder}")

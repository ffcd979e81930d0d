"""`riesz app`: the page that a browser shows, and the server behind it."""

from pathlib import Path
from typing import Annotated

import typer

from riesz.cli import use_float64
from riesz.errors import RieszError

EXAMPLE = "Example: riesz app survey"


def register(app: typer.Typer) -> None:
    """Add the command to `riesz`."""
    app.command("app", epilog=EXAMPLE)(open_window)


def open_window(
    folder: Annotated[
        Path, typer.Argument(help="Where tables, problem files and runs lie.")
    ] = Path(),
    port: Annotated[
        int, typer.Option("--port", help="Of 127.0.0.1; 0 takes a free one.", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, or only say where it is.")
    ] = True,
    keep_fits: Annotated[
        bool, typer.Option("--keep-fits", help="Let fits go on when the window is closed.")
    ] = False,
) -> None:
    """Open a window in the browser: drop a table, press Fit, look at the map."""
    use_float64()
    try:
        from riesz_app.server import serve
    except ModuleNotFoundError as error:
        raise RieszError(
            f"the window needs {error.name}, which is not installed: pip install 'riesz[app]'."
        ) from error
    serve(folder, port, browser=browser, keep_fits=keep_fits, told=typer.echo)

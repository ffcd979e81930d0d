"""The `riesz` command.

Heavy imports happen inside the commands, so that `--help` answers at once. A `RieszError` is one
line on the error stream and exit status 2, or 1 where an engine failed; anything else is a bug and
keeps its traceback.
Other distributions add commands through the entry-point group `riesz.commands`: each entry is a
function that is given the application.
"""

import gc
import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from riesz import __version__
from riesz.cli.init import EXAMPLE as INIT_EXAMPLE
from riesz.cli.init import init
from riesz.cli.problem import check, fit_problem
from riesz.cli.runs import compare_command, next_command, predict_run, report_run
from riesz.errors import EngineError, LostProcessError, RieszError

PLUG_INS = "riesz.commands"

COLLECT_AFTER = 200_000
"""New objects after which Python looks for rubbish: a command makes many and leaves few, and a
twentieth of its time went into looking."""

app = typer.Typer(
    help="Bayesian PDE inverse problems from scattered measurements.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def tell_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"riesz {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def riesz_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Say which version this is.", callback=tell_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Bayesian PDE inverse problems from scattered measurements."""


app.command(epilog=INIT_EXAMPLE)(init)
app.command(epilog="Example: riesz check examples/transport/problem.toml --calibrate")(check)
app.command("fit", epilog="Example: riesz fit examples/aquifer/problem.toml --out out/aquifer")(
    fit_problem
)
app.command(
    "predict",
    epilog="Example: riesz predict out/aquifer --stat mean,sd --cell 1000 --out head.tif",
)(predict_run)
app.command(
    "next",
    epilog="Example: riesz next out/aquifer --for exceed:1450 --count 3 --out next.tif",
)(next_command)
app.command("report", epilog="Example: riesz report out/aquifer")(report_run)
app.command(
    "compare", epilog="Example: riesz compare out/aquifer out/uniform --out out/comparison"
)(compare_command)
for plug_in in sorted(entry_points(group=PLUG_INS), key=lambda entry: entry.name):
    plug_in.load()(app)


def main() -> None:
    """Entry point of the `riesz` command."""
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    try:
        app()
    except RieszError as error:
        typer.echo(f"riesz: {error}", err=True)
        sys.exit(1 if isinstance(error, EngineError) else 2)
    except LostProcessError as error:
        typer.echo(f"riesz: {error}", err=True)
        sys.stderr.flush()
        os._exit(1)  # JAX would wait for the others, who never come

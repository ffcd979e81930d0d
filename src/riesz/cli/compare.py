"""`riesz compare`: which of several runs to believe, and does the equation help?"""

from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import (
    CheckJsonOption,
    FitSeedOption,
    QuietOption,
    json_of,
    keep_compiled,
    use_float64,
    use_one_thread,
)

EXAMPLE = "Example: riesz compare out/aquifer out/uniform --out out/comparison"


def compare_command(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders of the same observations.", metavar="RUN..."),
    ],
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", help="So many on the map [default: 8, or fewer].", min=2),
    ] = None,
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="Fit again without a block where weights cannot leave it out [default: where "
            "that takes two minutes or less].",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for results.json, models.csv, pairs.csv and differences.png."
        ),
    ] = None,
    seed: FitSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Compare runs by what they foretell of left-out data; kriging and a plane stand beside."""
    use_one_thread()
    use_float64()
    keep_compiled()
    from riesz.case.run.comparing import compare_runs

    found = compare_runs(runs, out, blocks=blocks, refit=refit, seed=seed)
    if not quiet and not as_json:
        typer.echo(str(found))
        if out is not None:
            typer.echo(f"written: {out}")
    if as_json:
        told = {"models": found.rows(), "pairs": list(found.pairs()), "verdict": list(found.words)}
        typer.echo(json_of(told))

"""`riesz predict` and `riesz report`: files, maps and a page from the posterior of a run."""

from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import (
    CheckJsonOption,
    CovariateOption,
    QuietOption,
    json_of,
    keep_compiled,
    use_float64,
)

SHOWN_RANGES = 12

DrawsSeedOption = Annotated[
    int,
    typer.Option(
        "--seed", help="Other draws than those kept, which are computed.", min=0, max=2**63 - 1
    ),
]


def predict_run(
    run: Annotated[Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="The file: .csv, .tif, .gpkg, .nc or .vtu; .png for hydrographs."
        ),
    ],
    quantity: Annotated[
        str,
        typer.Option(
            "--quantity",
            help="measurement: what a new one would read, noise included; value: without noise; "
            "u: the state of the equation; flux; or the name of an unknown.",
        ),
    ] = "measurement",
    stat: Annotated[
        str,
        typer.Option(
            "--stat",
            help="mean, sd, median, q05 or q:0.025, exceed:VALUE; several by commas; all; or "
            "ensemble.",
        ),
    ] = "mean",
    points: Annotated[
        Path | None,
        typer.Option("--points", help="CSV of places, columns named as in the observations."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", help="So many cells along x and y, such as 80x60.")
    ] = None,
    cell: Annotated[float | None, typer.Option("--cell", help="Square cells of this size.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", help="So many [default: all that the run keeps]; more are computed.", min=2
        ),
    ] = None,
    covariate: CovariateOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Of a problem in time: a date, several by commas, or all [default: the last, or "
            "those of the points]; without places, at the observed ones.",
            metavar="DATE|all",
        ),
    ] = None,
    changes: Annotated[
        Path | None,
        typer.Option(
            "--with",
            help="What if: a TOML file of other wells, sources or boundary values.",
            metavar="CHANGES",
        ),
    ] = None,
    seed: DrawsSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Map a quantity under the posterior of a run, at points or on a grid."""
    use_float64()
    if not (at is None and changes is None):
        keep_compiled()
    from riesz.case.run.beside import covariates_in
    from riesz.case.run.predict import write_prediction

    numbers = write_prediction(
        run,
        out,
        quantity=quantity,
        stat=stat,
        points=points,
        grid=grid,
        cell=cell,
        num_draws=draws,
        seed=seed,
        covariates=covariates_in(covariate or []),
        at=at,
        changes=changes,
    )
    # Also to who wants no words: a map for other covariates than the places have would be wrong.
    if numbers["holds_for"]:
        typer.echo(f"note: {numbers['holds_for']}", err=True)
    for note in () if quiet else numbers["notes"]:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json_of(numbers))
    if as_json or quiet:
        return
    dates = len(numbers["dates"])
    where = f"{numbers['places']} places" + (f" and {dates} dates" if dates else "")
    for name, (low, high) in list(numbers["ranges"].items())[:SHOWN_RANGES]:
        typer.echo(f"{name}: {low:.6g} .. {high:.6g} at {where}")
    typer.echo(f"written: {', '.join(numbers['files'])}")


def report_run(
    run: Annotated[Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write [default: report.html in RUN].")
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", help="So many [default: all that the run keeps]; more are computed.", min=20
        ),
    ] = None,
    seed: DrawsSeedOption = 0,
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

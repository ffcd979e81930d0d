"""What `riesz predict`, `report`, `next` and `compare` make of the posteriors of runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from riesz.cli.options import (
    CheckJsonOption,
    CovariateOption,
    FitSeedOption,
    QuietOption,
    json_of,
    keep_compiled,
    use_float64,
    use_one_thread,
)

SHOWN_RANGES = 12

RunArgument = Annotated[
    Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")
]
DrawsOption = Annotated[
    int | None,
    typer.Option(
        "--draws", help="So many [default: all that the run keeps]; more are computed.", min=20
    ),
]
DrawsSeedOption = Annotated[
    int,
    typer.Option(
        "--seed", help="Other draws than those kept, which are computed.", min=0, max=2**63 - 1
    ),
]


def predict_run(
    run: RunArgument,
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
    from riesz.case.run.design import covariates_in
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
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write [default: report.html in RUN].")
    ] = None,
    draws: DrawsOption = None,
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


def next_command(
    run: RunArgument,
    quantity: Annotated[
        str,
        typer.Option(
            "--for",
            help="What is to be better known: u, the state; an unknown by its name; a line of the "
            "budget; or on which side of a value what is measured lies.",
            metavar="u|NAME|budget:TERM|exceed:VALUE",
        ),
    ] = "u",
    candidates: Annotated[
        Path | None,
        typer.Option(
            "--candidates",
            help="CSV of places, columns named as in the observations [default: all over].",
        ),
    ] = None,
    cell: Annotated[
        float | None, typer.Option("--cell", help="Candidates are square cells of this size.")
    ] = None,
    count: Annotated[int, typer.Option("--count", help="So many places, one by one.", min=1)] = 1,
    noise: Annotated[
        float | None,
        typer.Option("--noise", help="Standard deviation of the next one [default: as fitted]."),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", help="A file: .csv, .tif or .png; repeat for others."),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write the report of the run, with this in it.")
    ] = False,
    draws: DrawsOption = None,
    covariate: CovariateOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Of a problem in time: the date [default: the last, or those of the candidates].",
            metavar="DATE",
        ),
    ] = None,
    seed: DrawsSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Say where one more measurement would tell the most about a quantity, and how much."""
    use_float64()
    if at is not None or draws is not None:
        keep_compiled()
    from riesz.case.run.design import covariates_in
    from riesz.case.run.next import write_next

    told = write_next(
        run,
        quantity,
        *(out or ()),
        candidates=candidates,
        cell=cell,
        count=count,
        noise=noise,
        num_draws=draws,
        seed=seed,
        covariates=covariates_in(covariate or []),
        at=at,
        keep=report,
    )
    if report:
        from riesz.case.report.page import write_report

        told["files"].append(write_report(run)["out"])
    for note in () if quiet else told["notes"]:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json_of(told))
    elif not quiet:
        for line in next_lines(told):
            typer.echo(line)


def next_lines(told: dict[str, Any]) -> list[str]:
    """What was found, in words."""
    when = f" on {told['date']}" if told["date"] else ""
    result = [
        f"{told['words']}{when}: {told['before']:.4g}; {told['candidates']} candidates, "
        f"noise sd {told['noise_sd']:.4g}, by linear regression over {told['draws']} draws"
    ]
    for place in told["places"]:
        x, y, *date = list(place.values())[1:-4]
        where = f"({x:.10g}, {y:.10g})" + (f" on {date[0]}" if date else "")
        result.append(
            f"{place['rank']}. {where}: {100 * place['share']:.3g} % less by itself "
            f"(+- {100 * place['error']:.2g} %), {100 * place['cumulative']:.3g} % with those above"
        )
    return [*result, *([f"written: {', '.join(told['files'])}"] if told["files"] else [])]


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
    from riesz.case.run.compare import compare_runs

    result = compare_runs(runs, out, blocks=blocks, refit=refit, seed=seed)
    if not quiet and not as_json:
        typer.echo(str(result))
        if out is not None:
            typer.echo(f"written: {out}")
    if as_json:
        told = {
            "models": result.rows(),
            "pairs": list(result.pairs()),
            "verdict": list(result.words),
        }
        typer.echo(json_of(told))

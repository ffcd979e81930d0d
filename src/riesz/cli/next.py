"""`riesz next`: where one more measurement would tell the most."""

from pathlib import Path
from typing import Annotated, Any

import typer

from riesz.cli.options import (
    CheckJsonOption,
    CovariateOption,
    QuietOption,
    json_of,
    keep_compiled,
    use_float64,
)

EXAMPLE = "Example: riesz next out/aquifer --for exceed:1450 --count 3 --out next.tif"


def next_places(
    run: Annotated[Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")],
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
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", help="So many [default: all that the run keeps]; more are computed.", min=20
        ),
    ] = None,
    covariate: CovariateOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Of a problem in time: the date [default: the last, or those of the candidates].",
            metavar="DATE",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", help="Other draws than those kept, which are computed.", min=0, max=2**63 - 1
        ),
    ] = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Say where one more measurement would tell the most about a quantity, and how much."""
    use_float64()
    if at is not None or draws is not None:
        keep_compiled()
    from riesz.case.run.beside import covariates_in
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
        for line in lines_of(told):
            typer.echo(line)


def lines_of(told: dict[str, Any]) -> list[str]:
    """What was found, in words."""
    when = f" on {told['date']}" if told["date"] else ""
    found = [
        f"{told['words']}{when}: {told['before']:.4g}; {told['candidates']} candidates, "
        f"noise sd {told['noise_sd']:.4g}, by linear regression over {told['draws']} draws"
    ]
    for place in told["places"]:
        x, y, *date = list(place.values())[1:-4]
        where = f"({x:.10g}, {y:.10g})" + (f" on {date[0]}" if date else "")
        found.append(
            f"{place['rank']}. {where}: {100 * place['share']:.3g} % less by itself "
            f"(+- {100 * place['error']:.2g} %), {100 * place['cumulative']:.3g} % with those above"
        )
    return [*found, *([f"written: {', '.join(told['files'])}"] if told["files"] else [])]

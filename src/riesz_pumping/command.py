"""`riesz pumptest`: conductivity and storage of an aquifer from readings about a pumped well."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from riesz.cli import (
    CheckJsonOption,
    FitSeedOption,
    OutOption,
    QuietOption,
    json_of,
    use_float64,
    use_one_thread,
)

EXAMPLE = "Example: riesz pumptest readings.csv --rate 788 --thickness 7 --out out/pumptest"

NOMINAL = 10.0
"""Metres of thickness that priors are for, where it is not known and only T and S are told."""

HELP = "Readings, with columns time_UNIT, drawdown_UNIT or head_UNIT, r_UNIT and perhaps well."
Table = Annotated[Path, typer.Argument(help=HELP, metavar="CSV")]
Rate = Annotated[str, typer.Option(help="Water taken out: a number, or a table of time and rate.")]
RateUnit = Annotated[str, typer.Option(help="m3/d, m3/h, m3/s, l/s, l/min, gpm, ft3/s, ft3/d.")]
Thickness = Annotated[float | None, typer.Option(help="Of the aquifer, m; without it T and S.")]
Model = Annotated[Literal["confined", "leaky"], typer.Option(help="Or does water leak into it?")]
Radius = Annotated[float, typer.Option(help="Metres, of the pumped well.")]
Casing = Annotated[float, typer.Option(help="Metres, of the water that the well itself stores.")]
Wellbore = Annotated[bool, typer.Option("--wellbore", help="Find the casing's radius, too.")]
Skin = Annotated[bool, typer.Option("--skin", help="Find what resists water at the well, too.")]
Noise = Annotated[
    Literal["auto", "drift", "independent"],
    typer.Option(help="Do readings of a well share errors? By default as is more probable."),
]
Distance = Annotated[float | None, typer.Option(help="Metres from the axis, if in no column.")]
Drawdown = Annotated[str | None, typer.Option(help="The column of drawdowns.")]
TimeUnit = Annotated[str | None, typer.Option(help="s, min, h or d, if not in columns' names.")]
LengthUnit = Annotated[str | None, typer.Option(help="m, cm, mm, ft or in, likewise.")]


def register(app: typer.Typer) -> None:
    """Add the command to `riesz`."""
    app.command(epilog=EXAMPLE)(pumptest)


def pumptest(
    table: Table,
    rate: Rate,
    rate_unit: RateUnit = "m3/d",
    thickness: Thickness = None,
    model: Model = "confined",
    well_radius: Radius = 0.1,
    casing_radius: Casing = 0.0,
    wellbore: Wellbore = False,
    skin: Skin = False,
    noise: Noise = "auto",
    distance: Distance = None,
    drawdown: Drawdown = None,
    time_unit: TimeUnit = None,
    length_unit: LengthUnit = None,
    out: OutOption = Path("pumptest-output"),
    seed: FitSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Fit a pumping test: T, S, k, Ss and leakage with intervals, and what the model lacks."""
    use_one_thread()
    use_float64()
    from riesz.io import markdown_table, results
    from riesz_pumping.fit import fit_test
    from riesz_pumping.results import facts_of, parameter_rows, write_test
    from riesz_pumping.tables import rates_in, read_readings
    from riesz_pumping.well import Pumped

    command = shlex.join(["riesz", *sys.argv[1:]])
    seen, told = read_readings(
        table, level=drawdown, distance=distance, time_unit=time_unit, length_unit=length_unit
    )
    well = Pumped(
        rates=rates_in(rate, unit=rate_unit, time_unit=time_unit),
        thickness=NOMINAL if thickness is None else thickness,
        well_radius=well_radius,
        leaky=model == "leaky",
        casing_radius=casing_radius,
        stores=wellbore,
        skin=skin,
    )
    found = fit_test(well, seen, noise=noise, seed=seed)
    rows = parameter_rows(well, found, knows_thickness=thickness is not None)
    summary = facts_of(well, seen, found, rows)
    config = {"table": str(table), "rates": well.rates, "model": model, "noise": found.noise}
    write_test(out, seen, found, results(command, config, seed, rows, summary))
    if as_json:
        typer.echo(json_of({"out": str(out), "rows": rows, **summary}))
    if as_json or quiet:
        return
    lacks = summary["missing"] or ["nothing in the residuals tells of missing physics"]
    lines = [
        f"{len(seen)} readings of {len(seen.wells)} wells",
        *told,
        f"errors: {found.noise} (log-evidence "
        + ", ".join(f"{value:.1f} {kind}" for kind, value in found.log_evidence.items())
        + ")",
        f"\n{markdown_table(rows)}",
        "readings less model: rmse {rmse:.3g} m, correlation {residual_correlation:.2f} with the "
        "next".format(**summary),
        *(f"- {line}" for line in lacks),
        *(f"note: {line}" for line in summary["notes"]),
        f"written: {', '.join(sorted(path.name for path in out.iterdir()))} in {out}",
    ]
    typer.echo("\n".join(lines))

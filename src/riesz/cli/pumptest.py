"""`riesz pumptest`: conductivity and storage of an aquifer from readings about a pumped well."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from riesz.cli.options import (
    CheckJsonOption,
    FitSeedOption,
    OutOption,
    QuietOption,
    json_of,
    use_float64,
    use_one_thread,
)
from riesz.errors import RieszError

EXAMPLE = "Example: riesz pumptest readings.csv --rate 788 --thickness 7 --out out/pumptest"

NOMINAL = 10.0
"""Metres of thickness that priors are for, where it is not known and only T and S are told."""


def pumptest(
    table: Annotated[
        Path,
        typer.Argument(
            help="Readings, with columns time_UNIT, drawdown_UNIT or head_UNIT, r_UNIT and well.",
            metavar="CSV",
        ),
    ],
    rate: Annotated[
        str,
        typer.Option("--rate", help="Water taken out: a number, or a table of time and rate."),
    ],
    rate_unit: Annotated[
        str, typer.Option("--rate-unit", help="m3/d, m3/h, m3/s, l/s, l/min, gpm, ft3/s, ft3/d.")
    ] = "m3/d",
    thickness: Annotated[
        float | None, typer.Option("--thickness", help="Of the aquifer, m; without it T and S.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="confined or leaky.")] = "confined",
    well_radius: Annotated[float, typer.Option("--well-radius", help="Metres.")] = 0.1,
    casing_radius: Annotated[
        float, typer.Option("--casing-radius", help="Metres, of the water stored in the well.")
    ] = 0.0,
    wellbore: Annotated[
        bool, typer.Option("--wellbore", help="Find the casing's radius, too.")
    ] = False,
    noise: Annotated[
        str,
        typer.Option("--noise", help="drift (readings of a well share errors) or independent."),
    ] = "drift",
    distance: Annotated[
        float | None,
        typer.Option("--distance", help="Metres from the axis, where no column tells it."),
    ] = None,
    level: Annotated[
        str | None, typer.Option("--drawdown", help="The column of drawdowns.")
    ] = None,
    time_unit: Annotated[
        str | None, typer.Option("--time-unit", help="s, min, h or d, where names have none.")
    ] = None,
    length_unit: Annotated[
        str | None, typer.Option("--length-unit", help="m, cm, mm, ft or in, likewise.")
    ] = None,
    out: OutOption = Path("pumptest-output"),
    seed: FitSeedOption = 0,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Fit a pumping test: T, S, k, Ss and leakage with intervals, and what the model lacks."""
    use_one_thread()
    use_float64()
    from riesz.io.store.results import markdown_table
    from riesz.pumping.fit import NOISES, check_readings, fit_test
    from riesz.pumping.results import rows_of, summary_of, write_test
    from riesz.pumping.tables import rates_in, read_readings
    from riesz.pumping.well import Pumped

    if model not in ("confined", "leaky"):
        raise RieszError(f"--model is {model!r}: give confined or leaky.")
    if noise not in NOISES:
        raise RieszError(f"--noise is {noise!r}: give {' or '.join(NOISES)}.")
    seen, told = read_readings(
        table, level=level, distance=distance, time_unit=time_unit, length_unit=length_unit
    )
    well = Pumped(
        rates=rates_in(rate, unit=rate_unit, time_unit=time_unit),
        thickness=NOMINAL if thickness is None else thickness,
        well_radius=well_radius,
        leaky=model == "leaky",
        casing_radius=casing_radius,
        stores=wellbore,
    )
    check_readings(well, seen)
    if not (quiet or as_json):
        for line in (f"{len(seen)} readings of {len(seen.wells)} wells", *told):
            typer.echo(line)
    found = fit_test(well, seen, noise=noise, seed=seed)
    rows = rows_of(well, found, knows_thickness=thickness is not None)
    summary = summary_of(well, seen, found)
    config = {"table": str(table), "rate": rate, "rate_unit": rate_unit, "model": model}
    config |= {"thickness": thickness, "noise": noise, "wellbore": wellbore}
    command = shlex.join(["riesz", *sys.argv[1:]])
    write_test(out, seen, found, rows, summary, command=command, config=config, seed=seed)
    if as_json:
        typer.echo(json_of({"out": str(out), "rows": rows, **summary}))
    if as_json or quiet:
        return
    typer.echo(f"\n{markdown_table(rows)}")
    typer.echo(
        f"readings less model: rmse {summary['rmse']:.3g} m, correlation "
        f"{summary['residual_correlation']:.2f} with the next one"
    )
    for line in summary["missing"] or ["nothing in the residuals tells of missing physics"]:
        typer.echo(f"- {line}")
    for line in summary["notes"]:
        typer.echo(f"note: {line}")
    typer.echo(f"written: {', '.join(sorted(path.name for path in out.iterdir()))} in {out}")

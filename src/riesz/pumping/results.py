"""What a fit of a pumping test is told by: rows, tables and a figure."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.io.store.files import prepared_folder, write_bytes
from riesz.io.store.results import Row, markdown_table, results, write_results
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.checks import rms
from riesz.pumping.fit import TestFit
from riesz.pumping.residuals import correlation, missing_physics, thirds
from riesz.pumping.well import Numbers, Pumped, Readings

UNITS = {"T": "m2/d", "S": "-", "k": "m/d", "Ss": "1/m", "c": "d", "rc": "m"}
LEVELS = {"q025": 0.025, "q975": 0.975}


def derived(
    well: Pumped, found: TestFit, *, knows_thickness: bool
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Draws of what is told: T and S, and k and Ss where the thickness is known."""
    draws = found.draws
    whole = {"T": draws["k"] * well.thickness, "S": draws["Ss"] * well.thickness}
    hidden = () if knows_thickness else ("k", "Ss")
    return whole | {name: draws[name] for name in well.parameters if name not in hidden}


def parameter_row(draws: Float[np.ndarray, " draw"]) -> dict[str, float]:
    quantiles = np.quantile(draws, list(LEVELS.values()))
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)),
        **dict(zip(LEVELS, quantiles.tolist(), strict=True)),
    }


def rows_of(well: Pumped, found: TestFit, *, knows_thickness: bool) -> list[Row]:
    draws = derived(well, found, knows_thickness=knows_thickness)
    return [
        {"parameter": name, "unit": UNITS[name], **parameter_row(own)}
        for name, own in draws.items()
    ]


def summary_of(well: Pumped, seen: Readings, found: TestFit) -> dict[str, Any]:
    early, middle, end = thirds(found.residual, seen)
    return {
        "readings": len(seen),
        "wells": len(seen.wells),
        "rmse": rms(found.residual),
        "residual_correlation": correlation(found.residual, seen),
        "early_residual": early,
        "middle_residual": middle,
        "late_residual": end,
        "missing": list(missing_physics(well, seen, found.residual)),
        "notes": list(found.posterior.notes),
        "cpu_seconds": found.cpu_seconds,
    }


def write_test(
    out: Path,
    seen: Readings,
    found: TestFit,
    rows: list[Row],
    summary: Mapping[str, Any],
    *,
    command: str,
    config: Mapping[str, Any],
    seed: int,
) -> None:
    """All files of a test."""
    prepared_folder(out)
    write_results(out / "results.json", results(command, config, seed, rows, summary))
    write_bytes(out / "table.md", markdown_table(rows).encode())
    write_csv(out / "parameters.csv", rows)
    write_csv(out / "readings.csv", readings_rows(seen, found))
    figure, (above, below) = new_figure(2, width=5.0, height=3.8)
    draw_fit(above, below, seen, found.predicted, (found.low, found.high))
    above.set_ylabel("drawdown, m")
    below.set_ylabel("reading - model, m")
    save_figure(out / "fit.png", figure)


def readings_rows(seen: Readings, found: TestFit) -> list[Row]:
    names = ("r_m", "time_d", "drawdown_m", "model_m", "model_q025_m", "model_q975_m", "residual_m")
    columns = (seen.radius, seen.time, seen.level, found.predicted, found.low, found.high)
    rows = np.column_stack([*columns, found.residual])
    return [
        {"well": seen.wells[number], **dict(zip(names, row.tolist(), strict=True))}
        for number, row in zip(seen.well, rows, strict=True)
    ]


def write_csv(path: Path, rows: list[Row]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    write_bytes(path, text.getvalue().encode())


def draw_fit(
    above: Axes,
    below: Axes,
    seen: Readings,
    predicted: Numbers,
    band: tuple[Numbers, Numbers] | None = None,
) -> None:
    """Readings and a fit on logarithmic axes, and what is left over."""
    for number, (well, own) in enumerate(seen.of_wells()):
        colour, when = f"C{number % 10}", seen.time[own]
        above.plot(when, seen.level[own], ".", color=colour, label=well)
        above.plot(when, predicted[own], color=colour)
        if band is not None:
            above.fill_between(when, band[0][own], band[1][own], color=colour, alpha=0.3)
        rest = seen.level[own] - predicted[own]
        below.plot(when, rest, ".-", color=colour, linewidth=0.5)
    above.set(xscale="log", yscale="log", xlabel="days")
    below.set(xscale="log", xlabel="days")
    below.axhline(0.0, color="0.7")
    above.legend(fontsize="small")

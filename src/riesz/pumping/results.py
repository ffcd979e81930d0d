"""What a fit of a pumping test is told by: rows, tables and a figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.io.store.files import prepared_folder
from riesz.io.store.results import Row, write_csv, write_results
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.checks import rms
from riesz.pumping.fit import Fitted
from riesz.pumping.residuals import correlation, missing_physics, out_of_range, thirds
from riesz.pumping.well import Numbers, Pumped, Readings

UNITS = {"T": "m2/d", "S": "-", "k": "m/d", "Ss": "1/m", "c": "d", "rc": "m", "skin": "-"}
COLUMNS = ("r_m", "time_d", "drawdown_m", "model_m", "q025_m", "q975_m", "residual_m")


ALPHAS, LEAST_DRAWN = (0.3, 0.12), 0.01
"""Of bands in a figure, and how far below the model they are drawn at most, as a share of it."""


def parameter_row(draws: Float[np.ndarray, " draw"]) -> dict[str, float]:
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    mean, sd = float(draws.mean()), float(draws.std(ddof=1))
    return {"mean": mean, "sd": sd, "q025": low, "q975": high}


def rows_of(well: Pumped, found: Fitted, *, knows_thickness: bool) -> list[Row]:
    """T and S, and k and Ss where the thickness is known; then what else there is."""
    draws = found.draws
    told = {"T": draws["k"] * well.thickness, "S": draws["Ss"] * well.thickness}
    told |= {name: draws[name] for name in well.parameters[0 if knows_thickness else 2 :]}
    return [
        {"parameter": name, "unit": UNITS[name], **parameter_row(own)} for name, own in told.items()
    ]


def summary_of(well: Pumped, seen: Readings, found: Fitted, rows: Sequence[Row]) -> dict[str, Any]:
    means = {row["parameter"]: row["mean"] for row in rows}
    strange = out_of_range(well, seen, means)
    return {
        "noise": found.noise,
        "log_evidence": found.log_evidence,
        "readings": len(seen),
        "wells": len(seen.wells),
        "rmse": rms(found.residual),
        "residual_correlation": correlation(found.residual, seen),
        "residuals_early_middle_late": list(thirds(found.residual, seen)),
        "missing": [*strange, *missing_physics(well, seen, found.residual)],
        "notes": list(found.posterior.notes),
    }


def write_test(out: Path, seen: Readings, found: Fitted, content: Mapping[str, Any]) -> None:
    """All files of a test, the first of which holds this content."""
    prepared_folder(out)
    write_results(out / "results.json", content)
    write_csv(out / "parameters.csv", content["rows"])
    columns = (seen.radius, seen.time, seen.level, found.predicted, *found.band, found.residual)
    numbers = np.column_stack(columns).tolist()
    rows = [
        {"well": seen.wells[well], **dict(zip(COLUMNS, row, strict=True))}
        for well, row in zip(seen.well, numbers, strict=True)
    ]
    write_csv(out / "readings.csv", rows)
    figure, (above, below) = new_figure(2, width=5.0, height=3.8)
    draw_fit(above, below, seen, found.predicted, found.band, found.readings_band)
    above.set_ylabel("drawdown, m")
    below.set_ylabel("reading - model, m")
    save_figure(out / "fit.png", figure)


def draw_fit(
    above: Axes,
    below: Axes,
    seen: Readings,
    predicted: Numbers,
    *bands: tuple[Numbers, Numbers],
) -> None:
    """Readings and a fit with bands on logarithmic axes, and what is left over."""
    for number, (well, own) in enumerate(seen.of_wells()):
        colour, when = f"C{number % 10}", seen.time[own]
        above.plot(when, seen.level[own], ".", color=colour, label=well)
        above.plot(when, predicted[own], color=colour)
        least = LEAST_DRAWN * predicted[own]  # below zero a logarithmic axis has nothing
        for band, alpha in zip(bands, ALPHAS, strict=False):
            low, high = (np.maximum(one[own], least) for one in band)
            above.fill_between(when, low, high, color=colour, alpha=alpha, linewidth=0)
        below.plot(when, (seen.level - predicted)[own], ".-", color=colour, linewidth=0.5)
    above.set(xscale="log", yscale="log", xlabel="days")
    below.set(xscale="log", xlabel="days")
    below.axhline(0.0, color="0.7")
    for axes in (above, below):  # or labels lie upon each other over less than a decade
        axes.xaxis.set_minor_formatter("")
    above.legend(fontsize="small")

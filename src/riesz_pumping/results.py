"""What a fit of a pumping test is told by: rows, tables and a figure.

Residuals tell of physics that the model lacks, by a fixed rule, no test of hypotheses: readings of
each well are cut into early, middle and late ones by the logarithm of time, and what is left over
in them has a sign. An aquifer that loses less and less (leakage, a river) bends drawdowns away from
the model one way, a closed boundary the other.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.io import Row, make_folder, write_csv, write_results
from riesz.plot import new_figure, save_figure
from riesz_pumping.fit import Fitted, rms_of
from riesz_pumping.well import Numbers, Pumped, Readings

UNITS = {"T": "m2/d", "S": "-", "k": "m/d", "Ss": "1/m", "c": "d", "rc": "m", "skin": "-"}
COLUMNS = ("r_m", "time_d", "drawdown_m", "model_m", "q025_m", "q975_m", "residual_m")


ALPHAS, LEAST_DRAWN = (0.3, 0.12), 0.01
"""Of bands in a figure, and how far below the model they are drawn at most, as a share of it."""

NOTICED, FOLLOWING = 0.5, 0.3
"""A mean of a third of readings, over the root mean square of all, and the correlation of residuals
with the next ones, from which on they are not noise."""


RANGES = {
    "T": (1e-3, 1e5),  # m2/d
    "S": (1e-6, 0.5),
    "k": (1e-4, 1e4),  # m/d: from clay to gravel and karst
    "Ss": (1e-7, 0.1),  # 1/m: water in a tenth of pores has 5e-7, and a water table is no store
    "c": (1.0, 1e6),  # d
    "rc": (0.01, 10.0),  # m
}
"""What aquifers and wells have."""


def parameter_row(draws: Float[np.ndarray, " draw"]) -> dict[str, float]:
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    mean, sd = float(draws.mean()), float(draws.std(ddof=1))
    return {"mean": mean, "sd": sd, "q025": low, "q975": high}


def parameter_rows(well: Pumped, found: Fitted, *, knows_thickness: bool) -> list[Row]:
    """T and S, and k and Ss where the thickness is known; then what else there is."""
    draws = found.draws
    told = {"T": draws["k"] * well.thickness, "S": draws["Ss"] * well.thickness}
    told |= {name: draws[name] for name in well.parameters[0 if knows_thickness else 2 :]}
    return [
        {"parameter": name, "unit": UNITS[name], **parameter_row(own)} for name, own in told.items()
    ]


def facts_of(well: Pumped, seen: Readings, found: Fitted, rows: Sequence[Row]) -> dict[str, Any]:
    means = {row["parameter"]: row["mean"] for row in rows}
    strange = out_of_range(well, seen, means)
    return {
        "noise": found.noise,
        "log_evidence": found.log_evidence,
        "readings": len(seen),
        "wells": len(seen.wells),
        "rmse": rms_of(found.residual),
        "residual_correlation": correlation(found.residual, seen),
        "residuals_early_middle_late": list(thirds(found.residual, seen)),
        "missing": [*strange, *missing_physics(well, seen, found.residual)],
        "notes": list(map(str, found.posterior.notes)),
    }


def write_test(out: Path, seen: Readings, found: Fitted, content: Mapping[str, Any]) -> None:
    """All files of a test, the first of which holds this content."""
    make_folder(out)
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


def correlation(residual: Numbers, seen: Readings) -> float:
    """Of residuals with those that come next in the same well: near zero where errors are noise."""
    products, squares = 0.0, 0.0
    for _, own in seen.of_wells():
        first, later = residual[own[:-1]], residual[own[1:]]
        products += float(later @ first)
        squares += float(later @ later + first @ first) / 2
    return products / squares if squares else 0.0


def thirds(residual: Numbers, seen: Readings) -> tuple[float, float, float]:
    """Mean residuals of early, middle and late readings, over the root mean square of all."""
    parts: tuple[list[float], ...] = ([], [], [])
    for _, own in seen.of_wells():
        logs = np.log(seen.time[own])
        share = (logs - logs[0]) / max(logs[-1] - logs[0], np.finfo(float).tiny)
        for part, rest in zip((3 * share).clip(0, 2), residual[own], strict=True):
            parts[int(part)].append(float(rest))
    size = max(rms_of(residual), np.finfo(float).tiny)
    early, middle, end = (float(np.mean(part)) / size if part else 0.0 for part in parts)
    return early, middle, end


def missing_physics(well: Pumped, seen: Readings, residual: Numbers) -> tuple[str, ...]:
    """What the model may lack, in words, with what in the residuals says so."""
    found = [between_wells(well, seen, residual), odd_well(seen, residual)]
    if correlation(residual, seen) > FOLLOWING:
        found.insert(0, time_pattern(well, *thirds(residual, seen)))
    return tuple(one for one in found if one)


def time_pattern(well: Pumped, early: float, middle: float, late: float) -> str:
    """Bent residuals: less drawdown than the model at both ends and more between, or reversed."""
    bend = middle - (early + late) / 2
    if max(abs(early), abs(middle), abs(late)) < NOTICED:
        return "residuals of a well follow each other, but neither early nor late ones stand out"
    if bend > 0 and late <= early:
        more = "a river or lake nearby" if well.leaky else "leakage, or a river or lake nearby"
        return f"late drawdowns flatten more than the model's: {more}"
    if bend > 0:
        more = "" if well.stores or well.casing_radius else "water stored in the well, "
        more += "" if well.skin else "skin about it, "
        return f"early drawdowns lag behind the model's: {more}or a slow pump".replace(": or", ":")
    if abs(late) >= abs(early):
        return "late drawdowns exceed the model's: a boundary without flow, or another well"
    return (
        "early drawdowns exceed the model's, later ones lag: delayed yield of a water table, or a "
        "screen in a part of the thickness only"
    )


def out_of_range(well: Pumped, seen: Readings, means: Mapping[str, float]) -> tuple[str, ...]:
    """Values that no aquifer has: something else has been taken for them."""
    cause = "a wrong distance, rate or unit, or physics that the model lacks"
    if well.inside(seen.radius).any() and not well.skin:
        cause = "resistance to what enters the pumped well (--skin), or else a wrong rate or unit"
    return tuple(
        f"{name} is {means[name]:.2g}, and aquifers have {low:g} to {high:g}: {cause}"
        for name, (low, high) in RANGES.items()
        if name in means and not low <= means[name] <= high
    )


def between_wells(well: Pumped, seen: Readings, residual: Numbers) -> str:
    """Whether near and far wells want different values."""
    size = max(rms_of(residual), np.finfo(float).tiny)
    each = sorted((seen.radius[own[0]], residual[own].mean() / size) for _, own in seen.of_wells())
    near, far = each[0][1], each[-1][1]
    if near * far >= 0 or min(abs(near), abs(far)) < NOTICED:
        return ""
    more = "a screen in a part of the thickness only, or " if near > 0 else ""
    if near > 0 and well.inside(seen.radius).any() and not well.skin:
        more = "resistance to what enters the pumped well (--skin), " + more
    falls = "more" if near > 0 else "less"
    return f"near wells fall {falls} than the model has them: {more}an aquifer that is not uniform"


def odd_well(seen: Readings, residual: Numbers) -> str:
    """The one well of several that is off throughout, if there is one."""
    means = {name: residual[own].mean() for name, own in seen.of_wells()}
    odd = [name for name, mean in means.items() if abs(mean) > rms_of(residual) > 0]
    if len(odd) != 1 or len(means) < 3:
        return ""
    off = f"readings of {odd[0]} are off by {means[odd[0]]:.2g} m in the mean"
    return f"{off}: its level or distance, or an aquifer that is not uniform"

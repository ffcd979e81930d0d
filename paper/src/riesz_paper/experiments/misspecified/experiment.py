"""Misspecified physics: data from an equation with a term that the model lacks.

Exact fits trust the model; `relaxed` doubts it, by a fixed `epsilon_rel` or by the one that makes
the data most likely; the oracle has the true equation. All are scored alike: the noise-free field
at validation points, and the strengths of the districts.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from matplotlib.axes import Axes

from riesz.fem.elements.space import PointOperator, point_operator
from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior
from riesz.prediction.sampling import quantity_draws
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.misspecified.data import (
    EDDY_SD,
    EDDY_SIZE,
    NUM_SENSORS,
    NUM_VALIDATION,
    RELATIVE_NOISE,
    STRENGTH_SD,
    data_set,
)
from riesz_paper.experiments.misspecified.methods import METHODS
from riesz_paper.experiments.transport.methods import timed
from riesz_paper.running.scores import TAILS, crps, share_inside
from riesz_paper.running.task import Experiment, Task

EXACT, ORACLE = "laplace", "oracle"
NUM_DRAWS = 400
NUM_DATA = {
    "quick": {"laplace": 3, "oracle": 3, "relax-learned": 3},
    "smoke": {name: 1 for name in METHODS if name not in ("relax-0.3", "relax-3")},
    "full": {
        **dict.fromkeys(("laplace", "oracle", "relax-learned", "relax-learned-white"), 50),
        **dict.fromkeys(("relax-0.3", "relax-1", "relax-3"), 20),
        "nuts": 5,
        "oracle-weighed": 20,
        "emulate": 3,
        "relax-learned-network": 2,
    },
}
"""Data sets of each method; slow ones, which only confirm others, get few."""

COLOURS = {"laplace": "tab:red", "oracle": "tab:blue", "relax-learned": "black"}
"""Of the methods that are drawn against the strength of the eddy."""
BAND = (0.90, 0.99)
"""Where the coverage of intervals for 95 % should be."""
WIDTHS = (1, 1.5, 2, 3, 5)


class FieldAndStrengths(eqx.Module):
    """The state at some points, and the strengths of the districts."""

    operator: PointOperator

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> dict[str, Array]:
        return {"u": self.operator @ state, "f": z["f"]}


def misspecified(seed: int, mode: str) -> Experiment:
    """One row a method and data set."""
    tasks = [
        Task({"method": method, "replicate": k}, partial(row, method, seed, k))
        for method, count in NUM_DATA[mode].items()
        for k in range(count)
    ]
    config = {
        "mode": mode,
        "num_sensors": NUM_SENSORS,
        "num_validation": NUM_VALIDATION,
        "num_draws": NUM_DRAWS,
        "relative_noise": RELATIVE_NOISE,
        "strength_sd": STRENGTH_SD,
        "eddy_sd": EDDY_SD,
        "eddy_size": EDDY_SIZE,
    }
    return Experiment("misspecified", config, tasks, summarise, draw)


def row(method: str, seed: int, replicate: int) -> Row:
    data = data_set(seed, replicate)
    fit_seed = int(np.random.default_rng([seed, replicate, 1]).integers(2**31))
    posterior, taken = timed(lambda: jax.block_until_ready(METHODS[method](data, fit_seed)))
    where = point_operator(posterior.problem.forward.space, data.validation_points)
    draws = quantity_draws(posterior, FieldAndStrengths(where), num_draws=NUM_DRAWS, seed=fit_seed)
    return {
        **scores(draws["u"], data.validation_values, draws["f"], data.strengths),
        "epsilon_rel": last_of(posterior, "epsilon_rel"),
        "effective_draws": fewest_of(posterior, "effective_draws"),
        "eddy": data.turning,
        "noise_sd": data.noise_sd,
        "seconds": taken.seconds,
        "cpu_seconds": taken.cpu_seconds,
    }


def last_of(posterior: Posterior, name: str) -> float | None:
    curve = posterior.history.get(name)
    return None if curve is None else float(curve[-1])


def fewest_of(posterior: Posterior, name: str) -> float | None:
    counts = posterior.history.get(name)
    return None if counts is None else float(np.min(counts))


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Means over data sets; ratios are those of means over the data sets that both have, unless
    they are told to be taken one by one."""
    summary: dict[str, Any] = {"rows": len(rows)}
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [r for r in rows if r["method"] == method]
        summary |= {
            f"{method}: data sets": len(own),
            f"{method}: field coverage": mean_of(own, "field_coverage95"),
            f"{method}: parameter coverage": mean_of(own, "parameter_coverage95"),
            f"{method}: field CRPS": mean_of(own, "field_crps"),
            f"{method}: mean width": mean_of(own, "mean_width"),
            f"{method}: CRPS / exact": ratio(rows, method, EXACT, "field_crps"),
            f"{method}: width / oracle": ratio(rows, method, ORACLE, "mean_width"),
            f"{method}: width / oracle, one by one": mean_ratio(own, rows, ORACLE, "mean_width"),
            f"{method}: median CPU seconds": float(np.median([r["cpu_seconds"] for r in own])),
        }
        found = [r["epsilon_rel"] for r in own if r["epsilon_rel"] is not None]
        if found:
            summary[f"{method}: median epsilon_rel"] = float(np.median(found))
    return summary


def mean_of(rows: Sequence[Row], measure: str) -> float:
    return float(np.mean([r[measure] for r in rows]))


def ratio(rows: Sequence[Row], method: str, other: str, measure: str) -> float | None:
    """Of two methods' means over the data sets that both were run on."""
    by_replicate = [
        {r["replicate"]: r[measure] for r in rows if r["method"] == name}
        for name in (method, other)
    ]
    both = by_replicate[0].keys() & by_replicate[1].keys()
    if not both:
        return None
    means = [np.mean([one[k] for k in both]) for one in by_replicate]
    return float(means[0] / means[1])


def mean_ratio(own: Sequence[Row], rows: Sequence[Row], other: str, measure: str) -> float | None:
    """The mean of the ratios on single data sets, which weighs all of them alike."""
    found = relative(own, rows, measure, other)
    return mean_of(found, measure) if found else None


def draw(rows: Sequence[Row], out: Path) -> None:
    draw_scores(rows, out / "scores.png")


def scores(
    field: Float[np.ndarray, "draw point"],
    true_field: Float[np.ndarray, " point"],
    parameters: Float[np.ndarray, "draw parameter"],
    true_parameters: Float[np.ndarray, " parameter"],
) -> Row:
    """Shares of points and of parameters inside their 95 % intervals, CRPS and width of the field.

    CRPS and width are means over the points, in the unit of the field.
    """
    low, high = np.quantile(field, TAILS, axis=0)
    return {
        "field_coverage95": share_inside(field, true_field),
        "parameter_coverage95": share_inside(parameters, true_parameters),
        "field_crps": float(np.mean(crps(field, true_field))),
        "mean_width": float(np.mean(high - low)),
    }


def relative(rows: Sequence[Row], among: Sequence[Row], measure: str, to: str) -> list[Row]:
    """Rows with a measure divided by that of another method on the same data set, if it has one."""
    units = {r["replicate"]: r[measure] for r in among if r["method"] == to}
    return [
        {**r, measure: r[measure] / units[r["replicate"]]} for r in rows if r["replicate"] in units
    ]


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """Above one dot a data set and the mean of each method, below against the missing term."""
    figure, (coverage, width, by_eddy, doubt) = new_figure(2, 2, width=5.4, height=3.8)
    by_method(coverage, rows, "field_coverage95")
    coverage.set(xlabel="field inside 95 % intervals", xlim=(None, 1.02))
    by_method(width, relative(rows, rows, "mean_width", "oracle"), "mean_width")
    width.axvline(1.5, color="grey", linestyle=":")
    width.set(xlabel="width of intervals / the oracle's", xscale="log")
    width.set_xticks(WIDTHS, [f"{one:g}" for one in WIDTHS])
    width.minorticks_off()
    for axes in (coverage, by_eddy):
        band = axes.axvspan if axes is coverage else axes.axhspan
        band(*BAND, color="0.9", zorder=0)
    for method, colour in COLOURS.items():
        own = [r for r in rows if r["method"] == method]
        strengths = [abs(r["eddy"]) for r in own]
        by_eddy.scatter(
            strengths, [r["field_coverage95"] for r in own], s=12, color=colour, label=method
        )
    by_eddy.set(xlabel="strength of the missing eddy", ylabel="field inside 95 % intervals")
    by_eddy.legend()
    learned = [r for r in rows if r["method"] == "relax-learned"]
    doubt.scatter(
        [abs(r["eddy"]) for r in learned], [r["epsilon_rel"] for r in learned], s=12, color="black"
    )
    doubt.set(xlabel="strength of the missing eddy", ylabel="learned epsilon_rel")
    save_figure(path, figure)


def by_method(axes: Axes, rows: Sequence[Row], measure: str) -> None:
    """A line for each method, the first on top."""
    methods = list(dict.fromkeys(r["method"] for r in rows))
    for place, method in enumerate(methods):
        values = [r[measure] for r in rows if r["method"] == method]
        axes.scatter(values, np.full(len(values), place), s=8, color="0.6")
        axes.scatter(np.mean(values), place, s=40, marker="D", color="black")
    axes.set_yticks(range(len(methods)), methods)
    axes.invert_yaxis()

"""Posteriors in pictures: maps, hydrographs, pairs of unknowns, and ranks of a calibration."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from riesz.diagnose.calibration import Calibration
from riesz.errors import RieszError
from riesz.mesh.mesh import Mesh
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure
from riesz.posterior.posterior import Posterior, is_field
from riesz.prediction.statistics import Prediction

Draws = Float[np.ndarray, " draw"]

MOST_PAIRS = 8
"""Panels would be too small beyond so many unknowns."""

MOST_PANELS = 12
PROBABILITY = 0.95


def draw_mean_and_sd(
    mean_axes: Axes, sd_axes: Axes, mesh: Mesh, prediction: Prediction, *, label: str = ""
) -> None:
    """Draw the mean and the standard deviation of a field predicted at all nodes or cells."""
    draw_field(mean_axes, mesh, prediction.mean, label=f"{label} mean".strip())
    draw_field(sd_axes, mesh, prediction.sd, label=f"{label} sd".strip(), cmap="magma")


def pairs_figure(
    posterior: Posterior,
    names: Sequence[str] | None = None,
    *,
    truth: Mapping[str, ArrayLike] | None = None,
    num_draws: int = 1000,
    seed: int = 0,
) -> Figure:
    """All pairs of numbers among the unknowns in their units; the truth, where known, in red."""
    columns = numbers(posterior, names, num_draws, seed)
    marks: dict[str, float] = {}
    for name, values in (truth or {}).items():
        marks |= label_parts(name, np.ravel(np.asarray(values, dtype=float)))
    labels = list(columns)
    if not 0 < len(labels) <= MOST_PAIRS:
        raise RieszError(
            f"there are {len(labels)} numbers to pair: choose 1 to {MOST_PAIRS} by names=[...]."
        )
    figure, axes = new_figure(len(labels), len(labels), width=1.8, height=1.7)
    for panel, (row, column) in zip(axes, np.ndindex(len(labels), len(labels)), strict=True):
        x, y = labels[column], labels[row]
        if column > row:
            panel.set_axis_off()
        elif column == row:
            draw_histogram(panel, columns[x], marks.get(x))
        else:
            draw_pair(panel, columns[x], columns[y], marks.get(x), marks.get(y))
        if row == len(labels) - 1:
            panel.set_xlabel(x)
        if column == 0 < row:
            panel.set_ylabel(y)
    return figure


def numbers(
    posterior: Posterior, names: Sequence[str] | None, num_draws: int, seed: int
) -> dict[str, Draws]:
    """Draws of each number; components of vectors are told apart by their index."""
    latents = posterior.problem.latents
    if names is None:
        names = [name for name in latents.names if not is_field(posterior.problem, name)]
    columns = {}
    for name in names:
        values = np.asarray(posterior.values(name, num_draws=num_draws, seed=seed))
        columns |= label_parts(name, values.reshape(len(values), -1).T)
    return columns


def label_parts(name: str, parts: np.ndarray) -> dict[str, Any]:
    if len(parts) == 1:
        return {name: parts[0]}
    return {f"{name}[{i}]": part for i, part in enumerate(parts)}


def draw_histogram(axes: Axes, values: Draws, truth: float | None) -> None:
    axes.hist(values, bins=30, density=True, color="0.7")
    axes.set_yticks([])
    if truth is not None:
        axes.axvline(truth, color="tab:red")


def draw_pair(axes: Axes, x: Draws, y: Draws, true_x: float | None, true_y: float | None) -> None:
    axes.plot(x, y, ".", color="0.4", markersize=2, alpha=0.4)
    if true_x is not None and true_y is not None:
        axes.plot([true_x], [true_y], "+", color="tab:red", markersize=10, markeredgewidth=2)


def ranks_figure(calibration: Calibration) -> Figure:
    """A histogram for each unknown number of a simulation-based calibration.

    Uniform ranks stay in the grey band, 19 times in 20.
    """
    names = calibration.names[:MOST_PANELS]
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure, panels = new_figure(columns, rows, width=3.2, height=2.4)
    bins = calibration.histograms.shape[1]
    low, high = scipy.stats.binom.interval(PROBABILITY, calibration.num_data_sets, 1 / bins)
    edges = np.linspace(0, 1, bins + 1)
    for panel, name, counts, p in zip(
        panels, names, calibration.histograms, calibration.p_values, strict=False
    ):
        panel.axhspan(low, high, color="0.85")
        panel.stairs(counts, edges, fill=True, alpha=0.7)
        panel.set_title(f"{name}, p = {p:.2g}", fontsize=9)
        panel.set_xlabel("rank of the truth")
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    return figure


def draw_hydrograph(
    axes: Axes,
    times: Shaped[np.ndarray, " time"],
    mean: Float[np.ndarray, " time"],
    ends: tuple[Float[np.ndarray, " time"], Float[np.ndarray, " time"]],
    *,
    read: tuple[Shaped[np.ndarray, " reading"], Float[np.ndarray, " reading"]] | None = None,
    **settings: Any,
) -> None:
    """What was predicted at a place in time, a line in its interval; readings, their times and
    values, are dots."""
    axes.fill_between(times, *ends, color="tab:blue", alpha=0.25, linewidth=0)
    axes.plot(times, mean, **{"color": "tab:blue", "linewidth": 1.2} | settings)
    if read is not None:
        axes.plot(*read, ".", color="0.15", markersize=3)
    if np.asarray(times).dtype.kind == "M":
        locator = AutoDateLocator(maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.margins(x=0.01)

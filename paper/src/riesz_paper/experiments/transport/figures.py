"""Figures of the transport experiment: accuracy and run time against the size of the mesh."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure

STYLES: Mapping[str, tuple[str, str, str]] = {  # colour, marker, line
    "emulate": ("black", "o", "-"),
    "emulate-hard-taper-32": ("tab:orange", "v", "-"),
    "emulate-hard-taper-64": ("tab:orange", "s", "--"),
    "emulate-hard-taper-128": ("tab:orange", "^", ":"),
    "relax-hard-taper-32": ("tab:red", "v", "-"),
    "relax-hard-taper-64": ("tab:red", "s", "--"),
    "relax-hard-taper-128": ("tab:red", "^", ":"),
    "pinn": ("tab:purple", "D", "-"),
    "nuts-dense": ("tab:green", "s", "--"),
    "nuts-sparse": ("tab:green", "o", "-"),
    "quadrature": ("tab:blue", ".", "-"),
}
FLOOR = 1e-3
"""Errors below are drawn here: log axes have no zero."""


def medians(
    rows: Sequence[Row], method: str, measure: str
) -> tuple[list[int], list[float], list[bool]]:
    """Nodes, medians over replicates on the square, and whether they are extrapolated."""
    here = [
        r
        for r in rows
        if r["method"] == method and r["domain"] == "square" and r[measure] is not None
    ]
    nodes = sorted({r["nodes"] for r in here})
    values = [float(np.median([r[measure] for r in here if r["nodes"] == n])) for n in nodes]
    guessed = [any(r["extrapolated"] for r in here if r["nodes"] == n) for n in nodes]
    return nodes, values, guessed


def growth_exponents(rows: Sequence[Row]) -> dict[str, float]:
    """The slope of measured CPU seconds against nodes, both in logarithms."""
    exponents = {}
    for method in STYLES:
        nodes, costs, guessed = medians(rows, method, "cpu_seconds")
        measured = ~np.asarray(guessed, dtype=bool)
        if measured.sum() > 1:
            x, y = np.log(np.asarray(nodes)[measured]), np.log(np.asarray(costs)[measured])
            exponents[method] = float(np.polyfit(x, y, deg=1)[0])
    return exponents


def draw_accuracy(rows: Sequence[Row], path: Path) -> None:
    """Error of the mean, of the spread, and of the field (the paper's score)."""
    departures = [
        {**r, "sd_error": None if r["sd_ratio"] is None else abs(np.log(r["sd_ratio"]))}
        for r in rows
    ]
    panels = {
        "mean_error_sd": "error of the mean / exact sd",
        "sd_error": "|log(sd / exact sd)|",
        "field_mae": "mean absolute error of the field",
    }
    figure, axes = new_figure(len(panels), width=4.2, height=4.0)
    for one, (measure, label) in zip(axes, panels.items(), strict=True):
        draw_methods(one, departures, measure, {})
        one.set(ylabel=label)
    finish(figure, axes, path)


def draw_cost(rows: Sequence[Row], path: Path) -> None:
    """CPU seconds after compilation, with the exponents that were fitted."""
    figure, (left, right) = new_figure(2, width=4.6, height=4.2)
    labels = {m: f"{m}: $N^{{{e:.2f}}}$" for m, e in growth_exponents(rows).items()}
    draw_methods(left, rows, "cpu_seconds", labels)
    left.set(ylabel="CPU seconds after compilation (open: extrapolated)")
    draw_methods(right, rows, "seconds", labels)
    right.set(ylabel="seconds after compilation")
    finish(figure, [left, right], path)


def draw_methods(axes: Axes, rows: Sequence[Row], measure: str, labels: Mapping[str, str]) -> None:
    for method, (colour, marker, line) in STYLES.items():
        nodes, values, guessed = medians(rows, method, measure)
        if not nodes:
            continue
        values = np.maximum(values, FLOOR) if measure.endswith(("_sd", "_error")) else values
        label = labels.get(method, method)
        axes.plot(nodes, values, color=colour, linestyle=line, label=label, linewidth=1)
        for n, value, open_marker in zip(nodes, values, guessed, strict=True):
            face = "none" if open_marker else colour
            axes.plot(n, value, marker=marker, color=colour, markerfacecolor=face, markersize=5)
    axes.set(xscale="log", yscale="log", xlabel="nodes")


def finish(figure, axes: Sequence[Axes], path: Path) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=7)
    save_figure(path, figure)

"""The figure of the demo: samples, a map with its uncertainty, and samples that were held back."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

import riesz as rz
from riesz.demo.scores import LogNormal

GUIDE_VALUE = 0.8
"""mg/kg: of cadmium in soil, in Switzerland."""

LABEL = "cadmium, mg/kg"
TICKS = (0.2, 0.5, 1, 2, 5)


def draw_demo(
    path: Path,
    run: rz.Run,
    on_map: Float[np.ndarray, "3 node"],
    truth: Float[np.ndarray, " sample"],
    predicted: Mapping[str, LogNormal],
) -> None:
    """Six panels; samples and mean share one colour scale."""
    figure, panels = rz.plot.new_figure(3, 2, width=4.4, height=4.7)
    seen, mean, sd, risk, *others = panels
    mesh, known = run.posterior.problem.forward.space.mesh, run.case.prepared
    measured = np.exp(known.values)
    # A quantile, since a few high values would leave the rest in one colour.
    scale = {"vmin": 0.0, "vmax": float(np.quantile(measured, 0.95))}
    rz.plot.draw_mesh(seen, mesh, color="0.85")
    dots = seen.scatter(*known.points.T, c=measured, s=14, zorder=3, **scale)
    figure.colorbar(dots, ax=seen, label=LABEL, location="bottom", shrink=0.8)
    rz.plot.draw_field(mean, mesh, on_map[0], label=LABEL, **scale)
    rz.plot.draw_field(sd, mesh, on_map[1], label=LABEL, cmap="magma", vmin=0)
    rz.plot.draw_field(risk, mesh, on_map[2], label="probability", cmap="cividis", vmin=0, vmax=1)
    titles = (
        f"{len(measured)} samples",
        "mean of a new sample",
        "its standard deviation",
        f"risk of more than {GUIDE_VALUE:g} mg/kg",
    )
    for axes, title in zip((seen, mean, sd, risk), titles, strict=True):
        axes.set(title=title, xlabel="x, km", ylabel="y, km")
    for axes, (knows, one) in zip(others, predicted.items(), strict=True):
        draw_held_back(axes, truth, one)
        axes.set_title(f"{len(truth)} held back, by {knows}")
    rz.plot.save_figure(path, figure)


def draw_held_back(axes: Axes, truth: Float[np.ndarray, " sample"], predicted: LogNormal) -> None:
    """Medians and 95 % intervals over what was measured; misses in red."""
    low, median, high = (predicted.quantile(normal) for normal in (-1.96, 0.0, 1.96))
    missed = (truth < low) | (truth > high)
    for chosen, colour in ((~missed, "tab:blue"), (missed, "tab:red")):
        bars = [(median - low)[chosen], (high - median)[chosen]]
        axes.errorbar(
            *(truth[chosen], median[chosen], bars),
            fmt="o", markersize=3, linewidth=0.8, color=colour,
        )  # fmt: skip
    axes.axline((1, 1), (2, 2), color="black", linewidth=0.6)
    axes.set(xscale="log", yscale="log", xlabel="measured, mg/kg", ylabel="predicted, mg/kg")
    axes.set(xlim=(0.1, 10), ylim=(0.1, 10), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axis.set_ticks([], minor=True)

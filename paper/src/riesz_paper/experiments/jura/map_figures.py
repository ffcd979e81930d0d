"""Figures of metal maps: concentration, its uncertainty, risk, and the physical field."""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import LogLocator, NullFormatter

from riesz.datasets.jura import Samples
from riesz.plot.fields import draw_field, draw_outline
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.jura.cases import mesh_around
from riesz_paper.experiments.jura.map import CELL, MetalMap

NAMES = {"Cd": "cadmium", "Cu": "copper", "Pb": "lead", "Co": "cobalt"}


def draw_map(samples: Samples, found: MetalMap, path: Path) -> None:
    """Six panels; samples and mean share one colour scale."""
    figure, panels = new_figure(3, 2, width=4.4, height=4.9)
    seen, mean, sd, risk, field, factor = panels
    measured = samples.of((found.metal,))[:, 0]
    name = NAMES[found.metal]
    # Quantiles, since a few high values would leave the rest in one colour.
    low, high = np.quantile(np.concatenate([measured, found.mean]), (0.02, 0.98))
    scale = LogNorm(low, high)
    dots = seen.scatter(
        *samples.points.T, c=measured, norm=scale, s=14, edgecolors="0.3", linewidths=0.3
    )
    bar = figure.colorbar(dots, ax=seen, label=f"{name}, mg/kg", location="bottom", shrink=0.8)
    plain_ticks(bar)
    draw_outline(seen, mesh_around(samples))
    seen.set_title(f"{len(samples)} samples")
    cells(mean, found, found.mean, scale, "viridis", f"{name}, mg/kg")
    mean.set_title("mean of a new measurement")
    cells(sd, found, found.sd, Normalize(0, np.quantile(found.sd, 0.98)), "magma", "sd, mg/kg")
    sd.set_title("its standard deviation")
    label = f"probability of more than {found.threshold:g} mg/kg"
    cells(risk, found, found.exceeds, Normalize(0, 1), "cividis", label)
    risk.set_title("risk")
    reach = float(np.abs(found.field).max())
    draw_field(
        field,
        mesh_around(samples),
        found.field,
        label="effect on the logarithm of concentration",
        cmap="RdBu_r",
        vmin=-reach,
        vmax=reach,
    )
    field.set_title("physical field: spreads and decays")
    factor.hist(np.exp(found.field), bins=30, color="0.5")
    factor.set(
        title="what the field does",
        xlabel="factor on concentration",
        ylabel="nodes of the mesh",
    )
    for axes in (seen, mean, sd, risk, field):
        axes.set(xlabel="x, km", ylabel="y, km")
    save_figure(path, figure)


def cells(
    axes: Axes,
    found: MetalMap,
    values: Float[np.ndarray, " place"],
    scale: Normalize,
    colours: str,
    label: str,
) -> None:
    """Square cells around the places, empty where there is none."""
    first = found.points.min(axis=0)
    steps = np.rint((found.points - first) / CELL).astype(int)
    raster = np.full(steps.max(axis=0)[::-1] + 1, np.nan)
    raster[steps[:, 1], steps[:, 0]] = values
    low, high = first - CELL / 2, found.points.max(axis=0) + CELL / 2
    picture = axes.imshow(
        raster,
        origin="lower",
        extent=(low[0], high[0], low[1], high[1]),
        norm=scale,
        cmap=colours,
        interpolation="nearest",
    )
    bar = axes.figure.colorbar(picture, ax=axes, label=label, location="bottom", shrink=0.8)
    if isinstance(scale, LogNorm):
        plain_ticks(bar)


def plain_ticks(bar: Colorbar) -> None:
    """Numbers on a logarithmic scale as people write them, not as powers of ten."""
    bar.ax.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    bar.ax.xaxis.set_major_formatter("{x:g}")
    bar.ax.xaxis.set_minor_formatter(NullFormatter())

"""The field that was found beside the true one, and errors of all sets."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.io.store.results import Row
from riesz.mesh.mesh import Mesh
from riesz.plot.fields import triangulation
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.data.hanford import Site
from riesz_paper.experiments.hanford.flow import site_mesh
from riesz_paper.running.comparison import COLOURS, grouped


def draw_maps(site: Site, row: Row, path: Path) -> None:
    """Truth, mean, what is between them, and the standard deviation that was told."""
    mesh, truth = site_mesh(site), site.log_transmissivity
    mean, sd = np.array(row["log_mean"]), np.array(row["log_sd"])
    low, high, far = truth.min(), truth.max(), np.abs(mean - truth).max()
    figure, axes = new_figure(4, 1, width=3.6, height=4.2)
    known = site.centroids[site.known_cells(row["values"], row["replicate"])]
    draw_cells(axes[0], mesh, truth, "log T: truth, known values", vmin=low, vmax=high)
    axes[0].plot(*known.T, "k.", markersize=2)
    draw_cells(axes[1], mesh, mean, "log T: mean, wells", vmin=low, vmax=high)
    axes[1].plot(*site.centroids[site.wells].T, "k.", markersize=1)
    draw_cells(axes[2], mesh, mean - truth, "mean - truth", vmin=-far, vmax=far, cmap="RdBu_r")
    draw_cells(axes[3], mesh, sd, "standard deviation", vmin=0.0)
    save_figure(path, figure)


def draw_cells(
    axes: Axes, mesh: Mesh, values: Float[np.ndarray, " cell"], title: str, **settings
) -> None:
    picture = axes.tripcolor(triangulation(mesh), facecolors=np.repeat(values, 2), **settings)
    axes.set_title(title)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.figure.colorbar(picture, ax=axes, location="bottom", shrink=0.8)


def draw_errors(rows: Sequence[Row], path: Path) -> None:
    """One line a case and method, one dot a set; to the right how many cells intervals hold."""
    cases = list(grouped(rows, ("mesh", "data", "values", "method")).items())
    figure, (errors, coverages) = new_figure(2, 1, width=4.5, height=1.0 + 0.3 * len(cases))
    for place, (_, own) in enumerate(cases):
        colour = COLOURS[own[0]["role"]]
        for axes, name in ((errors, "e7"), (coverages, "coverage95")):
            told = [row[name] for row in own if row.get(name) is not None]
            axes.scatter(told, [place] * len(told), s=10, color=colour, alpha=0.6)
            if told:
                axes.plot(np.mean(told), place, "D", color=colour)
    names = [f"{mesh} {data} {values}: {method}" for (mesh, data, values, method), _ in cases]
    errors.set_yticks(range(len(cases)), names, fontsize="small")
    coverages.set_yticks([])
    coverages.axvline(0.95, color="0.7")
    for axes, label in ((errors, "|m - Y| / |Y - 7|"), (coverages, "cells in 95 % intervals")):
        axes.set_xlabel(label)
        axes.set_ylim(len(cases) - 0.5, -0.5)
    save_figure(path, figure)

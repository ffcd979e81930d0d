"""Maps of the blocks: the truth, and means and standard deviations by each method."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.blocks.problem import NUM_BLOCKS, PRIOR_SD, sensors, true_diffusivity


def draw_moments(rows: Sequence[Row], path: Path) -> None:
    """Means above, standard deviations below; the prior's stands below the truth."""
    figure, axes = new_figure(len(rows) + 1, 2, width=3.4, height=3.4)
    above, below = axes[: len(rows) + 1], axes[len(rows) + 1 :]
    means = [("truth", np.log(true_diffusivity()).ravel())]
    means += [(f"mean, {row['method']}", np.array(row["log_mean"])) for row in rows]
    spreads = [("sd, prior", np.full(NUM_BLOCKS**2, PRIOR_SD))]
    spreads += [(f"sd, {row['method']}", np.array(row["log_sd"])) for row in rows]
    for panel, (title, values) in zip(above, means, strict=True):
        draw_blocks(panel, title, values, -3.0, 3.0, "RdBu_r")
    for panel, (title, values) in zip(below, spreads, strict=True):
        draw_blocks(panel, title, values, 0.0, 2.5, "viridis")
    above[0].plot(*sensors().T, "k.", markersize=2)
    save_figure(path, figure)


def draw_blocks(
    axes: Axes,
    title: str,
    values: Float[np.ndarray, " block"],
    low: float,
    high: float,
    colours: str,
) -> None:
    picture = axes.imshow(
        values.reshape(NUM_BLOCKS, NUM_BLOCKS),
        origin="lower",
        extent=(0.0, 1.0, 0.0, 1.0),
        vmin=low,
        vmax=high,
        cmap=colours,
    )
    axes.set_title(f"log a: {title}")
    axes.figure.colorbar(picture, ax=axes, location="bottom", shrink=0.8)

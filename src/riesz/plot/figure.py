"""Figures without global state: no pyplot, so that drawing is safe in any thread or server."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from riesz.io.store.files import replacing


def new_figure(
    num_columns: int = 1, num_rows: int = 1, *, width: float = 4.2, height: float = 3.6
) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes in reading order; sizes are in inches for each panel."""
    figure = Figure(figsize=(width * num_columns, height * num_rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(num_rows, num_columns, squeeze=False)
    return figure, list(np.ravel(axes))


def save_figure(path: Path | str, figure: Figure, *, dots_per_inch: int = 150) -> None:
    """Write a PNG; it appears only once it is complete."""
    with replacing(Path(path)) as file:
        figure.savefig(file, format="png", dpi=dots_per_inch)

"""Hydrographs: what was predicted at a place in time, with its interval, and what was read."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

Times = Shaped[np.ndarray, " time"]
"""Dates, or numbers."""

Values = Float[np.ndarray, " time"]


def draw_hydrograph(
    axes: Axes,
    times: Times,
    mean: Values,
    ends: tuple[Values, Values],
    *,
    read: tuple[Shaped[np.ndarray, " reading"], Float[np.ndarray, " reading"]] | None = None,
    **settings: Any,
) -> None:
    """A line in its interval; readings, their times and values, are dots."""
    axes.fill_between(times, *ends, color="tab:blue", alpha=0.25, linewidth=0)
    axes.plot(times, mean, **{"color": "tab:blue", "linewidth": 1.2} | settings)
    if read is not None:
        axes.plot(*read, ".", color="0.15", markersize=3)
    if np.asarray(times).dtype.kind == "M":
        locator = AutoDateLocator(maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.margins(x=0.01)

"""Rank histograms of simulation-based calibration."""

import numpy as np
import scipy.stats
from matplotlib.figure import Figure

from riesz.diagnose.calibration import Calibration
from riesz.plot.figure import new_figure

MOST_PANELS = 12
PROBABILITY = 0.95


def ranks_figure(calibration: Calibration) -> Figure:
    """A histogram for each unknown number; uniform ranks stay in the grey band, 19 times in 20."""
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

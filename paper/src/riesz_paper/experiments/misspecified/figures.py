"""The figure of the experiment `misspecified`: coverage and width by method, and by eddy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.misspecified.scores import relative

COLOURS = {"laplace": "tab:red", "oracle": "tab:blue", "relax-learned": "black"}
"""Of the methods that are drawn against the strength of the eddy."""
BAND = (0.90, 0.99)
"""Where the coverage of intervals for 95 % should be."""
WIDTHS = (1, 1.5, 2, 3, 5)


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

"""Figures of the forecasts: scores of all methods, and the drift of the period."""

from collections.abc import Sequence
from pathlib import Path

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.running.comparison import COLOURS, draw_methods

SHOWN = {"mae": "mean absolute error, training sds", "coverage95": "coverage of 95 %"}


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """One line a method."""
    own = [row for row in rows if row["kind"] != "drift"]
    cases = list(dict.fromkeys((row["split"], row["kind"]) for row in own))
    figure, panels = new_figure(len(SHOWN), len(cases), width=5.6, height=2.8)
    for number, (split, kind) in enumerate(cases):
        same = [row for row in own if (row["split"], row["kind"]) == (split, kind)]
        for axes, (score, label) in zip(panels[2 * number :], SHOWN.items(), strict=False):
            draw_methods(axes, same, score)
            axes.set(title=f"split {split}, by {kind}: {same[0]['n']}", xlabel=label)
    save_figure(path, figure)


def draw_drift(rows: Sequence[Row], path: Path) -> None:
    """What was forecast, with its interval, and what came."""
    own = [row for row in rows if row["kind"] == "drift"]
    if not own:
        return
    figure, (axes,) = new_figure(1, 1, width=6.0, height=3.0)
    for place, row in enumerate(own):
        ends = [[row["drift_feet"] - row["q025"]], [row["q975"] - row["drift_feet"]]]
        axes.errorbar(row["drift_feet"], place, xerr=ends, fmt="o", color=COLOURS[row["role"]])
    axes.axvline(own[0]["observed_feet"], color="k", linestyle=":", label="observed")
    axes.set_yticks(range(len(own)), [row["method"] for row in own], fontsize="small")
    axes.set(xlabel="mean change of wells, 1960-79 to 1980-99, ft")
    axes.invert_yaxis()
    axes.legend(fontsize="small")
    save_figure(path, figure)

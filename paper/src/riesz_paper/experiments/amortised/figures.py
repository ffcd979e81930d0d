"""The figure of the experiment `amortised`: how far each posterior is from the exact one."""

from collections.abc import Sequence
from pathlib import Path

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure

FLOOR = 1e-3
"""Errors below are drawn here: log axes have no zero."""


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """Errors of means, and ratios of standard deviations, against the speed of transport."""
    speeds = [r["speed"] for r in rows]
    figure, (left, right) = new_figure(2, height=3.4)
    left.scatter(speeds, [max(r["mean_error_sd"], FLOOR) for r in rows], s=12, color="black")
    left.set(yscale="log", ylabel="error of the mean / exact sd")
    low, high = [r["sd_ratio_low"] for r in rows], [r["sd_ratio_high"] for r in rows]
    right.axhline(1.0, color="tab:blue", linewidth=1)
    right.vlines(speeds, low, high, color="black", linewidth=1)
    right.scatter([*speeds, *speeds], [*low, *high], s=8, color="black")
    right.set(ylabel="sd / exact sd, both coordinates")
    for one in (left, right):
        one.set(xlabel="speed of transport")
    save_figure(path, figure)

"""The figure of the experiment `aquifer`: scores of all methods, a panel for each split."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.running.role_colours import COLOURS

SHOWN = {"mae": "mean absolute error, training sds", "nlpd": "negative log-density"}


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """One line a method, one dot a restart; errors left, log-densities right."""
    own = [r for r in rows if r["quantity"] == "head" and r["role"] != "published"]
    cases = list(dict.fromkeys((r["split"], r["subset"]) for r in own))
    figure, panels = new_figure(2, len(cases), width=5.6, height=4.2)
    for number, (split, subset) in enumerate(cases):
        same = [r for r in own if (r["split"], r["subset"]) == (split, subset)]
        for axes, (score, label) in zip(panels[2 * number :], SHOWN.items(), strict=False):
            draw_case(axes, same, score)
            axes.set(title=f"split {split}, {subset}: {same[0]['n']} wells", xlabel=label)
    for role in dict.fromkeys(r["role"] for r in own):
        panels[0].scatter([], [], color=COLOURS[role], label=role)
    panels[0].legend(loc="best", fontsize="small")
    save_figure(path, figure)


def draw_case(axes: Axes, rows: Sequence[Row], score: str) -> None:
    methods = dict.fromkeys(r["method"] for r in rows)
    means = {m: float(np.mean([r[score] for r in rows if r["method"] == m])) for m in methods}
    ordered = sorted(means, key=means.__getitem__)
    for place, method in enumerate(ordered):
        own = [r for r in rows if r["method"] == method]
        colour = COLOURS[own[0]["role"]]
        axes.scatter([r[score] for r in own], [place] * len(own), s=10, color=colour, alpha=0.5)
        axes.scatter(means[method], place, marker="*" if own[0]["selected"] else "D", color=colour)
    axes.set_yticks(range(len(ordered)), ordered, fontsize="small")
    axes.invert_yaxis()
    if score == "nlpd" and max(means.values()) > 20:
        axes.set_xscale("symlog", linthresh=1.0)

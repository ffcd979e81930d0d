"""The figure of the experiment `jura`: errors of all methods, a panel for each case."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from riesz.io.store.results import Row
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.jura.cases import VALIDATION
from riesz_paper.running.role_colours import COLOURS

COLUMNS = 2


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """One line a method, one dot a restart; published figures with their sds."""
    own = [r for r in rows if r["split"] == VALIDATION and not isinstance(r["restart"], str)]
    cases = list(dict.fromkeys((r["metal"], r["secondaries"]) for r in own))
    columns = min(COLUMNS, len(cases))
    lines = max(len({r["method"] for r in own if case_of(r) == case}) for case in cases)
    figure, panels = new_figure(
        columns, -(-len(cases) // columns), width=5.6, height=0.8 + 0.22 * lines
    )
    for axes, case in zip(panels, cases, strict=False):
        draw_case(axes, [r for r in own if case_of(r) == case])
        axes.set(title=f"{case[0]} from {case[1]}", xlabel="mean absolute error, mg/kg")
    for axes in panels[len(cases) :]:
        axes.set_axis_off()
    labelled = {
        role: colour for role, colour in COLOURS.items() if any(r["role"] == role for r in own)
    }
    for role, colour in labelled.items():
        panels[0].scatter([], [], color=colour, label=role)
    panels[0].legend(loc="best", fontsize="small")
    save_figure(path, figure)


def case_of(row: Row) -> tuple[str, str]:
    return row["metal"], row["secondaries"]


def draw_case(axes: Axes, rows: Sequence[Row]) -> None:
    means = {
        method: float(np.mean([r["mae"] for r in rows if r["method"] == method]))
        for method in dict.fromkeys(r["method"] for r in rows)
    }
    methods = sorted(means, key=means.__getitem__)
    for place, method in enumerate(methods):
        own = [r for r in rows if r["method"] == method]
        colour = COLOURS[own[0]["role"]]
        axes.scatter([r["mae"] for r in own], [place] * len(own), s=10, color=colour, alpha=0.5)
        axes.errorbar(means[method], place, xerr=own[0].get("mae_sd"), fmt="D", color=colour)
    axes.set_yticks(range(len(methods)), methods, fontsize="small")
    axes.invert_yaxis()

"""Methods beside each other: statistics of their scores, tables, and a line of dots for each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float
from matplotlib.axes import Axes

from riesz.io.store.files import replacing
from riesz.io.store.results import Row, markdown_table

COLOURS = {
    "ours": "tab:blue",
    "paper-method": "tab:orange",
    "baseline": "0.4",
    "published": "tab:red",
}
"""By the role of a method."""


def spread_of(errors: Sequence[float]) -> float | None:
    return float(np.std(errors, ddof=1)) if len(errors) > 1 else None


def wilcoxon_p(own: Float[np.ndarray, " pair"], other: Float[np.ndarray, " pair"]) -> float:
    """Of the signed-rank test; one where both are the same."""
    if np.all(own == other):
        return 1.0
    _, p = np.asarray(scipy.stats.wilcoxon(own, other), dtype=float)
    return float(p)


def grouped(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree in all of these, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def draw_methods(axes: Axes, rows: Sequence[Row], score: str = "mae") -> None:
    """One line a method, the best on top, one dot a restart; the selected one's mean is a star."""
    means = {
        method: float(np.mean([row[score] for row in own]))
        for (method,), own in grouped(rows, ("method",)).items()
    }
    methods = sorted(means, key=means.__getitem__)
    for place, method in enumerate(methods):
        own = [row for row in rows if row["method"] == method]
        colour, mark = COLOURS[own[0]["role"]], "*" if own[0]["selected"] else "D"
        axes.scatter([row[score] for row in own], [place] * len(own), s=10, color=colour, alpha=0.5)
        axes.errorbar(means[method], place, xerr=own[0].get(f"{score}_sd"), fmt=mark, color=colour)
    axes.set_yticks(range(len(methods)), methods, fontsize="small")
    axes.invert_yaxis()


def draw_roles(axes: Axes, rows: Sequence[Row]) -> None:
    """A legend of the colours."""
    for role, colour in COLOURS.items():
        if any(row["role"] == role for row in rows):
            axes.scatter([], [], color=colour, label=role)
    axes.legend(loc="best", fontsize="small")


def write_tables(out: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    """Those that have rows, by the names of their files."""
    for name, table in tables.items():
        if table:
            with replacing(out / name) as file:
                file.write(markdown_table(table).encode())

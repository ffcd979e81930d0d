"""Figures of the checkerboard: errors by method, and where they lie."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.io.store.results import Row
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.checkerboard.board import Board

NUM_COLUMNS = 4


def draw_errors(rows: Sequence[Row], path: Path) -> None:
    """Every replicate, against the solution of the same mesh and of a finer one."""
    methods = list(dict.fromkeys(r["method"] for r in rows if r["energy_error"]))
    figure, axes = new_figure(2, width=4.6, height=3.6)
    for one, measure, label in zip(
        axes, ("energy_error", "energy_error_finer"), ("same mesh", "finer mesh"), strict=True
    ):
        for place, method in enumerate(methods):
            here = [r[measure] for r in rows if r["method"] == method]
            colour = "black" if method.startswith("weak-form") else "tab:blue"
            one.plot(here, [place] * len(here), "o", color=colour, markersize=4, alpha=0.7)
        one.set(xscale="log", xlabel=f"relative energy error against the {label}")
        one.set_yticks(range(len(methods)), methods)
        one.invert_yaxis()
        one.grid(visible=True, axis="x", alpha=0.3)
    for row in rows:
        if row["method"] == "finite-elements":
            axes[1].axvline(row["energy_error_finer"], color="0.5", linestyle="--", linewidth=1)
    save_figure(path, figure)


def draw_fields(board: Board, fields: Mapping[str, Float[np.ndarray, " node"]], path: Path) -> None:
    """The diffusivity, the solution, and the error of every method on one scale."""
    num_rows = -(-(len(fields) + 2) // NUM_COLUMNS)
    figure, axes = new_figure(NUM_COLUMNS, num_rows, width=3.0, height=3.2)
    for one in axes:
        one.set_axis_off()
    draw_field(axes[0], board.mesh, np.log10(board.diffusivity), label="log10 diffusivity")
    draw_field(axes[1], board.mesh, board.solution, label="finite-element solution")
    span = np.abs(board.solution).max() / 4
    for one, (method, state) in zip(axes[2:], fields.items(), strict=False):
        error = state - board.solution
        draw_field(
            one, board.mesh, error, label=f"error: {method}", cmap="RdBu", vmin=-span, vmax=span
        )
    save_figure(path, figure, dots_per_inch=90)

r"""Rough physics: a checkerboard of diffusivities 1 and 100, solved by networks.

All methods train the same network for the same processor seconds, and are held against the
finite-element solution of the mesh that the weak form is tested on, and apart against that of a
mesh four times finer, which the others, who know no mesh, may be nearer to.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.io.store.results import Row
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure, save_figure
from riesz_paper.experiments.checkerboard.board import CONTRAST, SQUARES, Board, board
from riesz_paper.experiments.checkerboard.methods import (
    METHODS,
    OURS,
    PUBLISHED,
    RATES,
    SOLVED,
    TUNED,
    Budget,
    galerkin,
    trained,
)
from riesz_paper.experiments.checkerboard.network import nodal_values
from riesz_paper.experiments.checkerboard.training import Trained
from riesz_paper.running.task import Experiment, Task

LEVELS = 5  # nested meshes: 65^2 nodes
FINER = 2  # halvings to the finer mesh
BUDGETS = {"full": Budget(1024, 30.0), "quick": Budget(256, 5.0), "smoke": Budget(8, 0.01)}
REPLICATES = 5
FEW, FEW_REPLICATES = (*PUBLISHED, "strong-form-solved"), 2
"""Methods that are far from the best of the baselines."""
TUNING_SECONDS = 10.0
TUNING_SEED = 2**20
"""Far from the seeds of scored runs."""

Fields = dict[str, Float[np.ndarray, " node"]]
"""States of the first replicate, for the figure."""

NUM_COLUMNS = 4


def checkerboard(seed: int, mode: str) -> Experiment:
    """All methods five times and the tuning of the baselines' rates, or three methods once."""
    budget, fields = BUDGETS[mode], Fields()
    rates = [] if mode == "quick" else [(name, rate) for name in TUNED for rate in RATES]
    tasks = [
        *(task(name, -1, rate, partial(tuning_row, name, rate, budget)) for name, rate in rates),
        *(
            task(name, k, None, partial(scored_row, name, budget, seed, k, fields))
            for name, k in scored_runs(mode)
        ),
    ]
    config = {
        "mode": mode,
        "squares": SQUARES,
        "contrast": CONTRAST,
        "cpu_seconds": budget.cpu_seconds,
        "features": budget.features,
    }
    return Experiment("checkerboard", config, tasks, summarise, partial(draw, fields))


def scored_runs(mode: str) -> list[tuple[str, int]]:
    """Methods and replicates; the first replicate of all of them first."""
    if mode == "quick":
        return [("finite-elements", 0), (OURS, 0), ("deep-ritz", 0)]
    return [
        ("finite-elements", 0),
        *(
            (name, k)
            for k in range(REPLICATES)
            for name in (*METHODS, "galerkin")
            if k < FEW_REPLICATES or name not in FEW
        ),
    ]


def task(method: str, replicate: int, tuned_rate: float | None, run: Callable[[], Row]) -> Task:
    nodes = board(LEVELS).mesh.num_nodes
    return Task(
        {"method": method, "nodes": nodes, "replicate": replicate, "tuned_rate": tuned_rate}, run
    )


def tuning_row(method: str, rate: float, budget: Budget) -> Row:
    """A run that only says which rate is best; its seed is scored nowhere."""
    shorter = Budget(budget.features, TUNING_SECONDS)
    return row_of(method, trained(method, board(LEVELS), shorter, TUNING_SEED, rate))


def scored_row(method: str, budget: Budget, seed: int, replicate: int, fields: Fields) -> Row:
    here = board(LEVELS)
    if method == "finite-elements":
        return finite_element_row(here)
    run_seed = 1000 * seed + replicate
    if method == "galerkin":
        result = galerkin(here, budget, run_seed)
    else:
        result = trained(method, here, budget, run_seed)
    if replicate == 0:
        fields[method] = state_on(here, result)
    return row_of(method, result)


def state_on(board: Board, result: Trained) -> Float[np.ndarray, " node"]:
    return np.asarray(nodal_values(result.network, jnp.asarray(board.mesh.nodes)))


def row_of(method: str, result: Trained) -> Row:
    here, finer = board(LEVELS), board(LEVELS + FINER)
    state = state_on(here, result)
    return {
        "gram": METHODS[method].gram if method in METHODS else "none",
        "energy_error": here.energy_error(state),
        "l2_error": here.l2_error(state),
        "energy_error_finer": finer.energy_error(state_on(finer, result)),
        "steps": result.steps,
        "draws": result.draws,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
    }


def finite_element_row(here: Board) -> Row:
    """The solution that all others are held against, itself held against a finer one."""
    finer, state = board(LEVELS + FINER), here.solution
    for prolongation in finer.meshes.prolongations[-FINER:]:
        state = prolongation @ state
    return {
        "gram": "none",
        "energy_error": 0.0,
        "l2_error": 0.0,
        "energy_error_finer": finer.energy_error(state),
        **dict.fromkeys(("steps", "draws", "seconds", "cpu_seconds")),
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Medians by method, the best rate of each tuning, and ours over the best of the others."""
    summary: dict[str, Any] = {"rows": len(rows)}
    scored = [r for r in rows if r["tuned_rate"] is None]
    for method in dict.fromkeys(r["method"] for r in scored):
        for measure in ("energy_error", "energy_error_finer"):
            summary[f"{method}: median {measure}"] = median(scored, method, measure)
    for method in dict.fromkeys(r["method"] for r in rows if r["tuned_rate"] is not None):
        tuning = [r for r in rows if r["method"] == method and r["tuned_rate"] is not None]
        best = min(tuning, key=lambda r: r["energy_error"])
        summary[f"{method}: best rate of the tuning"] = best["tuned_rate"]
    groups = {"baseline by Adam": PUBLISHED, "baseline": (*PUBLISHED, *SOLVED)}
    found = {r["method"] for r in scored}
    for label, names in groups.items():
        others = [median(scored, name, "energy_error") for name in names if name in found]
        if OURS in found and others:
            ratio = median(scored, OURS, "energy_error") / min(others)
            summary[f"{OURS} / best {label}"] = ratio
    return summary


def median(rows: Sequence[Row], method: str, measure: str) -> float:
    return float(np.median([r[measure] for r in rows if r["method"] == method]))


def draw(fields: Fields, rows: Sequence[Row], out: Path) -> None:
    draw_errors([r for r in rows if r["tuned_rate"] is None], out / "errors.png")
    if fields:  # a resumed run, or one in several processes, has no states at hand
        draw_fields(board(LEVELS), fields, out / "fields.png")


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

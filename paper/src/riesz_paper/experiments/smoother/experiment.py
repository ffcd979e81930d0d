"""A PDE as a smoother: the forward map and what sensors tell of it, Fig. 1, and supplement A."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from riesz.fem.fluxes import budget
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import nodal
from riesz.io.store.results import Row
from riesz.mesh.mesh import Mesh, mesh_digest
from riesz_paper.experiments.smoother.direction import (
    NUM_SENSORS,
    RELATIVE_NOISE,
    Case,
    direction_row,
)
from riesz_paper.experiments.smoother.figures import draw_fig_1, draw_substrate
from riesz_paper.experiments.smoother.forward import (
    DIFFUSIVITY,
    SPEED,
    VEER,
    forward_problem,
    noisy_source,
    outline_mesh,
    roughness,
)
from riesz_paper.running.task import Experiment, Task

EDGES = {"smoke": (0.1,), "quick": (0.02,), "full": (0.04, 0.02, 0.01)}
REPLICATES = {"smoke": 1, "quick": 1, "full": 3}


def smoother(
    seed: int, mode: str, mesh: Mesh | None = None, *, domain: str = "own mesh"
) -> Experiment:
    """The experiment on the built-in outline (at several edge lengths), or on a given mesh.

    `domain` says where the mesh came from; together with a digest it tells runs apart.
    """
    meshes = [outline_mesh(edge) for edge in EDGES[mode]] if mesh is None else [mesh]
    cases = [Case(m, seed + r) for m in meshes for r in range(REPLICATES[mode])]
    tasks = [
        Task(
            {"replicate": case.seed - seed, "nodes": case.mesh.num_nodes},
            partial(smoother_row, case),
        )
        for case in cases
    ]
    config = {
        "mode": mode,
        "domain": "aquifer outline" if mesh is None else domain,
        "meshes": [mesh_digest(m) for m in meshes],
        "diffusivity": DIFFUSIVITY,
        "speed": SPEED,
        "veer": VEER,
        "sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
    }
    shown = cases[-REPLICATES[mode]]
    return Experiment("smoother", config, tasks, summarise, partial(draw_figures, shown))


def smoother_row(case: Case) -> Row:
    """How much smoother the output is than its source, whether the budget closes, and the wind."""
    mesh, forcing = case.mesh, noisy_source(case.mesh, case.seed)
    problem, z = forward_problem(mesh), {"f": nodal(forcing)}
    jax.block_until_ready(solve(problem, z))  # leaves compilation out of the time
    start = perf_counter()
    output = np.asarray(jax.block_until_ready(solve(problem, z)))
    seconds = perf_counter() - start
    balance = budget(problem, jnp.asarray(output), z)
    return {
        "cells": mesh.num_cells,
        "source_roughness": roughness(mesh, forcing),
        "output_roughness": roughness(mesh, output),
        "output_max": float(output.max()),
        "source_total": float(balance.gains["source"]),
        "imbalance": float(balance.imbalance),
        "seconds": seconds,
        **direction_row(case),
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    if not rows:
        return {}
    return {
        "rows": len(rows),
        "median_roughness_ratio": float(
            np.median([row["source_roughness"] / row["output_roughness"] for row in rows])
        ),
        "largest_relative_imbalance": max(
            abs(row["imbalance"]) / abs(row["source_total"]) for row in rows
        ),
        "median_direction_sd": float(np.median([row["direction_sd"] for row in rows])),
        "largest_direction_error_sd": max(abs(row["direction_error_sd"]) for row in rows),
    }


def draw_figures(shown: Case, rows: Sequence[Row], out: Path) -> None:
    """`smoother.png` (Fig. 1) and `fem.png` (supplement A)."""
    draw_fig_1(shown, out)
    draw_substrate(out)

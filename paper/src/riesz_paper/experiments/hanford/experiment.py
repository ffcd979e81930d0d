"""Log-transmissivity of the Hanford Site from values and heads, beside published errors.

A thousand and more unknowns, one a cell. Data are `exact`, as those of the authors, but for heads
that our own solver makes of the truth; `finite-volume` takes the authors' heads, whose difference
from ours is an error of unknown size; `noisy` has noise of known size on all of them, the honest
test of a posterior. Nothing else of the truth is looked at.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.io.store.results import Row
from riesz.posterior.checks import rms_of
from riesz.problem.problem import InverseProblem
from riesz_paper.data.hanford import Site, hanford
from riesz_paper.experiments.hanford.figures import draw_errors, draw_maps
from riesz_paper.experiments.hanford.fit import (
    EXACT_SD,
    NOISY_HEAD_SD,
    NOISY_VALUE_SD,
    Estimate,
    Fit,
    first_problem,
    fit,
    observed,
    warm_up,
)
from riesz_paper.experiments.hanford.published import BY_SET
from riesz_paper.experiments.hanford.scores import scores
from riesz_paper.experiments.hanford.search import state_at
from riesz_paper.running.comparison import grouped, write_tables
from riesz_paper.running.task import Experiment, Task

NUM_SETS = 10
CASES = {
    "smoke": (("1x", "exact", 100), ("1x", "noisy", 25), ("1x", "finite-volume", 25)),
    "quick": (("1x", "exact", 100),),
    "full": (
        *(("1x", "exact", 100), ("4x", "exact", 100), ("1x", "noisy", 100)),
        *(("1x", "finite-volume", 100), ("1x", "exact", 50), ("1x", "exact", 25)),
    ),
}
"""Mesh, data, and the number of known values."""

GP, OURS, ONE_KERNEL = "gp", "laplace", "laplace-exponential"
ROLES = {GP: "baseline", OURS: "ours", ONE_KERNEL: "ours"}
DRAWN = {"mesh": "1x", "data": "exact", "values": 100, "replicate": 0}
"""The case whose fields are kept, for the figure."""

MEANS = (
    *("e7", "e", "largest", "coverage95", "coverage95_unknown", "lpp", "z_rms", "mean_sd"),
    *("head_rms", "head_sd", "cpu_seconds"),
)
"""What is averaged over sets."""

EXPONENT_OF = ("exact", 100)
"""Data and values whose cost is compared on both meshes."""


def hanford_experiment(
    seed: int, mode: str, which: int | None = None, folder: Path | None = None
) -> Experiment:
    """All sets, or one: runs of single sets can be put together with `--resume`."""
    if which is not None and not 0 <= which < NUM_SETS:
        raise RieszError(f"--set is {which}: sets go from 0 to {NUM_SETS - 1}.")
    for mesh in {case[0] for case in CASES[mode]}:
        hanford(mesh, folder)  # says what is missing before any work
    sets = range(NUM_SETS if mode == "full" else 1) if which is None else (which,)
    tasks = [
        task
        for case in CASES[mode]
        for number in sets
        for task in tasks_of(case, number, seed, folder)
    ]
    config = {
        "mode": mode,
        "head_sd_exact": EXACT_SD,
        "head_sd_noisy": NOISY_HEAD_SD,
        "value_sd_noisy": NOISY_VALUE_SD,
    }
    return Experiment("hanford", config, tasks, summarise, partial(draw, folder=folder))


def tasks_of(case: tuple[str, str, int], which: int, seed: int, folder: Path | None) -> list[Task]:
    """Our rows of a set, which are of one fit, and what was published for it."""
    mesh, data, values = case
    told = {"mesh": mesh, "data": data, "values": values}
    group = (mesh, data, str(values), str(which))
    own = [
        Task(
            {**told, "method": method, "role": role, "replicate": which},
            partial(row, folder, case, method, which, seed),
            group=group,
        )
        for method, role in ROLES.items()
    ]
    if case != ("1x", "exact", 100):
        return own
    published = [
        Task(
            {**told, "method": method, "role": "published", "replicate": which},
            partial(published_row, errors[which]),
            group=group,
        )
        for method, errors in BY_SET.items()
    ]
    return own + published


@lru_cache(maxsize=1)
def site_and_problem(
    folder: Path | None, mesh: str, data: str, values: int
) -> tuple[Site, InverseProblem]:
    """Posed and compiled once, for all sets."""
    site = hanford(mesh, folder)
    problem = first_problem(site, data, values)
    warm_up(problem)
    return site, problem


@lru_cache(maxsize=1)
def fitted(folder: Path | None, case: tuple[str, str, int], which: int, seed: int) -> Fit:
    """The fit that the rows of a set share."""
    site, problem = site_and_problem(folder, *case)
    _, kind, values = case
    data = observed(site, problem, kind, values, which, seed)
    return fit(site, problem, data)


def row(folder: Path | None, case: tuple[str, str, int], method: str, which: int, seed: int) -> Row:
    site, problem = site_and_problem(folder, *case)
    found, truth = fitted(folder, case, which, seed), site.log_transmissivity
    fields = {GP: found.alone, OURS: found.field, ONE_KERNEL: found.exponential}
    field: Estimate = fields[method]
    process = found.best.choice.process
    own = method == OURS
    is_drawn = {"mesh": case[0], "data": case[1], "values": case[2], "replicate": which} == DRAWN
    told: Row = {
        "kernel": process.kernel,
        "weight": float(found.weights.max()),
        "variance": process.variance,
        "length": process.length,
        "process_mean": process.mean,
        "head_sd": found.best.head_sd,
        "residual_rms": rms_of(found.best.mode.heads - found.data.heads),
        "linearised": found.num_linearised,
        "decrement": found.best.mode.decrement,
        "converged": all(one.mode.converged for one in found.each),
    }
    seconds = found.cpu_seconds
    every = {
        GP: seconds["values alone"],
        OURS: sum(seconds.values()),
        ONE_KERNEL: found.exponential_seconds,
    }
    return {
        "cells": site.num_cells,
        "heads": len(site.wells),
        **scores(field.mean, field.sd, truth),
        "head_rms": rms_of(heads_of(problem, field.mean) - heads_of(problem, truth)),
        "cpu_seconds": every[method],
        **{f"cpu_seconds_{k.replace(' ', '_')}": v if own else None for k, v in seconds.items()},
        **(told if own else dict.fromkeys(told)),
        "log_mean": np.round(field.mean, 4).tolist() if is_drawn and own else None,
        "log_sd": np.round(field.sd, 4).tolist() if is_drawn and own else None,
    }


def heads_of(
    problem: InverseProblem, logs: Float[np.ndarray, " cell"]
) -> Float[np.ndarray, " node"]:
    return np.asarray(state_at(problem, jnp.asarray(logs), SparseLU()))


def published_row(error: float) -> Row:
    return {"e7": error}


def table_of(rows: Sequence[Row]) -> list[Row]:
    """Each method in each case: means over sets."""
    found = []
    for key, own in grouped(rows, ("mesh", "data", "values", "method")).items():
        line: Row = dict(zip(("mesh", "data", "values", "method"), key, strict=True))
        line["sets"] = len(own)
        for name in MEANS:
            told = [row[name] for row in own if row.get(name) is not None]
            line[name] = float(np.mean(told)) if told else None
        errors = [row["e7"] for row in own]
        line["e7_sd"] = float(np.std(errors, ddof=1)) if len(errors) > 1 else None
        found.append(line)
    return found


def cost_exponent(rows: Sequence[Row]) -> float | None:
    """By which power of the number of cells the cost grows, over sets that both meshes have."""
    own = [r for r in rows if r["method"] == OURS and (r["data"], r["values"]) == EXPONENT_OF]
    by_set = {
        which: {row["mesh"]: row for row in same}
        for (which,), same in grouped(own, ("replicate",)).items()
    }
    both = [pair for pair in by_set.values() if len(pair) == 2]
    if not both:
        return None
    cost, cells = (
        [sum(pair[mesh][name] for pair in both) for mesh in ("1x", "4x")]
        for name in ("cpu_seconds", "cells")
    )
    return float(np.log(cost[1] / cost[0]) / np.log(cells[1] / cells[0]))


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for line in table_of(rows):
        if line["method"] == OURS:
            case = f"{line['mesh']}, {line['data']}, {line['values']} values"
            for name in ("sets", "e7", "coverage95", "cpu_seconds"):
                summary[f"{case}: {name.replace('_', ' ')}"] = line[name]
    exponent = cost_exponent(rows)
    return summary if exponent is None else {**summary, "cost exponent": exponent}


def draw(rows: Sequence[Row], out: Path, folder: Path | None = None) -> None:
    write_tables(out, {"means.md": table_of(rows)})
    draw_errors(rows, out / "errors.png")
    for row in rows:
        if row.get("log_mean") is not None:
            draw_maps(hanford("1x", folder), row, out / "maps.png")

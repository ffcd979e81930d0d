"""Seconds to a posterior by exact solves, by a reduced basis, and by a surrogate without a solve.

Each pair of a density with `GaussianVI` fits the same data, one process for all pairs of a problem.
The first fit compiles, the second, of other data, does not: their difference is what compilation
takes. `worst_mean_error_sd` is that of the first fit beside exact moments: draws of a Gaussian near
to the posterior, weighed by exact solves. Of many data sets a few are fitted one by one, and the
time is theirs times the number, but for the reduced basis, which fits all of them together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from riesz.density.base import AbstractDensityKind
from riesz.density.exact import Exact
from riesz.density.reduced_basis import ReducedBasis
from riesz.density.surrogate.surrogate import Surrogate
from riesz.diagnose.importance import importance_check
from riesz.errors import RieszError
from riesz.fem.default_solver import estimate_seconds
from riesz.inference.batch import fit_data_sets
from riesz.inference.fit import fit
from riesz.io.store.results import Row
from riesz.method.gaussian_vi import GaussianVI
from riesz.notes import doubts
from riesz.observe.observations import observations
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior
from riesz.problem.posing import with_observations
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.crossover.problem import posed, readings
from riesz_paper.running.task import Experiment, Task

DENSITIES: Mapping[str, AbstractDensityKind] = {
    "exact": Exact(),
    "reduced-basis": ReducedBasis(),
    "surrogate": Surrogate(),
}
COLOURS = {"exact": "tab:blue", "reduced-basis": "tab:green", "surrogate": "black"}

FITTED = 3
"""Of many data sets, one by one."""

GOOD = 0.05
"""Standard deviations by which means may be off."""

REFERENCE_DRAWS, FEWEST_DRAWS, REFERENCE_SECONDS = 4096, 256, 600.0
"""Exact solves of a reference: as many as there is time for."""


@dataclass(frozen=True)
class Sizes:
    """Of a run: nested meshes by dimension, numbers of unknowns and of data sets."""

    levels: Mapping[int, tuple[int, ...]]
    unknowns: tuple[int, ...]
    data_sets: tuple[int, ...]


SIZES = {
    "smoke": Sizes({2: (2,)}, (2,), (1, 3)),
    "quick": Sizes({2: (4, 5, 6)}, (2, 8), (1,)),
    "full": Sizes({2: (4, 5, 6, 7, 8, 9), 3: (3, 4, 5)}, (2, 8, 20), (1, 100)),
}


@dataclass(frozen=True)
class Setting:
    """A mesh, a number of unknowns, and a seed for data."""

    dim: int
    levels: int
    unknowns: int
    seed: int


def crossover(seed: int, mode: str) -> Experiment:
    """One row a mesh, a number of unknowns and of data sets, and a density."""
    sizes = SIZES[mode]
    tasks = [
        Task(
            {
                "dim": dim,
                "levels": levels,
                "unknowns": unknowns,
                "data_sets": data_sets,
                "density": density,
                "method": GaussianVI.name,
            },
            partial(row, Setting(dim, levels, unknowns, seed), density, data_sets),
            group=(f"{dim}D", str(levels), str(unknowns)),
        )
        for dim, every in sizes.levels.items()
        for levels in every
        for unknowns in sizes.unknowns
        for data_sets in sizes.data_sets
        for density in DENSITIES
    ]
    return Experiment("crossover", {"mode": mode}, tasks, summarise, draw)


def row(setting: Setting, density: str, data_sets: int) -> Row:
    here = (setting.dim, setting.levels, setting.unknowns)
    values, noise_sd = readings(*here, setting.seed, FITTED + 1)
    start = perf_counter()
    problem = posed(*here, values[0], noise_sd)
    problem.default_solver()
    setup = perf_counter() - start
    is_batch = data_sets > 1 and density == "reduced-basis"
    run = batch_run(problem, setting, data_sets) if is_batch else single_run(setting, density)
    same = {
        "nodes": problem.forward.space.mesh.num_nodes,
        "device": jax.default_backend(),
        "setup_seconds": setup,
    }
    num_others = FITTED if data_sets > 1 and not is_batch else 1
    every = [with_values(problem, own) for own in values[: 1 + num_others]]
    try:
        (answer, first), *others = [timed(run, one) for one in every]
    except RieszError as error:
        return same | {"refused": str(error)}
    mean, flags = answer
    alone = float(np.mean([seconds for _, seconds in others]))
    exact, width, error = reference(setting)
    return same | {
        "compile_seconds": max(first - alone, 0.0),
        "seconds": alone * (1 if is_batch else data_sets),
        "worst_mean_error_sd": float(np.abs((mean - exact) / width).max()),
        "reference_error_sd": error,
        "flags": flags,
        "refused": None,
    }


Answer = tuple[Float[np.ndarray, " unknown"], list[str]]
"""A posterior mean, and why it is doubtful."""


def timed(run: Callable[[InverseProblem], Answer], problem: InverseProblem) -> tuple[Answer, float]:
    start = perf_counter()
    return run(problem), perf_counter() - start


def with_values(problem: InverseProblem, values: Float[np.ndarray, " sensor"]) -> InverseProblem:
    """Another data set; what was compiled serves it."""
    points = np.asarray(problem.observations.points)
    return with_observations(problem, observations(points, values), problem.likelihood)


def single_run(setting: Setting, density: str) -> Callable[[InverseProblem], Answer]:
    """A fit of one data set; without its check, which takes exact solves."""

    def run(problem: InverseProblem) -> Answer:
        how = {"density": DENSITIES[density], "check": False, "progress": False}
        return moments(fit(problem, GaussianVI(), seed=setting.seed, **how))

    return run


def batch_run(
    problem: InverseProblem, setting: Setting, data_sets: int
) -> Callable[[InverseProblem], Answer]:
    """All data sets together, the first of which is that of the problem."""
    here = (setting.dim, setting.levels, setting.unknowns)
    others, _ = readings(*here, setting.seed + 1, data_sets - 1)

    def run(one: InverseProblem) -> Answer:
        values = np.vstack([np.asarray(one.observed), others])
        found = fit_data_sets(problem, values, seed=setting.seed)
        verdicts = sorted(set(found.verdicts) - {"trusted", "refined"})
        return np.asarray(found.mean)[0], verdicts

    return run


def moments(posterior: Posterior) -> Answer:
    flags = sorted({note.code for note in doubts(posterior.notes)} - {"not_checked"})
    return np.asarray(posterior.coordinate_mean()), flags


@lru_cache
def reference(
    setting: Setting,
) -> tuple[Float[np.ndarray, " unknown"], Float[np.ndarray, " unknown"], float]:
    """Exact means and standard deviations of the first data set, and the means' own error."""
    here = (setting.dim, setting.levels, setting.unknowns)
    values, noise_sd = readings(*here, setting.seed, 1)
    problem = posed(*here, values[0], noise_sd)
    solve = estimate_seconds(problem.forward, problem.default_solver())
    count = int(np.clip(REFERENCE_SECONDS / solve, FEWEST_DRAWS, REFERENCE_DRAWS))
    near = fit(problem, GaussianVI(), seed=setting.seed, check=False, progress=False)
    check = importance_check(near, num_draws=count, seed=setting.seed)
    return np.asarray(check.mean), np.asarray(check.sd), float(np.max(check.mean_shift_error))


def good_seconds(rows: Sequence[Row], density: str) -> dict[tuple[int, ...], float]:
    """By problem, seconds of a density where its means are right."""
    return {
        (r["dim"], r["nodes"], r["unknowns"], r["data_sets"]): r["seconds"]
        for r in rows
        if r["density"] == density
        and r["refused"] is None
        and r["worst_mean_error_sd"] <= GOOD + r["reference_error_sd"]
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """How often each density is right, and how often it is right and quickest."""
    seconds = {density: good_seconds(rows, density) for density in DENSITIES}
    every = set().union(*seconds.values())
    summary: dict[str, Any] = {"rows": len(rows)}
    for density, own in seconds.items():
        others = [one for name, one in seconds.items() if name != density]
        wins = [key for key in own if all(own[key] <= one.get(key, np.inf) for one in others)]
        summary[f"{density}: right"] = f"{len(own)} of {len(every)}"
        summary[f"{density}: quickest"] = len(wins)
    return summary


def draw(rows: Sequence[Row], out: Path) -> None:
    """Seconds against nodes for one data set, a panel for each number of unknowns."""
    panels = sorted({(r["dim"], r["unknowns"]) for r in rows})
    figure, every = new_figure(len(panels))
    for axes, (dim, unknowns) in zip(every, panels, strict=True):
        for density, colour in COLOURS.items():
            own = sorted(
                (nodes, seconds)
                for (d, nodes, count, sets), seconds in good_seconds(rows, density).items()
                if (d, count, sets) == (dim, unknowns, 1)
            )
            if own:
                axes.loglog(*zip(*own, strict=True), "o-", color=colour, label=density)
        axes.set_title(f"{dim}D, {unknowns} unknowns")
        axes.set_xlabel("nodes")
        axes.set_ylabel("seconds without compilation")
        axes.legend()
    save_figure(out / "crossover.png", figure)

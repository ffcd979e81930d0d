"""Sixty-four unknowns: `laplace` and `emulate` held against NUTS, block by block.

Each row is a method with all it says of itself, and the moments of all log-diffusivities; errors
against NUTS follow from the rows.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from riesz.experiments.blocks_chains import Chain, ChainSettings, block_chain, side_by_side
from riesz.experiments.blocks_figures import draw_moments
from riesz.experiments.blocks_problem import FINER, LEVELS, PRIOR_SD, block_problem
from riesz.experiments.task import Experiment, Task
from riesz.infer.emulate import emulate
from riesz.infer.importance import ImportanceCheck, importance_check, warnings_of
from riesz.infer.laplace import LaplaceSettings, laplace
from riesz.infer.posterior import Posterior
from riesz.infer.problem import InverseProblem
from riesz.io.results import Row, markdown_table
from riesz.io.whole_file import replacing

REFERENCE = "nuts"
ERRORS_FILE = "errors.md"


@dataclass(frozen=True)
class Sizes:
    """Of a run."""

    levels: int  # nested meshes from one square a block on
    pilot_warmup: int
    pilot_samples: int
    num_warmup: int
    num_samples: int  # in each chain
    num_chains: int  # a process each
    importance_draws: int


SIZES = {
    "quick": Sizes(2, 100, 50, 50, 50, 2, 200),
    "full": Sizes(LEVELS, 200, 300, 150, 2000, 2, 1000),
}


def blocks(seed: int, mode: str) -> Experiment:
    """One row a method; NUTS first, whose chains are processes."""
    sizes = SIZES[mode]
    runs: dict[str, Callable[[], Row]] = {
        REFERENCE: partial(nuts_row, seed, sizes),
        "laplace": partial(approximate_row, run_laplace, seed, sizes),
        "emulate": partial(approximate_row, run_emulate, seed, sizes),
    }
    nodes = (8 * 2 ** (sizes.levels - 1) + 1) ** 2
    tasks = [Task({"method": name, "nodes": nodes}, run) for name, run in runs.items()]
    config = {"mode": mode, "finer": FINER, **vars(sizes)}
    return Experiment("blocks", config, tasks, summarise, draw)


def run_laplace(problem: InverseProblem, seed: int) -> Posterior:
    """With all directions, as there are few."""
    settings = LaplaceSettings(num_modes=problem.num_coordinates)
    return laplace(problem, seed=seed, settings=settings)


def run_emulate(problem: InverseProblem, seed: int) -> Posterior:
    return emulate(problem, seed=seed, quiet=True)


def nuts_row(seed: int, sizes: Sizes) -> Row:
    """Seconds are those of all processes from their start: data, compilation and warm-up too."""
    clock = perf_counter()
    own = {f.name: getattr(sizes, f.name) for f in fields(ChainSettings) if f.name != "seed"}
    settings = ChainSettings(seed, **own)
    chains = side_by_side(partial(block_chain, settings), sizes.num_chains)
    return sampler_row(chains, perf_counter() - clock)


def sampler_row(chains: Sequence[Chain], seconds: float) -> Row:
    draws = np.stack([chain.coordinates for chain in chains])
    steps = np.stack([chain.num_steps for chain in chains])
    effective = effective_sample_size(draws)
    return {
        "seconds": seconds,
        "cpu_seconds": float(sum(chain.cpu_seconds for chain in chains)),
        "num_gradients": sum(chain.num_gradients for chain in chains),
        "steps_median": float(np.median(steps)),
        "steps_most": int(steps.max()),
        "divergences": int(sum(chain.diverging.sum() for chain in chains)),
        "r_hat": float(split_gelman_rubin(draws).max()),
        "effective_draws": float(effective.min()),
        "effective_draws_median": float(np.median(effective)),
        **NOT_WEIGHED,
        **moments(draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))),
    }


NO_CHAINS: Row = dict.fromkeys(
    (
        *("num_gradients", "steps_median", "steps_most", "divergences"),
        *("r_hat", "effective_draws", "effective_draws_median"),
    )
)
NOT_WEIGHED: Row = dict.fromkeys(
    (
        *("k_hat", "weighed_draws", "largest_shift", "largest_shift_error"),
        *("q_sd_ratio_low", "q_sd_ratio_high", "physics", "rounds", "notes"),
    )
)


def approximate_row(
    run: Callable[[InverseProblem, int], Posterior], seed: int, sizes: Sizes
) -> Row:
    problem = block_problem(seed, levels=sizes.levels)
    clock, cpu = perf_counter(), process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are kept as notes
        found = jax.block_until_ready(run(problem, seed))
    seconds, cpu_seconds = perf_counter() - clock, process_time() - cpu
    check = importance_check(found, num_draws=sizes.importance_draws, seed=seed)
    variances = np.diag(np.asarray(found.coordinate_covariance()))
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        **NO_CHAINS,
        **weighed(check),
        **surrogate_measures(found),
        "notes": " ".join((*found.notes, *warnings_of(check))),
        **moments(np.asarray(found.coordinate_mean()), np.sqrt(variances)),
    }


def weighed(check: ImportanceCheck) -> Row:
    """What importance weights say; shifts and ratios are those of the corrected moments."""
    farthest = int(np.argmax(np.abs(check.mean_shift)))
    return {
        "k_hat": check.k_hat,
        "weighed_draws": check.effective_draws,
        "largest_shift": float(check.mean_shift[farthest]),
        "largest_shift_error": float(check.mean_shift_error[farthest]),
        "q_sd_ratio_low": float(check.sd_ratio.min()),
        "q_sd_ratio_high": float(check.sd_ratio.max()),
    }


def surrogate_measures(posterior: Posterior) -> Row:
    """How much of the equation the surrogate leaves, in the dual norm, and after how many rounds.

    Exact solves leave nothing.
    """
    physics = posterior.history.get("physics")
    if physics is None:
        return {"physics": None, "rounds": None}
    return {"physics": float(np.sqrt(physics[-1])), "rounds": len(physics)}


def moments(mean: Float[np.ndarray, " block"], sd: Float[np.ndarray, " block"]) -> Row:
    """Of the log-diffusivities, row by row of the blocks."""
    return {"log_mean": (PRIOR_SD * mean).tolist(), "log_sd": (PRIOR_SD * sd).tolist()}


def errors(rows: Sequence[Row]) -> list[Row]:
    """Each method against NUTS, over all blocks: means in posterior sd, and ratios of sd."""
    exact = {row["method"]: row for row in rows}.get(REFERENCE)
    if exact is None:
        return []
    mean, sd = np.array(exact["log_mean"]), np.array(exact["log_sd"])
    found = []
    for row in rows:
        if row is exact:
            continue
        shifts = np.abs(np.array(row["log_mean"]) - mean) / sd
        ratios = np.array(row["log_sd"]) / sd
        found.append(
            {
                "method": row["method"],
                "mean_error_sd_median": float(np.median(shifts)),
                "mean_error_sd_rms": float(np.sqrt(np.mean(shifts**2))),
                "mean_error_sd_worst": float(shifts.max()),
                "sd_ratio_median": float(np.median(ratios)),
                "sd_ratio_low": float(ratios.min()),
                "sd_ratio_high": float(ratios.max()),
                "k_hat": row["k_hat"],
                "weighed_draws": row["weighed_draws"],
                "cpu_seconds": row["cpu_seconds"],
            }
        )
    return found


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for row in rows:
        if row["method"] == REFERENCE:
            for key in ("seconds", "effective_draws", "r_hat", "divergences"):
                summary[f"{REFERENCE}: {key.replace('_', ' ')}"] = row[key]
    for row in errors(rows):
        for key, value in row.items():
            if key != "method":
                summary[f"{row['method']}: {key.replace('_', ' ')}"] = value
    return summary


def draw(rows: Sequence[Row], out: Path) -> None:
    draw_moments(rows, out / "blocks.png")
    with replacing(out / ERRORS_FILE) as table:
        table.write(markdown_table(errors(rows)).encode())

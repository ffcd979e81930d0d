"""Sixty-four unknowns: other engines held against NUTS, block by block.

Each row is a method with all it says of itself, and the moments of all log-diffusivities; errors
against NUTS follow from the rows.
"""

import math
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
from matplotlib.axes import Axes

from riesz.density.engine import Engine
from riesz.density.surrogate.surrogate import Surrogate
from riesz.inference.run import RunSettings, check_posterior
from riesz.io.store.files import replacing
from riesz.io.store.results import Row, markdown_table
from riesz.method.gaussian_vi import GaussianVI
from riesz.method.laplace import Laplace
from riesz.method.mcmc.mcmc import MCMC
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.chains import agreement
from riesz.posterior.checks import rms_of
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz_paper.experiments.blocks.chains import Chain, ChainSettings, block_chain, side_by_side
from riesz_paper.experiments.blocks.problem import (
    FINER,
    LEVELS,
    NUM_BLOCKS,
    PRIOR_SD,
    block_problem,
    sensors,
    true_diffusivity,
)
from riesz_paper.running.task import Experiment, Task

REFERENCE = "nuts"
ERRORS_FILE = "errors.md"


NO_CHAINS: Row = dict.fromkeys(
    (
        *("cpu_seconds_chain", "num_gradients", "steps_median", "steps_most", "divergences"),
        *("r_hat", "effective_draws", "effective_draws_median"),
    )
)
NOT_CHECKED: Row = dict.fromkeys(
    (
        *("k_hat", "weighed_draws", "largest_shift", "largest_shift_error"),
        *("corrected_sd_ratio_low", "corrected_sd_ratio_high"),
        *("dual_residual", "energy_error", "efficiency", "sensor_error_noise_sd", "rounds"),
    )
)


@dataclass(frozen=True)
class Sizes:
    """Of a run."""

    levels: int  # nested meshes from one square a block on
    pilot_warmup: int
    pilot_samples: int
    num_warmup: int
    num_samples: int  # in each chain
    num_chains: int  # a process each
    sampled: int  # by `mcmc`, in each chain, and half as many before
    rounds: int = 25  # of the surrogate, at most


SIZES = {
    "smoke": Sizes(2, 5, 5, 5, 10, 2, 10, rounds=2),
    "quick": Sizes(2, 100, 50, 50, 50, 2, 50),
    "full": Sizes(LEVELS, 200, 300, 150, 2000, 2, 1100),
}

ENGINES = {
    "laplace": Engine(Laplace(num_modes=NUM_BLOCKS**2)),
    "variational": Engine(GaussianVI()),
    "emulate": Engine(GaussianVI(), Surrogate(tries_states=False)),
}
"""Those that approximate, by their names in rows."""


def blocks(seed: int, mode: str) -> Experiment:
    """One row a method; NUTS first, whose chains are processes."""
    sizes = SIZES[mode]
    runs: dict[str, Callable[[], Row]] = {
        REFERENCE: partial(nuts_row, seed, sizes),
        "sample": partial(sample_row, seed, sizes),
    } | {name: partial(approximate_row, own, seed, sizes) for name, own in ENGINES.items()}
    nodes = (8 * 2 ** (sizes.levels - 1) + 1) ** 2
    tasks = [Task({"method": name, "nodes": nodes}, run) for name, run in runs.items()]
    config = {"mode": mode, "finer": FINER, **vars(sizes)}
    return Experiment("blocks", config, tasks, summarise, draw)


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
    counted = {
        "seconds": seconds,
        "cpu_seconds": float(sum(chain.cpu_seconds for chain in chains)),
        "cpu_seconds_chain": float(max(chain.cpu_seconds for chain in chains)),
        "num_gradients": sum(chain.num_gradients for chain in chains),
        "divergences": int(sum(chain.diverging.sum() for chain in chains)),
    }
    return counted | chains_row(draws, steps) | {"notes": None}


def sample_row(seed: int, sizes: Sizes) -> Row:
    """All in: data, compilation, searches and warm-up."""
    clock, cpu = perf_counter(), process_time()
    engine = Engine(MCMC(num_warmup=min(300, sizes.sampled), num_samples=sizes.sampled))
    found = engine.run(block_problem(seed, levels=sizes.levels), seed=seed)
    assert isinstance(found.distribution, EmpiricalDraws)
    draws = np.asarray(found.distribution.by_chain)
    counted = {
        "seconds": perf_counter() - clock,
        "cpu_seconds": process_time() - cpu,
        "cpu_seconds_chain": None,  # chains share their threads
        "num_gradients": int(found.history["num_gradients"]),
        "divergences": int(found.history["diverging"].sum()),
    }
    steps = np.asarray(found.history["num_steps"])
    return counted | chains_row(draws, steps) | {"notes": " ".join(map(str, found.notes)) or None}


def chains_row(draws: Float[np.ndarray, "chain draw block"], steps: np.ndarray) -> Row:
    """How well chains agree, and moments of all their draws."""
    found = agreement(draws)
    return {
        "steps_median": float(np.median(steps)),
        "steps_most": int(steps.max()),
        "r_hat": float(found.r_hat.max()),
        "effective_draws": float(found.effective_draws.min()),
        "effective_draws_median": float(np.median(found.effective_draws)),
        **NOT_CHECKED,
        **moments(draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))),
    }


def approximate_row(engine: Engine, seed: int, sizes: Sizes) -> Row:
    """Seconds are those of the fit alone, with its compilation; checks come after."""
    problem = block_problem(seed, levels=sizes.levels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are kept as notes
        clock, cpu = perf_counter(), process_time()
        is_trained = isinstance(engine.density, Surrogate)
        taken = engine.with_settings(rounds=sizes.rounds) if is_trained else engine
        fitted = jax.block_until_ready(taken.run(problem, seed=seed))
        seconds, cpu_seconds = perf_counter() - clock, process_time() - cpu
        found = check_posterior(fitted, RunSettings(seed, progress=False, check=True))
    variances = np.diag(np.asarray(found.coordinate_covariance()))
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        **NO_CHAINS,
        **told(found),
        "notes": " ".join(map(str, found.notes)),
        **moments(np.asarray(found.coordinate_mean()), np.sqrt(variances)),
    }


def told(posterior: Posterior) -> Row:
    """What the checks say: weights and the moments that they correct, and the surrogate's error."""
    row = dict(NOT_CHECKED)
    check, error = posterior.check, posterior.surrogate_error
    if check is not None:
        farthest = int(np.argmax(np.abs(check.mean_shift)))
        row |= {
            "k_hat": check.k_hat,
            "weighed_draws": check.effective_draws,
            "largest_shift": float(check.mean_shift[farthest]),
            "largest_shift_error": float(check.mean_shift_error[farthest]),
            "corrected_sd_ratio_low": float(check.sd_ratio.min()),
            "corrected_sd_ratio_high": float(check.sd_ratio.max()),
        }
    if error is not None:
        row |= {
            "dual_residual": rms_of(error.estimate),
            "energy_error": rms_of(error.error),
            "efficiency": float(np.median(error.efficiency)),
            "sensor_error_noise_sd": float(error.sensor_error.max()),
            "rounds": len(posterior.history["moved"]),
        }
    # Where a single draw has all the weight, nothing is left to be corrected.
    return {k: v if v is None or math.isfinite(v) else None for k, v in row.items()}


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
                "dual_residual": row["dual_residual"],
                "energy_error": row["energy_error"],
                "cpu_seconds": row["cpu_seconds"],
            }
        )
    return found


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    summary: dict[str, Any] = {"rows": len(rows)}
    for row in rows:
        if row["method"] == REFERENCE:
            for key in ("seconds", "cpu_seconds_chain", "effective_draws", "r_hat", "divergences"):
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


def draw_moments(rows: Sequence[Row], path: Path) -> None:
    """Means above, standard deviations below; the prior's stands below the truth."""
    figure, axes = new_figure(len(rows) + 1, 2, width=3.4, height=3.4)
    above, below = axes[: len(rows) + 1], axes[len(rows) + 1 :]
    means = [("truth", np.log(true_diffusivity()).ravel())]
    means += [(f"mean, {row['method']}", np.array(row["log_mean"])) for row in rows]
    spreads = [("sd, prior", np.full(NUM_BLOCKS**2, PRIOR_SD))]
    spreads += [(f"sd, {row['method']}", np.array(row["log_sd"])) for row in rows]
    for panel, (title, values) in zip(above, means, strict=True):
        draw_blocks(panel, title, values, -3.0, 3.0, "RdBu_r")
    for panel, (title, values) in zip(below, spreads, strict=True):
        draw_blocks(panel, title, values, 0.0, 2.5, "viridis")
    above[0].plot(*sensors().T, "k.", markersize=2)
    save_figure(path, figure)


def draw_blocks(
    axes: Axes,
    title: str,
    values: Float[np.ndarray, " block"],
    low: float,
    high: float,
    colours: str,
) -> None:
    picture = axes.imshow(
        values.reshape(NUM_BLOCKS, NUM_BLOCKS),
        origin="lower",
        extent=(0.0, 1.0, 0.0, 1.0),
        vmin=low,
        vmax=high,
        cmap=colours,
    )
    axes.set_title(f"log a: {title}")
    axes.figure.colorbar(picture, ax=axes, location="bottom", shrink=0.8)

r"""One training of an encoder, many data sets: the transport problem at fixed sensors.

The velocities of the data sets come from the prior, their states from a mesh finer than the fitted
one, as in the experiment `transport`. Each posterior is held against the exact one of the fitted
mesh: the error of the mean in exact standard deviations, the ratio of standard deviations, both of
the worse coordinate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.amortise.amortised import Amortised
from riesz.amortise.engine import Amortise
from riesz.fem.elements.space import point_operator
from riesz.fem.solve import solve
from riesz.io.store.results import Row
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior
from riesz.problem.posing import with_observations
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.transport.data import (
    NUM_SENSORS,
    PRIOR_SD,
    RELATIVE_NOISE,
    data_problem,
    num_nodes,
    random_points,
    template,
)
from riesz_paper.experiments.transport.exact import ExactPosterior, exact_posterior
from riesz_paper.experiments.transport.experiment import compared, farthest_from_one
from riesz_paper.experiments.transport.methods import Timed, timed
from riesz_paper.running.task import Experiment, Task

METHOD = "amortised"
DOMAIN = "square"
LEVELS = 4
"""Nested meshes: 33 x 33 nodes are fitted."""
NUM_DATA = {"smoke": 2, "quick": 20, "full": 100}
LARGEST_STATE = 0.0737  # of the state that nothing carries away, at the centre of the square
NOISE_SD = RELATIVE_NOISE * LARGEST_STATE
ENGINE = Amortise()
SENSORS, EXAMPLE, SCORED = range(3)  # streams of random numbers

FLOOR = 1e-3
"""Errors below are drawn here: log axes have no zero."""


@dataclass(frozen=True)
class DataSet:
    """A velocity, and what the sensors see of its state."""

    velocity: Float[np.ndarray, " 2"]
    values: Float[np.ndarray, " sensor"]


def amortised(seed: int, mode: str) -> Experiment:
    """One encoder for all data sets of a seed, which also draws the sensors."""
    nodes = num_nodes(DOMAIN, LEVELS)
    tasks = [
        Task({"method": METHOD, "nodes": nodes, "replicate": k}, partial(row, seed, k))
        for k in range(NUM_DATA[mode])
    ]
    config = {
        "mode": mode,
        "prior_sd": PRIOR_SD,
        "num_sensors": NUM_SENSORS,
        "noise_sd": NOISE_SD,
    }
    return Experiment("amortised", config, tasks, summarise, draw)


@lru_cache(maxsize=2)
def sensor_points(seed: int) -> Float[np.ndarray, "sensor 2"]:
    return random_points(np.random.default_rng([seed, SENSORS]), DOMAIN, NUM_SENSORS)


def data_set(seed: int, stream: int, replicate: int) -> DataSet:
    """A velocity from the prior, and its state on the data's mesh at the sensors, with noise."""
    rng = np.random.default_rng([seed, stream, replicate])
    velocity = PRIOR_SD * rng.standard_normal(2)
    problem = data_problem(DOMAIN)
    state = solve(problem, {"tau": jnp.asarray(velocity)})
    clean = np.asarray(point_operator(problem.space, sensor_points(seed)) @ state)
    return DataSet(velocity, clean + NOISE_SD * rng.standard_normal(NUM_SENSORS))


def posed(seed: int, values: Float[np.ndarray, " sensor"]) -> InverseProblem:
    seen = observations(sensor_points(seed), values)
    noise = Gaussian(np.full(NUM_SENSORS, NOISE_SD))
    return with_observations(template(DOMAIN, LEVELS), seen, noise)


@lru_cache(maxsize=1)
def trained(seed: int) -> tuple[Amortised, Timed]:
    """The encoder and what its training took, compilation included; no scored data are seen."""
    example = posed(seed, data_set(seed, EXAMPLE, 0).values)

    def run() -> Amortised:
        return jax.block_until_ready(ENGINE.train(example, seed=seed))

    found, taken = timed(run)
    found.posterior(example.observations.values)  # compiles: left out of the times that follow
    return found, taken


def row(seed: int, replicate: int) -> Row:
    encoder, training = trained(seed)
    data = data_set(seed, SCORED, replicate)
    posterior, taken = timed(lambda: jax.block_until_ready(encoder.posterior(data.values)))
    problem = posed(seed, data.values)
    anywhere = point_operator(problem.forward.space, sensor_points(seed)[:1])
    truth, exact_taken = timed(lambda: exact_posterior(problem, anywhere))
    return {
        **scores(posterior, truth),
        "speed": float(np.linalg.norm(data.velocity)),
        "seconds": taken.seconds,
        "cpu_seconds": taken.cpu_seconds,
        "exact_seconds": exact_taken.seconds,
        "training_seconds": training.seconds,
        "training_cpu_seconds": training.cpu_seconds,
    }


def scores(posterior: Posterior, truth: ExactPosterior) -> Row:
    mean = np.asarray(posterior.coordinate_mean())
    sd = np.sqrt(np.diagonal(np.asarray(posterior.coordinate_covariance())))
    error, ratios = compared(mean, sd, truth)
    return {
        "mean_error_sd": error,
        "sd_ratio": farthest_from_one(ratios),
        "sd_ratio_low": float(ratios.min()),
        "sd_ratio_high": float(ratios.max()),
    }


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Over data sets; errors and ratios are those of the worse coordinate of each."""
    if not rows:
        return {}
    errors = [r["mean_error_sd"] for r in rows]
    return {
        "rows": len(rows),
        "median_mean_error_sd": float(np.median(errors)),
        "95th_percentile_mean_error_sd": float(np.quantile(errors, 0.95)),
        "worst_mean_error_sd": max(errors),
        "median_sd_ratio": float(np.median([r["sd_ratio"] for r in rows])),
        "lowest_sd_ratio": min(r["sd_ratio_low"] for r in rows),
        "highest_sd_ratio": max(r["sd_ratio_high"] for r in rows),
        "median_seconds": float(np.median([r["seconds"] for r in rows])),
        "longest_seconds": max(r["seconds"] for r in rows),
        "median_exact_seconds": float(np.median([r["exact_seconds"] for r in rows])),
        "training_seconds": max(r["training_seconds"] for r in rows),
        "training_cpu_seconds": max(r["training_cpu_seconds"] for r in rows),
    }


def draw(rows: Sequence[Row], out: Path) -> None:
    draw_scores(rows, out / "scores.png")


def draw_scores(rows: Sequence[Row], path: Path) -> None:
    """Errors of means, and ratios of standard deviations, against the speed of transport."""
    speeds = [r["speed"] for r in rows]
    figure, (left, right) = new_figure(2, height=3.4)
    left.scatter(speeds, [max(r["mean_error_sd"], FLOOR) for r in rows], s=12, color="black")
    left.set(yscale="log", ylabel="error of the mean / exact sd")
    low, high = [r["sd_ratio_low"] for r in rows], [r["sd_ratio_high"] for r in rows]
    right.axhline(1.0, color="tab:blue", linewidth=1)
    right.vlines(speeds, low, high, color="black", linewidth=1)
    right.scatter([*speeds, *speeds], [*low, *high], s=8, color="black")
    right.set(ylabel="sd / exact sd, both coordinates")
    for one in (left, right):
        one.set(xlabel="speed of transport")
    save_figure(path, figure)

"""Simulation-based calibration at scale, by fits of many data sets at once.

Unknowns come from the prior, data from exact solves with noise; `rz.inference.fit_data_sets` fits
them together, each checked by exact solves, and the ranks of the truths among draws of their
posteriors must be uniform. `transport` is the problem of `many_batched.py` (two unknowns); `field`
a log-diffusivity of 16 unknowns on 33 x 33 nodes with 40 sensors.
"""

import json
import time
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
from bench import parser_of, save

import riesz as rz
from riesz.amortise.importance import exact_predictions
from riesz.amortise.simulate import Simulator
from riesz.density.reduced_basis import reduce_over_prior
from riesz.devices import devices_of, map_data_sets
from riesz.diagnose.calibration import Calibration

COUNT, LEVELS = 1000, 4
NUM_UNKNOWNS, NUM_SENSORS, NOISE_SD = 16, 40, 0.002
PART = 100
"""Data sets that are fitted together; the first ones a second time, and means must agree."""


def field(seed: int):
    """A log-diffusivity, from readings of the state."""
    points = np.random.default_rng([seed, 0]).uniform(0.05, 0.95, size=(NUM_SENSORS, 2))
    kernel = rz.Matern32(length_scale=0.4, sd=0.7)
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((4, 4)), LEVELS),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": rz.KarhunenLoeve(kernel, num_terms=NUM_UNKNOWNS, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, np.full(NUM_SENSORS, 0.02)),
        likelihood=rz.Gaussian(np.full(NUM_SENSORS, NOISE_SD)),
    )


def predicted(simulator: Simulator, place):
    return simulator.predict(place)


def calibration(problem, count: int, seed: int) -> tuple[Calibration, dict]:
    """Ranks of truths in their posteriors, and how the data sets were fitted."""
    rng, size = np.random.default_rng([seed, 1]), problem.num_coordinates
    noise_sd = np.asarray(problem.likelihood.sd)
    truths = rng.normal(size=(count, size))
    clean = exact_predictions(problem, truths, devices_of("all"))
    values = clean + noise_sd * rng.normal(size=clean.shape)
    model = reduce_over_prior(problem, seed)
    start = time.perf_counter()
    # Data sets that are fitted together share their draws, and what chance does to these: a seed
    # for each part of them, or ranks would tell of nothing else.
    parts = np.array_split(values, max(1, count // PART))
    each = [
        rz.inference.fit_data_sets(problem, some, model=model, seed=seed + number)
        for number, some in enumerate(parts)
    ]
    seconds = time.perf_counter() - start
    again = rz.inference.fit_data_sets(problem, parts[0], model=model, seed=seed + len(parts))
    draws, sd = (
        np.concatenate([one.found.draws for one in each]),
        np.concatenate([one.sd for one in each]),
    )
    below = np.sum(draws < truths[:, None], axis=1) + rng.uniform(size=truths.shape)
    seen = map_data_sets(predicted, Simulator(problem, model), truths, width=64, devices=None)
    gaps = np.abs(each[0].mean - again.mean) / again.sd
    counts = Counter(verdict for one in each for verdict in one.verdicts)
    found = Calibration(
        names=problem.latents.coordinate_names(),
        ranks=below / (draws.shape[1] + 1),
        contraction=1 - np.mean(sd**2, axis=0),
        sensor_errors=np.max(np.abs(seen - clean) / noise_sd, axis=1),
        start_gaps=gaps.max(axis=1),
        num_unsettled=counts["doubtful"],
        seconds=seconds,
    )
    return found, {**counts, "contradict": int(sum(one.contradict.sum() for one in each))}


SMOKE = {"COUNT": 3, "LEVELS": 2, "NUM_UNKNOWNS": 2, "NUM_SENSORS": 4}


def main() -> None:
    from many_batched import transport

    problems = {"transport": transport, "field": field}
    parser = parser_of(globals(), "results/sbc.json")
    parser.add_argument("problem", choices=problems, nargs="?", default="field")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    found, counts = calibration(
        problems[options.problem](options.seed), options.count, options.seed
    )
    print(found)
    print(json.dumps(counts))
    config = {"problem": options.problem, "device": jax.devices()[0].device_kind}
    figures = {**found.figures(), **counts}
    save(options.out, config, options.seed, found.rows(), figures)


if __name__ == "__main__":
    main()

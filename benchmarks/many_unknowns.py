"""Which method is right where a log-diffusivity has 20, 32 or 64 unknowns, and what does it say?

Karhunen-Loeve terms on 33^2 nodes, 40 sensors, two per cent of noise; truths are draws of the
prior. Means and standard deviations at the nodes are held against those of `mcmc` with many
draws, and the share of nodes whose truth lies in its 95 % interval is counted. Processor seconds
are those of a process that does one fit, compilation and check included.

A row may run alone, so that rows can be spread over many machines, and their lines be joined:
    python benchmarks/many_unknowns.py --terms 20 --seed 3 --engine gaussian-vi >> rows.jsonl
    python benchmarks/many_unknowns.py --rows rows.jsonl
"""

import json
import os
import platform
import time
import warnings
from collections import defaultdict
from pathlib import Path

from bench import in_process, parser_of, save, told

REFERENCE = "reference"
ENGINES = ("laplace", "gaussian-vi", "mcmc", "auto")
TERMS = (20, 32, 64)
NUM_COMPARED, NUM_COVERED = 3, 20
"""Data sets that are held against the reference, and those over which coverage is counted."""

CELLS, NUM_SENSORS, RELATIVE_NOISE = 32, 40, 0.02
FIELD_SD, LENGTH_SCALE = 1.0, 0.3
REFERENCE_DRAWS = 5000
"""Of each of four chains."""

LEVELS = (0.025, 0.975)
NODAL = ("log_mean", "log_sd")
"""Lists in rows that are dropped once they have been compared."""


def posed(num_terms: int, seed: int):
    """A problem, and the truth behind its data at the nodes."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    rng = np.random.default_rng([num_terms, seed])
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, 2))
    kernel = rz.Matern32(sd=FIELD_SD, length_scale=LENGTH_SCALE)
    mesh = rz.rectangle((CELLS, CELLS))

    def with_data(values, noise_sd: float):
        return rz.inverse_problem(
            mesh,
            rz.diffusion("a") - rz.source(1.0),
            latents={"a": rz.KarhunenLoeve(kernel, num_terms=num_terms, transform=jnp.exp)},
            dirichlet={"boundary": 0.0},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian(noise_sd),
        )

    empty = with_data(np.zeros(NUM_SENSORS), 1.0)
    truth = jnp.asarray(rng.standard_normal(num_terms))
    clean = np.asarray(empty.operator @ empty.state(truth))
    noise_sd = RELATIVE_NOISE * float(np.abs(clean).max())
    problem = with_data(clean + noise_sd * rng.standard_normal(NUM_SENSORS), noise_sd)
    return problem, log_field(problem, truth[None])[0]


def log_field(problem, coordinates):
    """The logarithm of the unknown at the nodes, for each draw."""
    import jax
    import numpy as np

    field = problem.latents.latents["a"].coefficient("a").field
    weights = jax.vmap(lambda one: problem.z(one)["a"].weights)(coordinates)
    return np.log(field.nodal_draws(np.asarray(weights)))


def verdict_of(posterior) -> str:
    """In a few words: what a check says, or that chains have been looked at."""
    if posterior.check is not None:
        return posterior.check.verdict
    notes = posterior.notes
    return "good" if not notes or notes[-1].code == "engine_adequate" else "see notes"


def measure(num_terms: int, seed: int, engine: str) -> dict:
    """One row, alone."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.random as jr
    import numpy as np

    import riesz as rz
    from riesz.posterior.posterior import representative_draws

    problem, truth = posed(num_terms, seed)
    taken = rz.MCMC(num_samples=REFERENCE_DRAWS) if engine == REFERENCE else engine
    clock, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = rz.fit(problem, taken, seed=seed, progress=False)
    spent = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}
    fields = log_field(problem, representative_draws(posterior, jr.key(seed), None))
    low, high = np.quantile(fields, LEVELS, axis=0)
    inside = (low <= truth) & (truth <= high)
    check = posterior.check
    return {
        "terms": num_terms,
        "seed": seed,
        "engine": engine,
        "taken": posterior.engine,
        "verdict": verdict_of(posterior),
        "k_hat": None if check is None else check.k_hat,
        "effective_draws": None if check is None else check.effective_draws,
        "coverage95": float(inside.mean()),
        **spent,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "notes": list(map(str, posterior.notes)),
        "log_mean": np.round(fields.mean(axis=0), 5).tolist(),
        "log_sd": np.round(fields.std(axis=0, ddof=1), 5).tolist(),
    }


def compared(row: dict, reference: dict | None) -> dict:
    """With its errors by the reference's standard deviations, without the moments themselves."""
    import numpy as np

    kept = {name: value for name, value in row.items() if name not in NODAL}
    if reference is None:
        return kept | {"mean_error_sd": None, "worst_mean_error_sd": None, "sd_ratio": None}
    mean, sd = (np.asarray(reference[name]) for name in NODAL)
    errors = np.abs(np.asarray(row["log_mean"]) - mean) / sd
    return kept | {
        "mean_error_sd": float(errors.mean()),
        "worst_mean_error_sd": float(errors.max()),
        "sd_ratio": float(np.mean(np.asarray(row["log_sd"]) / sd)),
    }


def summarised(rows: list[dict]) -> dict:
    """By number of terms, engine and verdict."""
    import numpy as np

    groups = defaultdict(list)
    for row in rows:
        groups[f"{row['terms']} terms, {row['engine']}, {row['verdict']}"].append(row)
    found = {}
    for name, own in sorted(groups.items()):
        held = [row for row in own if row["mean_error_sd"] is not None]
        ratios = [row["sd_ratio"] for row in held]
        found[name] = {
            "data_sets": len(own),
            "coverage95": float(np.mean([row["coverage95"] for row in own])),
            "cpu_seconds": float(np.median([row["cpu_seconds"] for row in own])),
            "mean_error_sd": max((row["mean_error_sd"] for row in held), default=None),
            "sd_ratio_low": min(ratios, default=None),
            "sd_ratio_high": max(ratios, default=None),
        }
    return found


def cases(engines: list[str], all_terms: list[int]) -> list[tuple[int, int, str]]:
    """All rows: references first."""
    few, many = range(NUM_COMPARED), range(NUM_COVERED)
    wanted = [(terms, seed, REFERENCE) for terms in all_terms for seed in few]
    return wanted + [(t, seed, engine) for t in all_terms for seed in many for engine in engines]


SMOKE = {"CELLS": 4, "NUM_SENSORS": 4, "TERMS": (2,), "ENGINES": ("laplace",)}
SMOKE |= {"NUM_COMPARED": 1, "NUM_COVERED": 1, "REFERENCE_DRAWS": 20}


def main() -> None:
    parser = parser_of(globals(), "results/bench-many-unknowns.json")
    parser.add_argument("--terms", type=int, nargs="*", default=list(TERMS))
    parser.add_argument("--seed", type=int, help="Print the row of one data set and one engine.")
    parser.add_argument("--engine", nargs="*", default=list(ENGINES))
    parser.add_argument("--rows", type=Path, nargs="*", help="Join printed rows instead.")
    options = parser.parse_args()
    if options.seed is not None:
        for terms in options.terms:
            for engine in options.engine:
                print(json.dumps(measure(terms, options.seed, engine)), flush=True)
        return
    if options.rows:
        lines = [line for path in options.rows for line in path.read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
    else:
        rows = [
            told(in_process("--terms", str(terms), "--seed", str(seed), "--engine", engine))
            for terms, seed, engine in cases(options.engine, options.terms)
        ]
    known = {(row["terms"], row["seed"]): row for row in rows if row["engine"] == REFERENCE}
    held = [compared(row, known.get((row["terms"], row["seed"]))) for row in rows]
    config = {
        "cells": CELLS,
        "sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
        "field_sd": FIELD_SD,
        "length_scale": LENGTH_SCALE,
        "reference_draws": REFERENCE_DRAWS,
    }
    summary = summarised(held)
    save(options.out, config, 0, held, summary)
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()

"""What do an estimate of the mesh's error, and its correction, take beside the fit alone?

Problems of `auto.py` by `auto` and one in time by `laplace`, each way in a process of its own and
the three after one another, twice; seconds have compilation and checks in them.
"""

import json
import time
import warnings
from collections.abc import Callable
from typing import Any

from auto import PROBLEMS as STEADY
from bench import in_process, parser_of, save, told

SEED, REPEATS = 3, 2
WAYS = ("off", "report", "correct")
CELLS, STEPS, NUM_TERMS, RELATIVE_NOISE = 24, 24, 10, 0.02


def in_time():
    """Unknown recharge, storage and transmissivity from 20 wells that are read at each step."""
    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist

    import riesz as rz

    rng, times = np.random.default_rng(SEED), np.linspace(0, 2, STEPS + 1)
    points = np.repeat(rng.uniform(0.1, 0.9, (20, 2)), STEPS, axis=0)

    def read(values, noise_sd):
        return rz.inverse_problem(
            rz.rectangle((CELLS, CELLS)),
            rz.storage("s") + rz.diffusion("k") - rz.source("f"),
            latents={
                "s": dist.LogNormal(0.0, 0.5),
                "k": dist.LogNormal(-1.0, 0.5),
                "f": rz.KarhunenLoeve(rz.Matern32(1.0, 0.4), num_terms=NUM_TERMS),
            },
            dirichlet={"boundary": 0.0},
            times=times,
            initial=0.0,
            observations=rz.observations(points, values, times=np.tile(times[1:], 20)),
            likelihood=rz.Gaussian(noise_sd),
        )

    empty = read(np.zeros(len(points)), 1.0)
    truth = jnp.asarray(rng.normal(size=empty.num_coordinates))
    clean = np.asarray(empty.predict(empty.solve(truth, empty.default_solver()), empty.z(truth)))
    noise_sd = RELATIVE_NOISE * float(np.abs(clean).max())
    return read(clean + noise_sd * rng.standard_normal(len(clean)), noise_sd)


STEADY_NAMES = ("transport", "linear source", "32 terms", "33 x 33 nodes", "65 x 65 nodes")
PROBLEMS: dict[str, tuple[Callable[[], Any], str]] = {
    name: (STEADY[name][0], "auto") for name in STEADY_NAMES
} | {"in time": (in_time, "laplace")}


def measure(name: str, way: str) -> dict:
    """One row, alone."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import riesz as rz

    pose, engine = PROBLEMS[name]
    problem = pose()
    cpu, begun = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = rz.fit(problem, engine, seed=SEED, progress=False, mesh_error=way)
    shift = posterior.mesh_shift
    return {
        "problem": name,
        "way": way,
        "engine": posterior.engine,
        "unknowns": problem.num_coordinates,
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - cpu,
        "off_in_noise": None if shift is None else float(shift.in_noise.max()),
        "is_corrected": bool(shift is not None and shift.is_corrected),
    }


def summarised(rows: list[dict]) -> dict:
    """Processor seconds over those of the fit alone, the smallest of each."""
    found = {}
    for name in PROBLEMS:
        least = {
            way: min(r["cpu_seconds"] for r in rows if (r["problem"], r["way"]) == (name, way))
            for way in WAYS
        }
        found |= {f"{name}: {way}": least[way] / least["off"] for way in WAYS[1:]}
    return found


SMOKE = {
    "PROBLEMS": {"in time": (in_time, "laplace")},
    "REPEATS": 1,
    "CELLS": 4,
    "STEPS": 3,
    "NUM_TERMS": 2,
}


def main() -> None:
    parser = parser_of(globals(), "results/bench-mesh-error.json")
    parser.add_argument("--problem", choices=PROBLEMS, help="Print one row.")
    parser.add_argument("--way", choices=WAYS, default="off")
    options = parser.parse_args()
    if options.problem:
        print(json.dumps(measure(options.problem, options.way)))
        return
    rows = [
        told(in_process("--problem", name, "--way", way))
        for name in PROBLEMS
        for _ in range(REPEATS)
        for way in WAYS
    ]
    save(options.out, {"repeats": REPEATS}, SEED, rows, summarised(rows))
    print(json.dumps(summarised(rows), indent=1))


if __name__ == "__main__":
    main()

"""What does an independent draw of the posterior cost, with 64 unknowns and with one a node?

The engine `sample` on the problem of 64 blocks, and on a log-diffusivity with one unknown a node of
33^2, 65^2 and 129^2, 50 sensors and two per cent of noise. Processor seconds are those of the whole
fit, compilation included; gradients those of searches left out. Moments of the blocks are in the
rows, so that runs can be held against each other.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

SIDES = (32, 64, 128)
FINER = 192
NUM_SENSORS, RELATIVE_NOISE = 50, 0.02
FIELD_SD, LENGTH_SCALE = 1.0, 0.3


def log_diffusivity(x):
    """The truth: smooth, between about -1.5 and 1.5."""
    import jax.numpy as jnp

    return jnp.sin(3 * x[0] + 1) * jnp.cos(4 * x[1]) + 0.5 * jnp.cos(5 * (x[0] + x[1]))


def field_problem(sides: int, seed: int):
    """One unknown a node, with data from a mesh that is not fitted."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    rng = np.random.default_rng(seed)
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, 2))
    space = rz.P1(rz.rectangle((FINER, FINER)))
    truth = rz.diffusion(lambda x: jnp.exp(log_diffusivity(x))) - rz.source(1.0)
    state = rz.solve(rz.boundary_value_problem(space, truth, {"boundary": 0.0}))
    clean = np.asarray(rz.point_operator(space, points) @ state)
    noise_sd = RELATIVE_NOISE * np.abs(clean).max()
    return rz.inverse_problem(
        rz.rectangle((sides, sides)),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": rz.SPDEField(FIELD_SD, LENGTH_SCALE, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, clean + noise_sd * rng.standard_normal(NUM_SENSORS)),
        likelihood=rz.Gaussian(float(noise_sd)),
    )


def field_draws(problem, posterior):
    """The logarithm of the field at 49 places, by chain."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    ticks = np.arange(1, 8) / 8
    places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    nodes = np.asarray(problem.forward.space.mesh.nodes)
    near = [int(np.argmin(((nodes - place) ** 2).sum(axis=1))) for place in places]
    draws = posterior.distribution.by_chain

    def one(coordinates):
        return problem.z(coordinates)["a"][jnp.asarray(near)]

    flat = draws.reshape(-1, draws.shape[2])
    return np.asarray(jax.lax.map(one, flat)).reshape(*draws.shape[:2], -1)


def timed(engine, problem, seed: int) -> tuple[dict, Any]:
    """What one run took, and its posterior."""
    clock, cpu = time.perf_counter(), time.process_time()
    posterior = engine.run(problem, seed=seed)
    history = posterior.history
    row = {
        "engine": engine.name,
        "unknowns": problem.num_coordinates,
        "nodes": problem.forward.space.mesh.num_nodes,
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - cpu,
        "num_gradients": int(history["num_gradients"]),
        "steps_a_draw": float(history["num_steps"].mean()),
        "step_size": float(history["step_size"].mean()),
        "notes": list(posterior.notes),
    }
    return row, posterior


def worth(draws, row: dict) -> dict:
    """Agreement and effective draws, the fewest and the median, and what one cost."""
    import numpy as np

    from riesz.posterior.chains import agreement

    found = agreement(draws)
    fewest = float(found.effective_draws.min())
    return row | {
        "num_chains": draws.shape[0],
        "num_draws": draws.shape[1],
        "r_hat": float(found.r_hat.max()),
        "effective_draws": fewest,
        "effective_draws_median": float(np.median(found.effective_draws)),
        "tail_draws": float(found.tail_draws.min()),
        "gradients_per_effective": row["num_gradients"] / fewest,
        "effective_a_minute": 60 * fewest / row["seconds"],
    }


def field_row(sides: int, num_draws: int, seed: int) -> dict:
    from riesz.engines.sample.engine import Sample

    problem = field_problem(sides, seed)
    row, posterior = timed(Sample(num_warmup=100, num_samples=num_draws), problem, seed)
    return {"problem": "field"} | worth(field_draws(problem, posterior), row)


def blocks_row(num_draws: int, seed: int) -> dict:
    import numpy as np

    from riesz.engines.sample.engine import Sample
    from riesz_paper.experiments.blocks.problem import PRIOR_SD, block_problem

    row, posterior = timed(Sample(num_samples=num_draws), block_problem(seed), seed)
    draws = np.asarray(posterior.distribution.by_chain)
    moments = {
        "log_mean": (PRIOR_SD * draws.mean(axis=(0, 1))).tolist(),
        "log_sd": (PRIOR_SD * draws.std(axis=(0, 1))).tolist(),
    }
    return {"problem": "blocks"} | worth(draws, row) | moments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/bench-sampler.json"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1500, help="of each chain, for the blocks")
    parser.add_argument("--field-draws", type=int, default=300, help="of each chain, for fields")
    parser.add_argument("--sides", type=int, nargs="*", default=list(SIDES))
    parser.add_argument("--no-blocks", action="store_true")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    from riesz.io.store.results import results, write_results

    rows = [] if options.no_blocks else [blocks_row(options.draws, options.seed)]
    rows += [field_row(sides, options.field_draws, options.seed) for sides in options.sides]
    figures = {
        f"{row['problem']} {row['unknowns']}: gradients an effective draw": row[
            "gradients_per_effective"
        ]
        for row in rows
    }
    config = {
        "draws": options.draws,
        "field_draws": options.field_draws,
        "sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
        "field_sd": FIELD_SD,
        "length_scale": LENGTH_SCALE,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_results(options.out, results("make bench-sampler", config, options.seed, rows, figures))
    print(json.dumps([{k: v for k, v in row.items() if "log_" not in k} for row in rows], indent=1))


if __name__ == "__main__":
    main()

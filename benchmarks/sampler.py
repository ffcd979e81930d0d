"""What does an independent draw of the posterior cost, with 64 unknowns and with one a node?

The method `mcmc` on the problem of 64 blocks, and on a log-diffusivity with one unknown a node of
33^2, 65^2 and 129^2, 50 sensors and two per cent of noise. Processor seconds are those of the whole
fit, compilation included; gradients those of searches left out. Moments of the blocks are in the
rows, so that a run can be held against a longer one of the same data (`--against`).
"""

import json
import time
from pathlib import Path
from typing import Any

from bench import parser_of, save

SIDES = (32, 64, 128)
FINER = {2: 192, 3: 56}
NUM_SENSORS, RELATIVE_NOISE = 50, 0.02
BLOCK_LEVELS, BLOCK_DRAWS = 3, 1100
FIELD_DRAWS, FIELD_WARMUP, SEARCHES = 300, 150, 6
FIELD_SD, LENGTH_SCALE = 1.0, 0.3


def log_diffusivity(x):
    """The truth: smooth, between about -1.5 and 1.5."""
    import jax.numpy as jnp

    return jnp.sin(3 * x[0] + 1) * jnp.cos(4 * x[1]) + 0.5 * jnp.cos(5 * (x[0] + x[1]))


def field_problem(sides: int, seed: int, dim: int = 2):
    """One unknown a node, with data from a mesh that is not fitted."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    rng = np.random.default_rng(seed)
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, dim))
    meshed = rz.rectangle if dim == 2 else rz.mesh.box
    space = rz.P1(meshed((FINER[dim],) * dim))
    truth = rz.diffusion(lambda x: jnp.exp(log_diffusivity(x))) - rz.source(1.0)
    state = rz.solve(rz.boundary_value_problem(space, truth, {"boundary": 0.0}))
    clean = np.asarray(rz.fem.point_operator(space, points) @ state)
    noise_sd = RELATIVE_NOISE * np.abs(clean).max()
    return rz.inverse_problem(
        meshed((sides,) * dim),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": rz.SPDEField(FIELD_SD, LENGTH_SCALE, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, clean + noise_sd * rng.standard_normal(NUM_SENSORS)),
        likelihood=rz.Gaussian(float(noise_sd)),
    )


def field_draws(problem, posterior):
    """The field at 49 places, 64 in space, by chain."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    nodes = np.asarray(problem.forward.space.mesh.nodes)
    dim = nodes.shape[1]
    ticks = np.arange(1, 8) / 8 if dim == 2 else np.arange(1, 5) / 5
    places = np.stack(np.meshgrid(*[ticks] * dim), axis=-1).reshape(-1, dim)
    near = [int(np.argmin(((nodes - place) ** 2).sum(axis=1))) for place in places]
    draws = posterior.distribution.by_chain

    def one(coordinates):
        return problem.z(coordinates)["a"].weights[jnp.asarray(near)]

    flat = draws.reshape(-1, draws.shape[2])
    return np.asarray(jax.lax.map(one, flat)).reshape(*draws.shape[:2], -1)


def timed(engine, problem, seed: int, seconds: float) -> tuple[dict, Any]:
    """What one run took, which is cut short after so many seconds, and its posterior."""
    clock, cpu = time.perf_counter(), time.process_time()
    from riesz.deadline import Deadline

    posterior = engine.run(problem, seed=seed, deadline=Deadline(clock + seconds))
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
        "notes": list(map(str, posterior.notes)),
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


def field_row(engine, sides: int, seed: int, dim: int, seconds: float) -> dict:
    problem = field_problem(sides, seed, dim)
    row, posterior = timed(engine, problem, seed, seconds)
    return {"problem": "field"} | worth(field_draws(problem, posterior), row)


def blocks_row(engine, seed: int, reference: dict | None, seconds: float) -> dict:
    """By one engine; `reference` is a row of the same data, and the run draws from another seed."""
    import numpy as np

    from riesz_paper.experiments.blocks.problem import PRIOR_SD, block_problem

    own = seed + (reference is not None)
    row, posterior = timed(engine, block_problem(seed, levels=BLOCK_LEVELS), own, seconds)
    draws = np.asarray(posterior.distribution.by_chain)
    moments = {
        "log_mean": (PRIOR_SD * draws.mean(axis=(0, 1))).tolist(),
        "log_sd": (PRIOR_SD * draws.std(axis=(0, 1))).tolist(),
    }
    found = {"problem": "blocks", "data_seed": seed} | worth(draws, row) | moments
    return found if reference is None else found | compared(found, reference)


def compared(row: dict, reference: dict) -> dict:
    """Errors of means in standard deviations, and ratios of these."""
    import numpy as np

    mean, sd = np.array(reference["log_mean"]), np.array(reference["log_sd"])
    errors = np.abs(np.array(row["log_mean"]) - mean) / sd
    ratios = np.array(row["log_sd"]) / sd
    return {
        "mean_error_rms": float(np.sqrt(np.mean(errors**2))),
        "mean_error_worst": float(errors.max()),
        "sd_ratios": [float(ratios.min()), float(ratios.max())],
        "sd_ratios_within_6_percent": int((np.abs(ratios - 1) <= 0.06).sum()),
        "reference_effective_draws": reference["effective_draws"],
    }


def shown(row: dict) -> dict:
    print(json.dumps({k: v for k, v in row.items() if "log_" not in k}), flush=True)
    return row


SMOKE = {"SIDES": (4,), "FINER": {2: 8}, "NUM_SENSORS": 4, "BLOCK_LEVELS": 1, "BLOCK_DRAWS": 10}
SMOKE |= {"FIELD_DRAWS": 10, "FIELD_WARMUP": 10, "SEARCHES": 1}


def main() -> None:
    parser = parser_of(globals(), "results/bench-sampler.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--draws", type=int, default=BLOCK_DRAWS, help="of each chain, for the blocks"
    )
    parser.add_argument(
        "--field-draws", type=int, default=FIELD_DRAWS, help="of each chain, for fields"
    )
    parser.add_argument(
        "--field-warmup", type=int, default=FIELD_WARMUP, help="the same, before them"
    )
    parser.add_argument("--field-chains", type=int, default=4, help="more of them on a GPU")
    parser.add_argument("--searches", type=int, default=SEARCHES, help="for peaks of fields")
    parser.add_argument("--sides", type=int, nargs="*", default=list(SIDES))
    parser.add_argument("--dim", type=int, default=2, help="of the domain of fields")
    parser.add_argument("--no-blocks", action="store_true")
    parser.add_argument("--against", type=Path, help="results of a long run of the same blocks")
    parser.add_argument("--nuts", action="store_true", help="nuts on the blocks as well: minutes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="cut a run short")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)

    from riesz.density.engine import Engine
    from riesz.method.mcmc.mcmc import MCMC

    reference = None
    engines = [] if options.no_blocks else [Engine(MCMC(num_samples=options.draws))]
    if options.against is not None:
        reference = json.loads(options.against.read_text())["rows"][0]
    if options.nuts:
        engines.append(Engine(MCMC(kernel="nuts")))
    rows = []
    for engine in engines:
        rows.append(shown(blocks_row(engine, options.seed, reference, options.seconds)))
    for sides in options.sides:
        engine = Engine(
            MCMC(
                num_warmup=options.field_warmup,
                num_samples=options.field_draws,
                num_chains=options.field_chains,
                num_searches=options.searches,
            )
        )
        rows.append(shown(field_row(engine, sides, options.seed, options.dim, options.seconds)))
    figures = {
        f"{row['problem']} {row['unknowns']}: gradients an effective draw": row[
            "gradients_per_effective"
        ]
        for row in rows
    }
    config = {
        "draws": options.draws,
        "field_draws": options.field_draws,
        "field_warmup": options.field_warmup,
        "field_chains": options.field_chains,
        "searches": options.searches,
        "device": jax.devices()[0].device_kind,
        "sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
        "field_sd": FIELD_SD,
        "length_scale": LENGTH_SCALE,
    }
    save(options.out, config, options.seed, rows, figures)


if __name__ == "__main__":
    main()

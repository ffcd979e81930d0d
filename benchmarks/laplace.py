"""How long do the mode and the leading curvature take, with one unknown a node?

A log-diffusivity with a bi-Laplacian prior on 129^2 nodes, 50 sensors, two per cent of noise, data
from a finer mesh: the engine `laplace` with 50 modes, twice: the first run compiles.
"""

import argparse
import json
import time
from pathlib import Path

SIDES, FINER = 128, 192
NUM_SENSORS, RELATIVE_NOISE, NUM_MODES, SEED = 50, 0.02, 50, 0
FIELD_SD, LENGTH_SCALE = 1.0, 0.3


def log_diffusivity(x):
    """The truth: smooth, between about -1.5 and 1.5."""
    import jax.numpy as jnp

    return jnp.sin(3 * x[0] + 1) * jnp.cos(4 * x[1]) + 0.5 * jnp.cos(5 * (x[0] + x[1]))


def posed():
    """The problem, with data from a mesh that is not fitted."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, 2))
    space = rz.P1(rz.rectangle((FINER, FINER)))
    truth = rz.diffusion(lambda x: jnp.exp(log_diffusivity(x))) - rz.source(1.0)
    state = rz.solve(rz.boundary_value_problem(space, truth, {"boundary": 0.0}))
    clean = np.asarray(rz.point_operator(space, points) @ state)
    noise_sd = RELATIVE_NOISE * np.abs(clean).max()
    return rz.inverse_problem(
        rz.rectangle((SIDES, SIDES)),
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": rz.SPDEField(FIELD_SD, LENGTH_SCALE, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, clean + noise_sd * rng.standard_normal(NUM_SENSORS)),
        likelihood=rz.Gaussian(float(noise_sd)),
    )


def timed(problem) -> dict:
    """A row: what one run took, and where it ended."""
    import jax
    import numpy as np

    from riesz.engines.laplace.engine import Laplace

    clock, cpu = time.perf_counter(), time.process_time()
    posterior = jax.block_until_ready(Laplace(num_modes=NUM_MODES).run(problem, seed=SEED))
    values = np.asarray(posterior.history["eigenvalues"])
    return {
        "nodes": problem.forward.space.mesh.num_nodes,
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - cpu,
        "newton_steps": len(posterior.history["cost"]),
        "largest_eigenvalue": float(values.max()),
        "smallest_eigenvalue": float(np.abs(values).min()),
        "modes": len(values),
        "notes": list(posterior.notes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/bench-laplace.json"))
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    from riesz.io.store.results import results, write_results

    problem = posed()
    rows = [{"run": name, **timed(problem)} for name in ("with compilation", "compiled")]
    figures = {row["run"]: row["seconds"] for row in rows}
    config = {
        "sensors": NUM_SENSORS,
        "relative_noise": RELATIVE_NOISE,
        "field_sd": FIELD_SD,
        "length_scale": LENGTH_SCALE,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_results(options.out, results("make bench-laplace", config, SEED, rows, figures))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

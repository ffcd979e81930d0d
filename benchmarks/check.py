"""What does the check of a posterior cost on meshes of up to a million nodes?

Diffusion with two or three unknown numbers, data from a coarser mesh: `laplace`, then the
importance check with as many draws as `fit` takes. Each size has a process of its own, so that
compilation and the peak of memory are its own; nothing is compiled beforehand.
"""

import json
import resource
import time

from bench import in_process, parser_of, save, told

SIZES = ((2, 16, 4), (2, 16, 5), (2, 16, 6), (2, 16, 7), (3, 4, 4), (3, 4, 5))
"""Dimension, cells along a side of the coarsest mesh, levels."""

NUM_SENSORS, RELATIVE_NOISE, SEED = 25, 0.02, 0
TRUTH = {"a": 1.3, "f": 0.8, "g": 1.1}


def posed(dim: int, sides: int, levels: int):
    """A diffusivity and the strength of a source; in space also a flux through the top."""
    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist

    import riesz as rz

    shape = rz.rectangle if dim == 2 else rz.mesh.box
    meshes = rz.hierarchy(shape((sides,) * dim), levels)
    latents = {"a": dist.LogNormal(0.0, 0.5), "f": dist.LogNormal(0.0, 0.5)}
    equation = rz.diffusion("a") + rz.reaction(1.0) - rz.source("f")
    if dim == 3:
        latents["g"] = dist.LogNormal(0.0, 0.5)
        equation = equation - rz.neumann("g", on="top")
    walls = ("left", "right", "bottom") if dim == 2 else ("left", "right", "bottom", "front")
    held = dict.fromkeys(walls, 0.0)
    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.1, 0.9, (NUM_SENSORS, dim))
    truth = {name: jnp.asarray(value) for name, value in TRUTH.items() if name in latents}
    coarse = rz.P1(meshes.meshes[max(levels - 3, 0)])
    state = rz.solve(rz.boundary_value_problem(coarse, equation, held), truth)
    clean = np.asarray(rz.fem.point_operator(coarse, points) @ state)
    noise_sd = RELATIVE_NOISE * np.abs(clean).max()
    return rz.inverse_problem(
        meshes,
        equation,
        latents=latents,
        dirichlet=held,
        observations=rz.observations(points, clean + noise_sd * rng.standard_normal(NUM_SENSORS)),
        likelihood=rz.Gaussian(float(noise_sd)),
    )


def spent(start: tuple[float, float]) -> tuple[float, float]:
    """Seconds of the clock and of the processor since."""
    return time.perf_counter() - start[0], time.process_time() - start[1]


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def measure(dim: int, sides: int, levels: int) -> dict:
    """A row: seconds and memory of one size."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import riesz as rz

    start = now()
    problem = posed(dim, sides, levels)
    setup = spent(start)
    start = now()
    posterior = rz.fit(problem, rz.Laplace(), seed=SEED, progress=False, check=False)
    fitted = spent(start)
    start = now()
    found = rz.diagnose.importance_check(posterior, seed=SEED)
    checked = spent(start)
    return {
        "dim": dim,
        "nodes": problem.forward.space.mesh.num_nodes,
        "unknowns": problem.num_coordinates,
        "solver": type(problem.default_solver()).__name__,
        "draws": found.num_draws,
        "k_hat": found.k_hat,
        "effective_draws": found.effective_draws,
        "setup_seconds": setup[0],
        "fit_seconds": fitted[0],
        "fit_cpu_seconds": fitted[1],
        "check_seconds": checked[0],
        "check_cpu_seconds": checked[1],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


SMOKE = {"SIZES": ((2, 2, 2), (3, 2, 2)), "NUM_SENSORS": 4}


def main() -> None:
    parser = parser_of(globals(), "results/bench-check.json")
    parser.add_argument("--size", type=int, nargs=3, help="Print the row of one size.")
    options = parser.parse_args()
    if options.size:
        print(json.dumps(measure(*options.size)))
        return
    rows = [told(in_process("--size", *map(str, size))) for size in SIZES]
    summary = {
        f"{row['dim']}D, {row['nodes']} nodes: {key}": row[key]
        for row in rows
        for key in ("draws", "fit_seconds", "check_seconds")
    }
    config = {"sensors": NUM_SENSORS, "relative_noise": RELATIVE_NOISE}
    save(options.out, config, SEED, rows, summary)


if __name__ == "__main__":
    main()

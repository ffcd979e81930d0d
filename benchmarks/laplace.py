"""How long do the mode and the leading curvature take, with one unknown a node?

The problem of hIPPYlib's tutorial on 129^2 nodes: a log-diffusivity with a bi-Laplacian prior, 50
sensors, two per cent of noise; the method `laplace` with 50 modes, twice: the first run compiles.
With `--nodes` instead: the finest of nested meshes with about so many nodes, 200 sensors, by the
solver that suits the machine, and the sd of the field at all nodes.
"""

import json
import math
import resource
import time

from bench import parser_of, save

SIDES, COARSEST_SIDES = 128, 8
NUM_SENSORS, MANY_SENSORS, RELATIVE_NOISE, NUM_MODES, SEED = 50, 200, 0.02, 50, 0
GAMMA, DELTA = 0.1, 1.0
FIELD_SD, LENGTH_SCALE = 1.0, 0.3
HIPPYLIB = {
    "library": "hippylib 3.2",
    "run": "compiled",
    "nodes": 16641,
    "cpu_seconds": 22.3,
    "notes": ["measured once, two cores of a machine alike: mode 16.7, eigenpairs 5.5"],
}


def log_diffusivity(x):
    """The truth."""
    import jax.numpy as jnp

    return 0.7 * jnp.sin(5 * x[0]) * jnp.cos(4 * x[1])


def bilaplacian(mesh):
    """The prior of the tutorial: A = gamma K + delta M + beta B, precision A M^-1 A."""
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np

    from riesz.fem.default_solver import choose_solver
    from riesz.fem.linear.sparse import SparseMatrix
    from riesz.priors.fields import NodalField
    from riesz.priors.representatives import node_volumes
    from riesz.priors.spde import NodalLatent, operator_equation, operator_parts

    equation = operator_equation(mesh)
    weights = jnp.asarray([GAMMA, math.sqrt(GAMMA * DELTA), DELTA])
    operator = SparseMatrix(equation.pattern, weights @ operator_parts(equation))
    field = NodalField(jnp.zeros(mesh.num_nodes), jnp.exp)
    volumes = jnp.asarray(np.sqrt(node_volumes(mesh)))
    solver = choose_solver(equation)
    prepared = eqx.filter_jit(solver.prepare)(operator)
    return NodalLatent(field, operator, volumes, "bi-Laplacian field", solver, prepared)


def posed(domain, prior, num_sensors):
    """The problem, with data from the same mesh, as in the tutorial."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.05, 0.95, (num_sensors, 2))
    mesh = domain if isinstance(domain, rz.mesh.Mesh) else domain.meshes[-1]
    space = rz.P1(mesh)
    truth = rz.diffusion(lambda x: jnp.exp(log_diffusivity(x))) - rz.source(1.0)
    state = rz.solve(rz.boundary_value_problem(space, truth, {"boundary": 0.0}))
    clean = np.asarray(rz.fem.point_operator(space, points) @ state)
    noise_sd = RELATIVE_NOISE * float(jnp.abs(state).max())
    return rz.inverse_problem(
        domain,
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": prior},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, clean + noise_sd * rng.standard_normal(num_sensors)),
        likelihood=rz.Gaussian(noise_sd),
    )


def timed(problem, num_modes: int, *, with_sd: bool) -> dict:
    """A row: what one run took, and where it ended."""
    import jax
    import numpy as np
    from field_spread import field_sd

    from riesz.density.engine import Engine
    from riesz.fem.linear import host_lu
    from riesz.method.laplace import Laplace

    host_lu._factors.clear()  # or the second run would find those of the first
    clock, cpu = time.perf_counter(), time.process_time()
    posterior = jax.block_until_ready(Engine(Laplace(num_modes=num_modes)).run(problem, seed=SEED))
    mode_seconds = time.perf_counter() - clock
    sd = np.asarray(field_sd(posterior, "a")) if with_sd else np.ones(1)
    values = np.asarray(posterior.history["eigenvalues"])
    return {
        "library": "riesz",
        "nodes": problem.forward.space.mesh.num_nodes,
        "solver": type(problem.default_solver(num_rhs=num_modes)).__name__,
        "device": jax.devices()[0].device_kind,
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - cpu,
        "sd_seconds": time.perf_counter() - clock - mode_seconds,
        "newton_steps": len(posterior.history["cost"]) - 1,
        "hessian_actions": int(np.sum(posterior.history["iterations"])) + 2 * (num_modes + 10),
        "decrement": float(posterior.history["decrement"][-1]),
        "largest_eigenvalue": float(values.max()),
        "smallest_eigenvalue": float(np.abs(values).min()),
        "smallest_sd": float(sd.min()),
        "largest_sd": float(sd.max()),
        "peak_mb": peak_megabytes(),
        "notes": list(map(str, posterior.notes)),
    }


def peak_megabytes() -> float:
    """Of the device where it says so, else of the process."""
    import jax

    told = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in told:
        return told["peak_bytes_in_use"] / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def tutorial():
    """The problem of hIPPYlib's tutorial."""
    import riesz as rz

    mesh = rz.rectangle((SIDES, SIDES))
    return posed(mesh, bilaplacian(mesh), NUM_SENSORS)


def large(num_nodes: int):
    """One unknown a node on the finest of nested meshes, of about that many nodes."""
    import jax.numpy as jnp

    import riesz as rz

    levels = max(1, round(math.log2(math.sqrt(num_nodes) / COARSEST_SIDES))) + 1
    sides = round(math.sqrt(num_nodes) / 2 ** (levels - 1))
    meshes = rz.hierarchy(rz.rectangle((sides, sides)), levels)
    prior = rz.SPDEField(FIELD_SD, LENGTH_SCALE, transform=jnp.exp)
    return posed(meshes, prior, MANY_SENSORS)


SMOKE = {"SIDES": 8, "NUM_SENSORS": 4, "NUM_MODES": 3}


def main() -> None:
    parser = parser_of(globals(), "results/bench-laplace.json")
    parser.add_argument("--nodes", type=int, help="Print the rows of a mesh with about so many.")
    parser.add_argument("--modes", type=int, default=100, help="Directions looked at there.")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    runs = ("with compilation", "compiled")
    if options.nodes:
        clock = time.perf_counter()
        problem = large(options.nodes)
        print(f"set up in {time.perf_counter() - clock:.1f} s", flush=True)
        for run in runs:
            print(
                json.dumps({"run": run, **timed(problem, options.modes, with_sd=True)}), flush=True
            )
        return
    problem = tutorial()
    rows = [{"run": run, **timed(problem, NUM_MODES, with_sd=False)} for run in runs]
    figures = {f"riesz, {row['run']}": row["cpu_seconds"] for row in rows}
    figures["hippylib, compiled"] = HIPPYLIB["cpu_seconds"]
    config = {"sensors": NUM_SENSORS, "relative_noise": RELATIVE_NOISE, "modes": NUM_MODES}
    save(options.out, config, SEED, [*rows, HIPPYLIB], figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

"""What does a training step cost, and does it depend on the mesh?

One full step of a fit: a factorised surrogate trunk(x) . branch(z) with a hard boundary factor is
trained by Adam on the weak-form penalty of the transport problem, -lap u + tau . grad u = 1, with
16 samples of tau and 4 patches of 64 nodes a step, in `lax.scan` as a fit would. All meshes are
timed in turns in one process; memory is measured in a process of its own for each size. On one
mesh batches of several sizes are timed as well, and the batches that a surrogate takes by default
with a whole fit of it, after compilation. Runs on whatever device JAX finds.
"""

import itertools
import json
import resource
import time
from pathlib import Path

from bench import in_process, is_smoke, parser_of, save, small_emulate

MESHES = ((5, 4), (3, 6), (5, 7), (4, 9))
"""Cells along a side of the coarsest mesh, and levels: 1681, 9409, 103041 and 1050625 nodes.

From the smallest on there are several coarse patches: of a single one the compiler would make
constants, and save a little work that larger meshes cannot save.
"""

NUM_SAMPLES, NUM_PATCHES, PATCH_NODES = 16, 4, 64
HIDDEN, FEATURES = 32, 32
STEPS, ROUNDS = 40, 21
LIMIT_RATIO = 1.15

BATCHES = ((16, 4), (64, 16), (256, 64))
"""Samples and patches in a step, on the mesh before the last."""

FIT_LEVELS = 7
"""Of a transport fit, from 4 cells along a side: 257^2 nodes."""


def surrogate(params, x, tau):
    """trunk(x) . branch(tau), zero on the boundary of the unit square."""
    import jax.numpy as jnp

    inside = 16 * x[0] * (1 - x[0]) * x[1] * (1 - x[1])
    return inside * jnp.dot(network(params["trunk"], x), network(params["branch"], tau))


def network(layers, values):
    import jax.numpy as jnp

    *hidden, (last, shift) = layers
    for weights, bias in hidden:
        values = jnp.tanh(values @ weights + bias)
    return values @ last + shift


def fresh_params(key, dtype):
    import jax.numpy as jnp
    import jax.random as jr

    def layers(key, widths):
        return [
            (jr.normal(k, (m, n), dtype) / jnp.sqrt(m).astype(dtype), jnp.zeros(n, dtype))
            for k, m, n in zip(jr.split(key, len(widths)), widths[:-1], widths[1:], strict=False)
        ]

    trunk, branch = jr.split(key)
    return {
        "trunk": layers(trunk, (2, HIDDEN, HIDDEN, FEATURES)),
        "branch": layers(branch, (2, HIDDEN, FEATURES)),
    }


def set_up(hierarchy, dtype, num_patches):
    """The problem on the finest mesh and its penalty."""
    import riesz as rz

    equation = rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0)
    space = rz.P1(hierarchy.meshes[-1])
    problem = rz.boundary_value_problem(space, equation, {"boundary": 0.0}, dtype=dtype)
    return rz.weak_form_penalty(
        problem, hierarchy, num_patches=num_patches, patch_nodes=PATCH_NODES
    )


class Fit:
    """A compiled run of some steps on one mesh, and the state of its training."""

    def __init__(
        self,
        mesh: tuple[int, int],
        dtype: str,
        num_steps: int,
        batch: tuple[int, int] = (NUM_SAMPLES, NUM_PATCHES),
    ):
        import equinox as eqx
        import jax
        import jax.numpy as jnp
        import jax.random as jr
        import optax

        import riesz as rz

        sides, levels = mesh
        self.num_samples, self.num_patches = batch
        hierarchy = rz.hierarchy(rz.rectangle((sides, sides)), levels)
        self.mesh_mb = memory_mb()
        start = time.perf_counter()
        penalty = jax.block_until_ready(set_up(hierarchy, jnp.dtype(dtype), self.num_patches))
        self.setup_seconds = time.perf_counter() - start
        self.nodes = hierarchy.meshes[-1].num_nodes
        self.num_traces = 0
        optimiser = optax.adam(1e-3)
        arrays, rest = eqx.partition(penalty, eqx.is_array)

        def loss(params, key, arrays):
            draw, sample = jr.split(key)
            zs = {"tau": jr.normal(sample, (self.num_samples, 2), dtype)}
            penalty = eqx.combine(arrays, rest)
            return penalty(draw, lambda x, z: surrogate(params, x, z["tau"]), zs)

        def step(state, key, arrays):
            self.num_traces += 1  # Python runs here only when JAX traces the step
            params, moments = state
            value, gradient = jax.value_and_grad(loss)(params, key, arrays)
            updates, moments = optimiser.update(gradient, moments)
            return (optax.apply_updates(params, updates), moments), value

        def steps(state, key, arrays):
            keys = jr.split(key, num_steps)
            return jax.lax.scan(lambda s, k: step(s, k, arrays), state, keys)

        params = fresh_params(jr.key(0), jnp.dtype(dtype))
        self.arrays = arrays
        self.state = (params, optimiser.init(params))
        self.num_steps = num_steps
        start = time.perf_counter()
        self.steps = jax.jit(steps).lower(self.state, jr.key(0), arrays).compile()
        self.compile_seconds = time.perf_counter() - start
        self.flops = self.steps.cost_analysis()["flops"]

    def seconds_per_step(self, seed: int) -> float:
        import jax
        import jax.random as jr

        key = jr.key(seed)
        start = time.perf_counter()
        self.state, losses = jax.block_until_ready(self.steps(self.state, key, self.arrays))
        seconds = time.perf_counter() - start
        assert bool((losses >= 0).all()), "the penalty is negative or not a number"
        assert self.num_traces == 1, f"the step was traced {self.num_traces} times"
        return seconds / self.num_steps


def memory_mb() -> float:
    """What this process occupies now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def memory_of(mesh: tuple[int, int], dtype: str, num_steps: int) -> dict:
    """Memory of a whole run on one mesh: its peak, set-up included, and what training holds.

    Above the mesh means above the process that has built it; the compiler takes its share too.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    fit = Fit(mesh, dtype, num_steps)
    fit.seconds_per_step(0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    on_device = jax.devices()[0].memory_stats() or {}
    return {
        "peak_mb": peak,
        "peak_mb_above_mesh": peak - fit.mesh_mb,
        "held_mb_above_mesh": memory_mb() - fit.mesh_mb,
        "device_peak_mb": on_device.get("peak_bytes_in_use", 0) / 2**20,
    }


def timed(meshes, dtype: str, num_steps: int, rounds: int) -> tuple[list[dict], list[list[float]]]:
    """A row for each mesh, and seconds by round and mesh; the order is reversed every round."""
    fits = [Fit(mesh, dtype, num_steps) for mesh in meshes]
    for fit in fits:
        fit.seconds_per_step(0)
    table = []
    for seed in range(1, rounds + 1):
        order = fits if seed % 2 else fits[::-1]
        seconds = {id(fit): fit.seconds_per_step(seed) for fit in order}
        table.append([seconds[id(fit)] for fit in fits])
    rows = []
    for fit, column in zip(fits, zip(*table, strict=True), strict=True):
        seconds = median(column)
        rows.append(
            {
                "nodes": fit.nodes,
                "precision": dtype,
                "seconds_per_step": seconds,
                "patch_samples_per_second": NUM_SAMPLES * NUM_PATCHES / seconds,
                "setup_seconds": fit.setup_seconds,
                "compile_seconds": fit.compile_seconds,
                "flops": fit.flops,
                "compilations": fit.num_traces,
            }
        )
    return rows, table


def by_batch(mesh: tuple[int, int], dtype: str, num_steps: int, rounds: int) -> list[dict]:
    """What larger batches of samples and patches take on one mesh.

    On a host, where their time grows with them, fewer steps do.
    """
    import jax

    rows = []
    for batch in BATCHES:
        work = batch[0] * batch[1] // (NUM_SAMPLES * NUM_PATCHES)
        on_host = jax.default_backend() == "cpu"
        fit = Fit(mesh, dtype, max(1, num_steps // work) if on_host else num_steps, batch)
        fit.seconds_per_step(0)
        seconds = median([fit.seconds_per_step(seed) for seed in range(1, 1 + min(rounds, 5))])
        rows.append(
            {
                "nodes": fit.nodes,
                "precision": dtype,
                "samples": batch[0],
                "patches": batch[1],
                "seconds_per_step": seconds,
                "patch_samples_per_second": batch[0] * batch[1] / seconds,
                "compile_seconds": fit.compile_seconds,
            }
        )
    return rows


def transport_problem(levels: int):
    """Two components of a velocity from forty observations with two per cent of noise."""
    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist

    import riesz as rz

    rng = np.random.default_rng(3)
    hierarchy = rz.hierarchy(rz.rectangle((4, 4)), levels)
    equation = rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0)
    space = rz.P1(hierarchy.meshes[-1])
    forward = rz.boundary_value_problem(space, equation, {"boundary": 0.0})
    points = rng.uniform(0.1, 0.9, (40, 2))
    truth = rz.solve(forward, {"tau": jnp.asarray([2.0, -1.0])})
    clean = np.asarray(rz.fem.point_operator(space, points) @ truth)
    noise = 0.02 * float(clean.max())
    return rz.inverse_problem(
        hierarchy,
        equation,
        latents={"tau": dist.Normal(0.0, 3.0).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, clean + noise * rng.normal(size=40)),
        likelihood=rz.Gaussian(noise),
    )


def of_emulate(levels: int) -> dict:
    """Patch-samples a second of the default batches, and seconds of a fit, both after compilation;
    how far its posterior is from the exact one, as importance sampling has it."""
    import jax
    import jax.random as jr
    import numpy as np

    import riesz as rz
    from riesz.density.surrogate.least_squares import normal_equations
    from riesz.density.surrogate.start import default_penalty

    problem, engine = (
        transport_problem(levels),
        small_emulate() if is_smoke() else rz.inference.Engine(rz.GaussianVI(), rz.Surrogate()),
    )
    posterior = engine.run(problem, seed=0)  # compiles
    start = time.perf_counter()
    posterior = jax.block_until_ready(engine.run(problem, seed=1))
    fit_seconds = time.perf_counter() - start
    patches, samples, count = engine.density.batches()
    penalty, surrogate = default_penalty(problem, engine.density), posterior.states.surrogate
    draws = posterior.sample(jr.key(0), count * samples).reshape(count, samples, -1)
    seconds = []
    for seed in range(6):
        start = time.perf_counter()
        jax.block_until_ready(normal_equations(problem, penalty, surrogate, jr.key(seed), draws))
        seconds.append(time.perf_counter() - start)
    check = rz.diagnose.importance_check(posterior)
    return {
        "nodes": problem.forward.space.num_dofs,
        "operation": "emulate",
        "samples": samples,
        "patches": patches,
        "batches": count,
        "patch_samples_per_second": patches * samples * count / median(seconds[1:]),
        "fit_seconds": fit_seconds,
        "rounds": len(posterior.history["moved"]),
        "mean_shift": float(np.abs(check.mean_shift).max()),
        "sd_ratio": [float(ratio) for ratio in check.sd_ratio],
        "k_hat": float(check.k_hat),
    }


def median(values) -> float:
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def summary(dtype: str, rows: list[dict], table: list[list[float]]) -> dict:
    """The figures that matter, for one precision."""
    pairs = itertools.permutations(range(len(rows)), 2)
    ratios = [median([line[i] / line[j] for line in table]) for i, j in pairs]
    largest = rows[-1]
    return {
        f"{dtype}_largest_median_ratio_of_two_sizes": max(ratios, default=1.0),
        f"{dtype}_flops_equal": len({row["flops"] for row in rows}) == 1,
        f"{dtype}_least_patch_samples_per_second": min(r["patch_samples_per_second"] for r in rows),
        f"{dtype}_peak_mb_above_mesh": largest["peak_mb_above_mesh"],
        f"{dtype}_held_mb_above_mesh": largest["held_mb_above_mesh"],
        f"{dtype}_setup_seconds": largest["setup_seconds"],
    }


SMOKE = {"MESHES": ((2, 2), (2, 3)), "STEPS": 2, "ROUNDS": 1, "BATCHES": ((2, 1),), "FIT_LEVELS": 2}
SMOKE |= {"NUM_SAMPLES": 2, "NUM_PATCHES": 1, "PATCH_NODES": 9, "HIDDEN": 4, "FEATURES": 4}


def main() -> None:
    parser = parser_of(globals(), "results/bench-step.json")
    parser.add_argument("--precisions", nargs="+", default=("float64", "float32"))
    parser.add_argument("--num-meshes", type=int, default=len(MESHES), help="the smallest first")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps in one timed run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--fit-levels", type=int, default=FIT_LEVELS, help="0: no fit")
    parser.add_argument("--memory", nargs=4, metavar=("SIDES", "LEVELS", "PRECISION", "STEPS"))
    options = parser.parse_args()
    if options.memory:
        sides, levels, dtype, num_steps = options.memory
        print(json.dumps(memory_of((int(sides), int(levels)), dtype, int(num_steps))))
        return
    meshes = MESHES[: options.num_meshes]
    # Memory first: a child process starts with its parent's memory on its account.
    memory = {
        (d, m): in_process("--memory", *map(str, m), d, str(options.steps))
        for d in options.precisions
        for m in meshes
    }
    import jax

    jax.config.update("jax_enable_x64", True)
    all_rows, figures = [], {"device": jax.devices()[0].device_kind}
    for dtype in options.precisions:
        rows, table = timed(meshes, dtype, options.steps, options.rounds)
        rows = [{**row, **memory[dtype, mesh]} for row, mesh in zip(rows, meshes, strict=True)]
        for row in rows:
            print("{precision} {nodes:>8} nodes {seconds_per_step:.5f} s a step, "
                  "{patch_samples_per_second:.0f} patch-samples a second, {peak_mb:.0f} MB, "
                  "set-up {setup_seconds:.1f} s, {flops:.0f} flops".format(**row))  # fmt: skip
        all_rows += rows
        figures |= summary(dtype, rows, table)
        batches = by_batch(meshes[-2:][0], dtype, options.steps, options.rounds)
        for row in batches:
            print("{precision} {samples} samples, {patches} patches: {seconds_per_step:.5f} s a "
                  "step, {patch_samples_per_second:.0f} a second".format(**row))  # fmt: skip
        all_rows += batches
        figures |= {
            f"{dtype}_most_patch_samples_per_second": max(
                row["patch_samples_per_second"] for row in batches
            )
        }
    if options.fit_levels:
        row = of_emulate(options.fit_levels)
        all_rows.append(row)
        figures |= {
            "emulate_patch_samples_per_second": row["patch_samples_per_second"],
            "emulate_fit_seconds": row["fit_seconds"],
            "emulate_mean_shift": row["mean_shift"],
        }
    config = {
        "meshes": [list(mesh) for mesh in meshes],
        "steps": options.steps,
        "rounds": options.rounds,
        "samples": NUM_SAMPLES,
        "patches": NUM_PATCHES,
        "batches": [list(batch) for batch in BATCHES],
        "patch_nodes": PATCH_NODES,
        "surrogate": f"trunk 2-{HIDDEN}-{HIDDEN}-{FEATURES}, branch 2-{HIDDEN}-{FEATURES}, tanh",
    }
    save(options.out, config, 0, all_rows, figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

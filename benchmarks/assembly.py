"""How fast are residuals and matrices assembled? Riesz against scikit-fem and dolfinx.

One advection-diffusion problem on the unit square, P1 elements, float64, the same one-point
quadrature for all. Each library and size runs in a process of its own, so that peak memory is its
own; every time is the best of several rounds after compilation. `threads` is the number of cores
the process may use.
"""

import json
import os
import resource
import subprocess
import time
from pathlib import Path

from bench import in_process, is_there, parser_of, save

SIDES = (32, 100, 316, 1000)  # nodes along each side: 1e3 to 1e6 in all
ROUNDS, LEAST_SECONDS = 9, 1.0
FLAT_FROM = 9_000
"""Nodes from which on the cost of a node should not grow."""

SYSTEM_PYTHON = "/usr/bin/python3"
HERE = Path(__file__).parent


def best(action, rounds: int) -> float:
    """The shortest of `rounds` runs, or of as many as fit into some time."""
    action()
    seconds = []
    while len(seconds) < rounds or sum(seconds) < LEAST_SECONDS:
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def riesz_times(side: int, rounds: int) -> dict:
    import jax

    jax.config.update("jax_enable_x64", True)
    import equinox as eqx
    import jax.numpy as jnp

    import riesz as rz

    space = rz.P1(rz.rectangle((side - 1, side - 1)))
    form = rz.diffusion(1.0) + rz.advection([1.0, 2.0]) - rz.source(1.0)
    problem = rz.boundary_value_problem(space, form)
    state = jnp.asarray(space.points[:, 0] * space.points[:, 1])
    arrays, rest = eqx.partition(problem, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    @jax.jit
    def step(leaves, state):
        """The residual as compiled code meets it, with the problem's arrays as arguments."""
        arrays = jax.tree.unflatten(structure, leaves)
        return rz.fem.residual(eqx.combine(arrays, rest), state)

    return {
        ("residual", "matrix-free"): best(
            lambda: jax.block_until_ready(step(leaves, state)), rounds
        ),
        ("residual", "called from Python"): best(
            lambda: jax.block_until_ready(rz.fem.residual(problem, state)), rounds
        ),
        ("stiffness", "sparse"): best(
            lambda: jax.block_until_ready(rz.fem.jacobian(problem, state)), rounds
        ),
    }


def skfem_times(side: int, rounds: int) -> dict:
    import numpy as np
    import skfem
    from skfem.helpers import dot, grad

    along = np.linspace(0.0, 1.0, side)
    basis = skfem.Basis(skfem.MeshTri.init_tensor(along, along), skfem.ElementTriP1(), intorder=1)
    state = basis.doflocs[0] * basis.doflocs[1]

    @skfem.BilinearForm
    def bilinear(u, v, _):
        return dot(grad(u), grad(v)) + (grad(u)[0] + 2 * grad(u)[1]) * v

    @skfem.LinearForm
    def load(v, _):
        return 1.0 * v

    @skfem.LinearForm
    def residual(v, w):
        u = w["u"]
        return dot(grad(u), grad(v)) + (grad(u)[0] + 2 * grad(u)[1]) * v - 1.0 * v

    def assemble_and_multiply():
        return bilinear.assemble(basis) @ state - load.assemble(basis)

    def linear_form():
        return residual.assemble(basis, u=basis.interpolate(state))

    return {
        ("residual", "assemble and multiply"): best(assemble_and_multiply, rounds),
        ("residual", "linear form"): best(linear_form, rounds),
        ("stiffness", "sparse"): best(lambda: bilinear.assemble(basis), rounds),
    }


TIMES = {"riesz": riesz_times, "scikit-fem": skfem_times}


def work(library: str, side: int, rounds: int, threads: int) -> list[dict]:
    """Rows of one library at one size, measured in this process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    times = TIMES[library](side, rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        {
            "library": library,
            "operation": operation,
            "variant": variant,
            "nodes": side**2,
            "seconds": seconds,
            "peak_mb": peak,
            "threads": threads,
        }
        for (operation, variant), seconds in times.items()
    ]


def by_dolfinx(side: int, rounds: int) -> list[dict]:
    command = [SYSTEM_PYTHON, str(HERE / "dolfinx_worker.py"), str(side), str(rounds)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def all_rows(sides: tuple[int, ...], rounds: int) -> list[dict]:
    """Every library at every size, size by size, so that drifts of the machine hit all alike."""
    cores = len(os.sched_getaffinity(0))
    with_dolfinx = is_there(SYSTEM_PYTHON, "dolfinx.fem.petsc")
    if not with_dolfinx:
        print("dolfinx is absent and left out: Debian has it as python3-dolfinx-real")
    rows = []
    for side in sides:
        jobs = [("riesz", n) for n in sorted({1, cores})] + [("scikit-fem", 1)]
        found = [in_process("--worker", name, *map(str, (side, rounds, n))) for name, n in jobs]
        found += [by_dolfinx(side, rounds)] if with_dolfinx else []
        for own in found:
            for row in own:
                print("{library:<12}{operation:<11}{variant:<24}{nodes:>9}{threads:>3}"
                      "{seconds:>12.5f} s{peak_mb:>8.0f} MB".format(**row), flush=True)  # fmt: skip
                rows.append(row)
    return rows


def summary(rows: list[dict]) -> dict:
    """The ratios at the largest size, and how flat the cost a node is from 1e4 nodes on."""
    largest = max(row["nodes"] for row in rows)
    most = max(row["threads"] for row in rows)

    def seconds(library, operation, variant=None, threads=None, nodes=largest):
        found = [
            row["seconds"]
            for row in rows
            if (row["library"], row["operation"], row["nodes"]) == (library, operation, nodes)
            and variant in (None, row["variant"])
            and threads in (None, row["threads"])
        ]
        return min(found, default=None)

    ours = seconds("riesz", "residual", "matrix-free", threads=most)
    per_node = [
        row["seconds"] / row["nodes"]
        for row in rows
        if (row["library"], row["variant"], row["threads"]) == ("riesz", "matrix-free", most)
        and row["nodes"] >= FLAT_FROM
    ]
    ratios = {
        "skfem_assemble_and_multiply": seconds("scikit-fem", "residual", "assemble and multiply"),
        "skfem_linear_form": seconds("scikit-fem", "residual", "linear form"),
        "dolfinx_residual": seconds("dolfinx", "residual"),
        "riesz_residual_on_one_core": seconds("riesz", "residual", "matrix-free", 1),
    }
    result = {f"{k}_over_riesz": v / ours for k, v in ratios.items() if v is not None}
    stiffness = seconds("riesz", "stiffness", threads=most)
    for library in ("scikit-fem", "dolfinx"):
        theirs = seconds(library, "stiffness")
        if theirs is not None:
            result[f"{library}_stiffness_over_riesz"] = theirs / stiffness
    result["riesz_cost_per_node_max_over_min_from_1e4"] = max(per_node) / min(per_node)
    result["riesz_peak_mb"] = max(r["peak_mb"] for r in rows if r["library"] == "riesz")
    result["nodes"] = largest
    return result


SMOKE = {"SIDES": (4, 6), "ROUNDS": 1, "LEAST_SECONDS": 0.0, "FLAT_FROM": 0}


def main() -> None:
    parser = parser_of(globals(), "results/bench-assembly.json")
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--worker", nargs=4, metavar=("LIBRARY", "SIDE", "ROUNDS", "THREADS"))
    options = parser.parse_args()
    if options.worker:
        library, *numbers = options.worker
        print(json.dumps(work(library, *map(int, numbers))))
        return
    rows = all_rows(tuple(options.sides), options.rounds)
    config = {"sides": list(options.sides), "rounds": options.rounds}
    save(options.out, config, 0, rows, summary(rows))
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    main()

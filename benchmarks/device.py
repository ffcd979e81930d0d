"""What does an accelerator take for a solve and for a residual? Run it where JAX finds one.

Solves: diffusion with a log-normal coefficient, float64, to a residual of 1e-10, as in `solve.py`,
on nested meshes; beside each the largest difference from the host's solution where the host is
asked for one. Residuals: advection and diffusion with linear elements as in `assembly.py`, many in
one compiled loop, so that a call from Python costs nothing. The least traffic of a residual is its
state, its result, the corners of its cells and the places of its nodes, each moved once.
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from bench import parser_of, save, told
from solve import TOLERANCE, best, cells_along, iterations_of, log_coefficient

import riesz as rz

SOLVES = ((2, 16, 5), (2, 16, 7), (2, 24, 8), (3, 8, 4), (3, 8, 5))
"""Dimension, cells along a side of the coarsest grid, and levels."""
COMPARED = 100_000
"""Nodes up to which the host solves the same for comparison."""
LOOPED = 20
RESIDUALS = ((16, 7), (24, 8))


def shape(dim: int):
    return rz.rectangle if dim == 2 else rz.mesh.box


def solve_row(dim: int, coarsest: int, levels: int) -> dict:
    nested = rz.hierarchy(shape(dim)((coarsest,) * dim), levels)
    mesh = nested.meshes[-1]
    form = rz.diffusion("a") - rz.source(1.0)
    problem = rz.boundary_value_problem(rz.P1(mesh), form, {"boundary": 0.0})
    start = time.perf_counter()
    solver = rz.solvers.multigrid(problem, nested, tolerance=TOLERANCE)
    setup = time.perf_counter() - start
    coefficient = np.exp(log_coefficient(mesh.nodes))

    @eqx.filter_jit
    def solved(values, problem, solver):
        return rz.solve(problem, {"a": rz.nodal(values)}, linear_solver=solver)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def mean(values, problem, solver):
        return jnp.mean(solved(values, problem, solver))

    on_device = jnp.asarray(coefficient)
    state = solved(on_device, problem, solver)
    row = {
        "operation": "solve",
        "dim": dim,
        "nodes": mesh.num_nodes,
        "setup_seconds": setup,
        "seconds": best(lambda: jax.block_until_ready(solved(on_device, problem, solver))),
        "gradient_seconds": best(lambda: jax.block_until_ready(mean(on_device, problem, solver))),
        **iterations_of(problem, solver, {"a": rz.nodal(on_device)}),
    }
    if mesh.num_nodes <= COMPARED:
        host = jax.devices("cpu")[0]
        own = jax.device_put((on_device, problem, rz.solvers.SparseLU()), host)
        with jax.default_device(host):
            exact = np.asarray(solved(*own))
        row["difference_from_host"] = float(abs(np.asarray(state) - exact).max() / abs(exact).max())
    return row


def residual_row(coarsest: int, levels: int, *, nested: bool) -> dict:
    along = cells_along(coarsest, levels)
    start = rz.rectangle((coarsest,) * 2) if nested else rz.rectangle((along,) * 2)
    mesh = rz.hierarchy(start, levels if nested else 1).meshes[-1]
    form = rz.diffusion(1.0) + rz.advection([1.0, 2.0]) - rz.source(1.0)
    problem = rz.boundary_value_problem(rz.P1(mesh), form)
    state = jnp.asarray(mesh.nodes[:, 0] * mesh.nodes[:, 1])

    @eqx.filter_jit
    def many(problem, state):
        def again(_, state):
            return state + 1e-20 * rz.fem.residual(problem, state)  # each needs the one before

        return jax.lax.fori_loop(0, LOOPED, again, state)

    seconds = best(lambda: jax.block_until_ready(many(problem, state)), 5) / LOOPED
    least = mesh.num_nodes * 8 * 2 + mesh.nodes.size * 8 + mesh.cells.size * 4
    return {
        "operation": "residual",
        "dim": 2,
        "numbering": "by levels" if nested else "row by row",
        "nodes": mesh.num_nodes,
        "seconds": seconds,
        "least_bytes": least,
        "terabytes_per_second": least / seconds / 1e12,
    }


SMOKE = {"SOLVES": ((2, 4, 2), (3, 2, 2)), "RESIDUALS": ((2, 2),), "LOOPED": 2}


def main() -> None:
    parser = parser_of(globals(), "results/bench-device.json")
    parser.add_argument("--only", choices=("solve", "residual"))
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jobs = []
    if options.only != "residual":
        jobs += [lambda grid=grid: solve_row(*grid) for grid in SOLVES]
    if options.only != "solve":
        for grid in RESIDUALS:
            jobs += [lambda g=grid, n=n: residual_row(*g, nested=n) for n in (True, False)]
    rows = []
    for job in jobs:
        rows.append(told({"device": jax.devices()[0].device_kind, **job()}))
    config = {"tolerance": TOLERANCE, "looped": LOOPED, "only": options.only}
    save(options.out, config, 0, rows, {})


if __name__ == "__main__":
    main()

"""What does a part of a mesh hold and ask for? Counts, no times: for any machine.

The Poisson problem on the unit square and cube, by `riesz_sharded` on forced devices of this host:
bytes of tables on a device for each of its unknowns, numbers that a device is told in each product
and in how many rounds, and iterations beside those of one device.
"""

import os

from bench import parser_of, save

CASES = (("square", 8, 5), ("cube", 4, 3), ("cube", 4, 4))
"""Shape, cells along a side of the coarsest mesh, and levels: 129^2, 17^3 and 33^3 nodes."""

DEVICES = (1, 2, 4, 8)
FEWEST = 64


def measure(shape: str, sides: int, levels: int) -> list[dict]:
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    import riesz as rz
    import riesz_sharded

    coarse = rz.rectangle((sides, sides)) if shape == "square" else rz.mesh.box((sides,) * 3)
    nested = rz.hierarchy(coarse, levels)
    space = rz.P1(nested.meshes[-1])
    form = rz.diffusion(1.0) - rz.source(1.0)
    problem = rz.boundary_value_problem(space, form, {"boundary": 0.0})
    matrix = rz.fem.jacobian(problem, jnp.zeros(space.num_dofs))
    side = jr.normal(jr.key(0), (problem.num_free,))
    alone = rz.solvers.multigrid(problem, nested).outcome(matrix, side)
    rows = []
    for count in DEVICES:
        solver = riesz_sharded.sharded_multigrid(problem, count, nested, fewest=FEWEST)
        found = solver.outcome(matrix, side)
        finest = solver.tables.levels[0]
        held = sum(leaf.nbytes for leaf in jax.tree.leaves(solver.tables)) / count
        own = solver.order.shape[1]
        rows.append(
            {
                "shape": shape,
                "unknowns": problem.num_free,
                "entries": len(matrix.values),
                "devices": count,
                "unknowns_of_a_device": own,
                "shared_levels": len(solver.tables.levels),
                "table_bytes_of_an_unknown": held / own,
                "matrix_bytes_of_an_unknown": 12 * finest.columns.shape[1] + 0.0,
                "told": [level.exchange.num_ghosts for level in solver.tables.levels],
                "rounds": [len(level.exchange.ways) for level in solver.tables.levels],
                "iterations": int(found.iterations),
                "iterations_of_one_device": int(alone.iterations),
                "largest_gap": float(
                    jnp.max(abs(found.solution - alone.solution)) / jnp.max(abs(alone.solution))
                ),
            }
        )
    return rows


SMOKE = {"CASES": (("square", 8, 3), ("cube", 4, 2)), "DEVICES": (1, 2), "FEWEST": 4}


def main() -> None:
    parser = parser_of(globals(), "results/bench-mesh-parts.json")
    options = parser.parse_args()
    flags = f"--xla_force_host_platform_device_count={max(DEVICES)}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    os.environ["JAX_PLATFORMS"] = "cpu"  # where there is a GPU, too: forced devices are the host's
    import jax

    jax.config.update("jax_enable_x64", True)
    rows = [row for case in CASES for row in measure(*case)]
    for row in rows:
        print("{shape} {unknowns} unknowns, {devices} devices: {table_bytes_of_an_unknown:.0f} "
              "bytes of tables an unknown, told {told} in {rounds} rounds, {iterations} "
              "iterations".format(**row))  # fmt: skip
    summary = {
        "largest_gap": max(row["largest_gap"] for row in rows),
        "most_iterations_more": max(
            row["iterations"] - row["iterations_of_one_device"] for row in rows
        ),
    }
    config = {"cases": [list(case) for case in CASES], "devices": DEVICES, "fewest": FEWEST}
    save(options.out, config, 0, rows, summary)


if __name__ == "__main__":
    main()

"""How long does it take to build nested meshes, and a problem on each of them?

A square or a cube from coarse to fine, and diffusion with an unknown coefficient on every level,
held fixed all around. Each size has a process of its own, so that the peak of memory is its own.
"""

import json
import time

from bench import in_process, parser_of, save, told

SIZES = ((2, 24, 5), (2, 24, 6), (2, 24, 7), (3, 4, 4), (3, 4, 5), (3, 5, 5))
"""Dimension, cells along a side of the coarsest mesh, levels."""

LARGE = ((2, 24, 8), (3, 4, 6))
"""Nine million nodes in the plane and two in space: 9 GB of memory."""


def measure(dim: int, sides: int, levels: int) -> dict:
    """A row: seconds and memory of one size, without what only imports cost."""
    import resource

    import jax

    jax.config.update("jax_enable_x64", True)
    import riesz as rz

    def problems(meshes):
        form = rz.diffusion("a") - rz.source(1.0)
        found = [rz.boundary_value_problem(rz.P1(m), form, {"boundary": 0.0}) for m in meshes]
        return jax.block_until_ready(found)

    shape = rz.rectangle if dim == 2 else rz.mesh.box
    problems(rz.hierarchy(shape((2,) * dim), 2).meshes)
    clock, used = time.perf_counter(), time.process_time()
    meshes = rz.hierarchy(shape((sides,) * dim), levels).meshes
    meshed = time.perf_counter()
    held = problems(meshes)
    posed, cpu = time.perf_counter(), time.process_time()
    nodes = held[-1].space.mesh.num_nodes
    return {
        "dim": dim,
        "nodes": nodes,
        "levels": levels,
        "mesh_seconds": meshed - clock,
        "problem_seconds": posed - meshed,
        "cpu_seconds": cpu - used,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "nanoseconds_a_node": 1e9 * (posed - clock) / nodes,
    }


def summary(rows: list[dict]) -> dict[str, float]:
    """By size: seconds of the clock, and of all cores together."""
    found = {}
    for row in rows:
        size = f"{row['dim']}D, {row['nodes']} nodes"
        found[f"{size}: seconds"] = row["mesh_seconds"] + row["problem_seconds"]
        found[f"{size}: CPU seconds"] = row["cpu_seconds"]
        found[f"{size}: peak MB"] = row["peak_mb"]
    return found


SMOKE = {"SIZES": ((2, 2, 2), (3, 2, 2))}


def main() -> None:
    parser = parser_of(globals(), "results/bench-setup.json")
    parser.add_argument("--large", action="store_true", help="Also 9.4 million nodes: 9 GB.")
    parser.add_argument("--size", type=int, nargs=3, help="Print the row of one size.")
    options = parser.parse_args()
    if options.size:
        print(json.dumps(measure(*options.size)))
        return
    sizes = (*SIZES, *(LARGE if options.large else ()))
    rows = [told(in_process("--size", *map(str, size))) for size in sizes]
    config = {"large": options.large, "equation": "diffusion of an unknown field, and a source"}
    save(options.out, config, 0, rows, summary(rows))


if __name__ == "__main__":
    main()

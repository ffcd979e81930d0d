"""What does a training step of GP-DT cost, and does it depend on the mesh?

One step of Adam as the experiment does it: all wells, and the fields at the quadrature points of
the drawn mini-patches, nowhere else. Meshes of about 1,600 and 100,000 nodes of one outline, that
of the aquifer where RIESZ_DATA has it and a made-up one otherwise, are timed in turns in one
process, so that whatever else the machine does disturbs both alike.
"""

import json
import os
import sys
import time
from pathlib import Path

MAX_EDGE, SIMPLIFY = 20e3, {"aquifer": 3e3, "made-up": None}  # metres: about 400 nodes
LEVELS = (2, 5)  # two make about 1,600 nodes, five about 100,000
STEPS, ROUNDS = 20, 15
LIMIT_RATIO = 1.15


def outline():
    """The name and the polygon of the domain."""
    from riesz_paper.data.synthetic import aquifer_outline

    folder = os.environ.get("RIESZ_DATA")
    if not folder:
        return "made-up", aquifer_outline()
    return "aquifer", json.loads(
        (Path(folder) / "esrp" / "boundary_simplified.geojson").read_text()
    )


class Run:
    """A compiled run of some steps on one mesh, and the state of its training."""

    def __init__(self, meshes, num_steps: int):
        import jax
        import jax.numpy as jnp
        import jax.random as jr
        import numpy as np

        from riesz_paper.baselines.gp_physics.model import physics_on, prior_fields
        from riesz_paper.baselines.gp_physics.settings import PAPER
        from riesz_paper.baselines.gp_physics.spatial_surrogate import spatial_surrogate, units_of
        from riesz_paper.baselines.gp_physics.training import Task, Trained, start_of
        from riesz_paper.regression.covariates import Covariates

        mesh = meshes.meshes[-1]
        wells = mesh.nodes[np.random.default_rng(0).choice(meshes.meshes[0].num_nodes, 111)]
        heads = 4500 + 300 * np.sin(wells[:, 0] / 6e4) - 2e-3 * wells[:, 1]
        units = units_of(Covariates(wells, {}, {}), heads)
        start = time.perf_counter()
        physics = jax.block_until_ready(physics_on(meshes, units, PAPER, transport=True))
        self.setup_seconds = time.perf_counter() - start
        places = jnp.asarray(units.places(wells))
        self.task = Task(places, units.values.scaled(heads), physics, PAPER)
        fields = prior_fields(physics.frame, transport=True)
        self.state = start_of(Trained(spatial_surrogate(jr.key(0)), fields), PAPER)
        self.nodes, self.num_steps = mesh.num_nodes, num_steps
        start = time.perf_counter()
        self.seconds_per_step(0)
        self.compile_seconds = time.perf_counter() - start

    def seconds_per_step(self, seed: int) -> float:
        import jax
        import jax.random as jr

        from riesz.method.training import run_block
        from riesz_paper.baselines.gp_physics.training import step

        keys = jr.split(jr.key(seed), self.num_steps)
        start = time.perf_counter()
        self.state, terms = jax.block_until_ready(run_block(step, self.state, keys, self.task))
        seconds = time.perf_counter() - start
        assert bool((terms["penalty"] >= 0).all()), "the penalty is negative or not a number"
        return seconds / self.num_steps


SMOKE = {"MAX_EDGE": 60e3, "LEVELS": (2, 3), "STEPS": 1, "ROUNDS": 1}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    from bench import parser_of, save

    parser = parser_of(globals(), "results/bench-aquifer-step.json")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps in one timed run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    from riesz.mesh.refinement import hierarchy
    from riesz.mesher.polygon import mesh_from_polygon
    from riesz_paper.baselines.gp_physics.settings import PAPER

    domain, polygon = outline()
    coarse = mesh_from_polygon(polygon, max_edge=MAX_EDGE, simplify=SIMPLIFY[domain])
    runs = [Run(hierarchy(coarse, levels), options.steps) for levels in LEVELS]
    table = []
    for seed in range(1, options.rounds + 1):
        order = runs if seed % 2 else runs[::-1]
        seconds = {id(run): run.seconds_per_step(seed) for run in order}
        table.append([seconds[id(run)] for run in runs])
    small, large = np.median(table, axis=0)
    rows = [
        {
            "nodes": run.nodes,
            "domain": domain,
            "seconds_per_step": float(seconds),
            "setup_seconds": run.setup_seconds,
            "compile_seconds": run.compile_seconds,
        }
        for run, seconds in zip(runs, (small, large), strict=True)
    ]
    ratios = np.array(table)[:, 1] / np.array(table)[:, 0]
    figures = {
        "device": jax.devices()[0].device_kind,
        "ratio_of_medians": float(large / small),
        "median_of_ratios": float(np.median(ratios)),
        "within_limit": bool(large / small <= LIMIT_RATIO),
    }
    for row in rows:
        print("{nodes:>8} nodes {seconds_per_step:.5f} s a step, set-up {setup_seconds:.1f} s"
              .format(**row))  # fmt: skip
    config = {
        "steps": options.steps,
        "rounds": options.rounds,
        "patches": PAPER.num_patches,
        "patch_nodes": PAPER.patch_nodes,
        "inducing": PAPER.num_inducing,
        "limit_ratio": LIMIT_RATIO,
    }
    save(options.out, config, 0, rows, figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

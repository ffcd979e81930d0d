"""Compares a run on `problem.toml` with the truth behind its wells.

    python examples/aquifer/score.py out/aquifer --out results/aquifer.json

At places all over the aquifer: how far the mean is from the truth, and how often the central 95 %
interval holds it. Honest intervals hold it at 95 % of places.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from make_data import transmissivity, true_heads

import riesz as rz

NUM_PLACES = 500
LEVELS = (0.025, 0.975)


def score(run: Path) -> dict[str, float]:
    """Errors (root mean squares) and coverages of head and log-transmissivity."""
    fitted = rz.read_run(run)
    mesh = fitted.case.problem.forward.space.mesh
    nodes = np.random.default_rng(0).choice(mesh.num_nodes, min(NUM_PLACES, mesh.num_nodes), False)
    places = mesh.nodes[nodes]
    problem, heads = true_heads()
    truth = {
        "u": np.asarray(rz.fem.point_operator(problem.space, places, tolerance=1e3) @ heads),
        "transmissivity": np.asarray(jax.vmap(transmissivity)(jnp.asarray(places))),
    }
    found = {name: rz.predict(fitted.posterior, name, places, quantiles=LEVELS) for name in truth}
    held = {
        name: (found[name].quantiles[LEVELS[0]] <= value)
        & (value <= found[name].quantiles[LEVELS[1]])
        for name, value in truth.items()
    }
    ratio = found["transmissivity"].mean / truth["transmissivity"]
    return {
        "head_error_m": float(np.sqrt(np.mean((found["u"].mean - truth["u"]) ** 2))),
        "head_coverage": float(held["u"].mean()),
        "log_transmissivity_error": float(np.sqrt(np.mean(np.log(ratio) ** 2))),
        "transmissivity_coverage": float(held["transmissivity"].mean()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, help="a result file to write")
    jax.config.update("jax_enable_x64", True)
    asked = parser.parse_args()
    found = score(asked.run)
    for name, value in found.items():
        print(f"{name}: {value:.3g}")  # noqa: T201
    if asked.out is not None:
        command = "python examples/aquifer/score.py"
        content = rz.io.results(command, {"run": str(asked.run)}, 0, [found], found)
        rz.io.write_results(asked.out, content)

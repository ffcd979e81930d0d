"""Which engine in space? Three unknown numbers on 33 x 33 x 33 nodes, by each that can.

The problem is that of `check.py`. `laplace` with its check, `nuts` that starts from it, and
`emulate`, each in a process of its own: compilation is counted in. Means and standard deviations
are those of standard normal coordinates; `nuts` is the one to compare with.
"""

import argparse
import json
from pathlib import Path

from check import SEED, in_process, now, posed, spent

SIZE = (3, 4, 4)
ENGINES = ("laplace", "nuts", "emulate")


def measure(name: str) -> dict:
    """A row: what one engine took, and where it ended."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import numpy as np

    import riesz as rz

    engines = {
        "laplace": rz.Laplace(),
        "nuts": rz.Nuts(start=rz.Laplace(), num_warmup=50, num_samples=100, num_chains=2),
        "emulate": rz.Emulate(),
    }
    problem = posed(*SIZE)
    start = now()
    posterior = rz.fit(problem, engines[name], seed=SEED, progress=False)
    seconds, cpu = spent(start)
    spread = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance())))
    return {
        "engine": name,
        "nodes": problem.forward.space.mesh.num_nodes,
        "unknowns": problem.num_coordinates,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "mean": np.asarray(posterior.coordinate_mean()).tolist(),
        "sd": spread.tolist(),
        "check": str(rz.summary(posterior, num_draws=100).check),
        "notes": list(posterior.notes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/bench-space.json"))
    parser.add_argument("--engine", choices=ENGINES, help="Print the row of one engine.")
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(measure(options.engine)))
        return
    from riesz.io.store.results import results, write_results

    rows = [in_process(__file__, "--engine", name) for name in ENGINES]
    summary = {f"{row['engine']}: CPU seconds": row["cpu_seconds"] for row in rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_results(options.out, results("make bench-space", {"size": SIZE}, SEED, rows, summary))


if __name__ == "__main__":
    main()

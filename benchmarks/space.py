"""Which method in space? Three unknown numbers on 33 x 33 x 33 nodes, by each that can.

The problem is that of `check.py`. `laplace` with its check, NUTS that starts from it, and
`gaussian-vi` on a surrogate, each in a process of its own: compilation is counted in. Means and
standard deviations are those of standard normal coordinates; NUTS is the one to compare with.
"""

import json

from bench import in_process, is_smoke, parser_of, save, small_emulate, told
from check import SEED, now, posed, spent

SIZE = (3, 4, 4)
ENGINES = ("laplace", "nuts", "emulate")
NUTS = {"num_warmup": 50, "num_samples": 100, "num_chains": 2}


def measure(name: str) -> dict:
    """A row: what one engine took, and where it ended."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import numpy as np

    import riesz as rz

    engines = {
        "laplace": rz.inference.Engine(rz.Laplace()),
        "nuts": rz.inference.Engine(rz.MCMC(kernel="nuts", start=rz.Laplace(), **NUTS)),
        "emulate": small_emulate()
        if is_smoke()
        else rz.inference.Engine(rz.GaussianVI(), rz.Surrogate()),
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
        "notes": list(map(str, posterior.notes)),
    }


SMOKE = {"SIZE": (3, 2, 2), "NUTS": {"num_warmup": 10, "num_samples": 10, "num_chains": 1}}


def main() -> None:
    parser = parser_of(globals(), "results/bench-space.json")
    parser.add_argument("--engine", choices=ENGINES, help="Print the row of one engine.")
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(measure(options.engine)))
        return
    rows = [told(in_process("--engine", name)) for name in ENGINES]
    summary = {f"{row['engine']}: CPU seconds": row["cpu_seconds"] for row in rows}
    save(options.out, {"size": SIZE}, SEED, rows, summary)


if __name__ == "__main__":
    main()

"""Do single and double precision, and other devices, give the same answers?

The transport problem of the experiment (65^2 nodes, 25 sensors), fitted on a surrogate in float64
and float32 on whatever device JAX finds, against the quadrature of exact solves; and the plug-in:
the penalty of one network in both precisions on the same patches. Every fit is run twice: the first
one compiles.
"""

import json
import time

from bench import parser_of, save

LEVELS, SEED, REPLICATES = 5, 0, 3
PRECISIONS = ("float64", "float32")
SETTINGS = {}
"""Of the surrogate, that are not the default."""


def problem_of(replicate: int, dtype: str):
    """A data set of the transport experiment, posed in one precision."""
    import jax.numpy as jnp
    import numpyro.distributions as dist

    import riesz as rz
    from riesz_paper.experiments.transport.data import (
        PRIOR_SD,
        data_set,
        equation,
        mesh_family,
        noise,
    )

    data = data_set("square", SEED, replicate)
    return rz.inverse_problem(
        mesh_family("square", LEVELS),
        equation(),
        latents={"tau": dist.Normal(0.0, PRIOR_SD).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(data.points, data.values),
        likelihood=noise(data),
        dtype=jnp.dtype(dtype),
    )


def fitted(replicate: int, dtype: str) -> dict:
    """A row: moments of the fit, and its errors against quadrature in exact standard deviations."""
    import jax
    import numpy as np

    import riesz as rz
    from riesz_paper.experiments.transport.exact import exact_posterior

    exact_problem = problem_of(replicate, "float64")
    exact = exact_posterior(exact_problem, exact_problem.operator)
    problem = problem_of(replicate, dtype)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        engine = rz.inference.Engine(rz.GaussianVI(), rz.Surrogate(**SETTINGS))
        posterior = jax.block_until_ready(engine.run(problem, seed=SEED))
        seconds.append(time.perf_counter() - start)
    mean = np.asarray(posterior.coordinate_mean(), float)
    sd = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance(), float)))
    return {
        "method": "emulate",
        "precision": dtype,
        "replicate": replicate,
        "mean_error_sd": float(np.max(np.abs(mean - exact.mean) / exact.sd)),
        "sd_ratio": float((sd / exact.sd)[np.argmax(np.abs(np.log(sd / exact.sd)))]),
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "seconds": seconds[1],
        "compile_seconds": seconds[0] - seconds[1],
    }


def penalised(dtype: str) -> dict:
    """A row: what the plug-in says of a network that knows nothing of the equation."""
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    import riesz as rz

    problem = problem_of(0, dtype)
    penalty = rz.weak_form_penalty(problem.forward, problem.hierarchy)
    weights = jr.normal(jr.key(1), (2, 16)).astype(dtype)

    def network(x, z):
        inside = 16 * x[0] * (1 - x[0]) * x[1] * (1 - x[1])
        return inside * jnp.tanh(x @ weights + jnp.sum(z["tau"])).sum()

    zs = {"tau": jr.normal(jr.key(2), (16, 2)).astype(dtype)}

    @jax.jit
    def value(key):
        return penalty(key, network, zs)

    jax.block_until_ready(value(jr.key(0)))
    start = time.perf_counter()
    found = jax.block_until_ready([value(jr.key(seed)) for seed in range(20)])
    return {
        "method": "plug-in",
        "precision": dtype,
        "penalties": [float(one) for one in found],
        "seconds": (time.perf_counter() - start) / len(found),
    }


def figures_of(rows: list[dict]) -> dict:
    """The largest differences between precisions, in posterior standard deviations and relative."""
    import jax
    import numpy as np

    fits = {(r["replicate"], r["precision"]): r for r in rows if r["method"] == "emulate"}
    pairs = [[fits[i, p] for p in PRECISIONS] for i in range(REPLICATES)]
    double, single = (
        np.array(
            next(r["penalties"] for r in rows if r["method"] == "plug-in" and r["precision"] == p)
        )
        for p in PRECISIONS
    )
    apart = [np.abs(np.subtract(s["mean"], d["mean"])) / d["sd"] for d, s in pairs]
    ratios = [np.divide(s["sd"], d["sd"]) for d, s in pairs]
    return {
        "device": jax.devices()[0].device_kind,
        "largest_mean_difference_sd": float(np.max(apart)),
        "sd_ratio_range": [float(np.min(ratios)), float(np.max(ratios))],
        "largest_relative_penalty_difference": float(np.max(np.abs(single / double - 1))),
        **{
            f"{p}_largest_mean_error_sd": max(
                fits[i, p]["mean_error_sd"] for i in range(REPLICATES)
            )
            for p in PRECISIONS
        },
        **{
            f"{p}_median_seconds": float(
                np.median([fits[i, p]["seconds"] for i in range(REPLICATES)])
            )
            for p in PRECISIONS
        },
    }


SMALL = {"width": 8, "features": 8, "num_samples": 20, "readout_batches": 4, "rounds": 1}
SMOKE = {"LEVELS": 2, "REPLICATES": 1, "SETTINGS": SMALL | {"tries_states": False}}


def main() -> None:
    parser = parser_of(globals(), "results/bench-precision.json")
    options = parser.parse_args()
    import jax

    from riesz_paper.smoke import shrink

    jax.config.update("jax_enable_x64", True)
    if options.smoke:
        shrink("transport")
    rows = [penalised(dtype) for dtype in PRECISIONS]
    for replicate in range(REPLICATES):
        for dtype in PRECISIONS:
            rows.append(fitted(replicate, dtype))
            print(rows[-1], flush=True)
    figures = figures_of(rows)
    config = {"levels": LEVELS, "replicates": REPLICATES, "precisions": list(PRECISIONS)}
    save(options.out, config, SEED, rows, figures)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

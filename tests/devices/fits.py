"""Fits of a small problem, as a process of its own: JAX counts its devices when it starts.

Prints one JSON object: for each engine, and each number of devices, the numbers of its posterior.
With an address it is one of two processes, and 0 devices are the default one of each, alone.
"""

import argparse
import json
import sys
import warnings

import jax
import numpy as np
import numpyro.distributions as dist
from tests.pairs import pair

import riesz as rz

CHAINS = {"num_warmup": 15, "num_samples": 15, "num_chains": 3}
ENGINES = {
    "laplace": pair("laplace"),
    "nuts": pair("mcmc", kernel="nuts", **CHAINS),
    "mcmc": pair("mcmc", num_searches=2, **CHAINS),
    "surrogate": pair(
        "gaussian-vi(surrogate)",
        features=24,
        num_bends=4,
        num_patches=2,
        patch_nodes=16,
        readout_batches=10,
        refining_draws=128,
        rounds=12,
    ),
    "relaxed": pair("gaussian-vi(relaxed)", max_steps=5, num_draws=10),
}


def transport() -> rz.InverseProblem:
    """Two components of a velocity on 5^2 nodes."""
    rng = np.random.default_rng(3)
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((2, 2)), 2),
        rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0),
        latents={"tau": dist.Normal(0.0, 3.0).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(
            rng.uniform(0.1, 0.9, (6, 2)), 0.05 + 0.01 * rng.normal(size=6)
        ),
        likelihood=rz.Gaussian(0.01),
    )


def numbers(posterior: rz.Posterior) -> list[float]:
    """Of the posterior and of its check."""
    found = [posterior.coordinate_mean(), posterior.coordinate_covariance().ravel()]
    check = posterior.check
    if check is not None:
        found += [check.mean, check.sd, check.mean_shift, [check.k_hat]]
    return np.concatenate([np.asarray(part) for part in found]).tolist()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", nargs="+", choices=ENGINES)
    parser.add_argument("--devices", nargs="+", default=["1"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--joined", nargs=2, metavar=("ADDRESS", "NUMBER"))
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    if given.joined:
        rz.fem.join_processes(given.joined[0], 2, int(given.joined[1]))
    problem = transport()
    counts = {name: name if name == "all" else int(name) for name in given.devices}
    how = {"progress": False, "seed": 3, "check": None if given.check else False}
    found = {
        engine: {
            name: numbers(rz.fit(problem, ENGINES[engine], devices=count or None, **how))
            for name, count in counts.items()
        }
        for engine in given.engines
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()

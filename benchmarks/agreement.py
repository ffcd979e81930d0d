"""Do a host and an accelerator give the same posterior? Run it on both, and compare.

One unknown a node of a log-diffusivity, and of a source; 4,225 nodes, 20 sensors. On each machine
the solver that suits it is taken: sparse LU on a host, multigrid on an accelerator. The first run
keeps its numbers in a file; the second, given that file, tells by how much its own differ.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from bench import parser_of, save

import riesz as rz
from riesz.density.exact import ExactDensity
from riesz.diagnose.importance import importance_check

NUM_SENSORS, NOISE, SEED, LENGTH = 20, 0.01, 0, 0.3
LEVELS, NUM_MODES, NUM_DRAWS = 4, 20, 64


def posed(form, latents):
    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.1, 0.9, (NUM_SENSORS, 2))
    values = 0.05 + NOISE * rng.normal(size=NUM_SENSORS)
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((8, 8)), LEVELS),
        form,
        latents=latents,
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, values),
        likelihood=rz.Gaussian(NOISE),
    )


def numbers() -> dict[str, np.ndarray]:
    """What the engines say here."""
    diffusivity = {"a": rz.SPDEField(0.5, LENGTH, transform=jnp.exp)}
    problem = posed(rz.diffusion("a") - rz.source(1.0), diffusivity)
    solver = problem.default_solver()

    @jax.jit
    def density_and_slope(coordinates):
        return jax.value_and_grad(ExactDensity(problem, solver))(coordinates)

    at = np.random.default_rng(SEED + 1).normal(size=(8, problem.num_coordinates))
    found = [density_and_slope(jnp.asarray(one)) for one in at]
    normal = rz.inference.Engine(rz.Laplace(num_modes=NUM_MODES, tolerance=1e-8)).run(
        problem, seed=SEED, progress=False
    )
    checked = importance_check(normal, num_draws=NUM_DRAWS, seed=SEED)
    source = posed(rz.diffusion(1.0) - rz.source("f"), {"f": rz.SPDEField(1.0, LENGTH)})
    linear = rz.inference.Engine(rz.Laplace(), rz.Marginal(num_draws=20)).run(
        source, seed=SEED, progress=False
    )
    return {
        "log-density": np.array([value for value, _ in found]),
        "gradient": np.array([slope for _, slope in found]),
        "laplace: mode": np.asarray(normal.coordinate_mean()),
        "laplace: eigenvalues": np.sort(np.asarray(normal.history["eigenvalues"])),
        "importance check: mean": np.asarray(checked.mean),
        "importance check: effective draws": np.asarray(checked.effective_draws),
        "conditional: draws": np.asarray(linear.distribution.all()),
    }


SMOKE = {"LEVELS": 1, "NUM_SENSORS": 4, "NUM_MODES": 2, "NUM_DRAWS": 4}


def main() -> None:
    parser = parser_of(globals(), "results/bench-agreement.json")
    parser.add_argument("--keep", type=Path, help="Where to keep the numbers (.npz).")
    parser.add_argument("--against", type=Path, help="Numbers of another machine.")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    device, found = jax.devices()[0].device_kind, numbers()
    if options.keep:
        np.savez(options.keep, device=device, **found)
    if not (options.against or options.smoke):
        return
    other = np.load(options.against) if options.against else {"device": device, **found}
    rows = [
        {
            "what": name,
            "numbers": own.size,
            "devices": [device, str(other["device"])],
            "relative_difference": float(abs(own - other[name]).max() / abs(own).max()),
        }
        for name, own in found.items()
    ]
    summary = {"largest": max(row["relative_difference"] for row in rows)}
    save(options.out, {}, SEED, rows, summary)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""Many data sets of the transport problem: one compiled fit for all against fits one by one.

33 x 33 nodes, 25 sensors, velocities from the prior, data by exact solves with noise. Fitted
together, each data set has its check by exact solves; one by one it is `laplace` with and without
the check that `rz.fit` makes of it, after what is compiled was compiled. Some answers, drawn at
random, are held against the exact posterior by quadrature. Needs no more than what `import riesz`
does, on a processor or an accelerator.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bench import parser_of, save, told

import riesz as rz
from riesz.amortise.importance import batch_problem, exact_fits, exact_predictions
from riesz.amortise.simulate import Simulator, as_readings, single_problem
from riesz.density.reduced_basis import reduce_over_prior
from riesz.devices import devices_of, map_data_sets

COUNT, ALONE, COMPARED = 1000, 20, 200
LEVELS, NUM_SENSORS, PRIOR_SD, NOISE_SD = 4, 25, 3.0, 0.02 * 0.0737
SPACING, REACH = 0.5, 5.0
OFF = 0.15
"""Standard deviations that no mean may be off without a flag."""


def transport(seed: int):
    """The problem of the paper's Fig. 4; data sets share its sensors."""
    points = 0.5 + 0.9 * (np.random.default_rng([seed, 0]).uniform(size=(NUM_SENSORS, 2)) - 0.5)
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((4, 4)), LEVELS),
        rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0),
        latents={"tau": dist.Normal(0.0, PRIOR_SD).expand([2])},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, np.full(NUM_SENSORS, 0.02)),
        likelihood=rz.Gaussian(np.full(NUM_SENSORS, NOISE_SD)),
    )


def data_sets(problem, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    clean = exact_predictions(problem, rng.normal(size=(count, 2)), devices_of("all"))
    return clean + NOISE_SD * rng.normal(size=clean.shape)


def timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def quadrature(problem, values: np.ndarray, fits, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean and sd of the coordinates, by a lattice that the answer's draws span.

    Draws only say where to look: points, wide enough to catch an answer that is off, are weighed
    by exact solves.
    """
    draws = fits.found.draws[number]
    factor = np.linalg.cholesky(np.cov(draws.T) + 1e-12 * np.eye(2))
    steps = np.arange(-REACH, REACH + SPACING / 2, SPACING)
    offsets = np.stack([axis.ravel() for axis in np.meshgrid(steps, steps)], axis=1)
    lattice = draws.mean(axis=0) + offsets @ factor.T
    seen = exact_predictions(problem, lattice, devices_of("all"))
    row = (as_readings(problem, values[number : number + 1]), lattice[None], seen[None])
    fit = map_data_sets(exact_fits, problem, row, width=64, devices=None)[0]
    logs = fit - 0.5 * np.sum(lattice**2, axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ lattice
    return mean, np.sqrt(weights @ (lattice - mean) ** 2)


def alone_rows(problem, values: np.ndarray, count: int) -> list[dict]:
    """Fits one by one, the first of which compiles and is not counted."""
    readings, rows = as_readings(problem, values[: count + 1]), []
    for what, check in (("laplace alone, checked", None), ("laplace alone", False)):
        wall = cpu = 0.0
        for number in range(count + 1):
            own = single_problem(problem, readings, number)
            _, seconds, used = timed(
                lambda own=own, check=check: rz.fit(own, rz.Laplace(), check=check, progress=False)
            )
            if number:
                wall, cpu = wall + seconds, cpu + used
        rows.append({"what": what, "count": count, "seconds": wall, "cpu_seconds": cpu})
    return rows


SMOKE = {"COUNT": 3, "ALONE": 1, "COMPARED": 2, "LEVELS": 2, "NUM_SENSORS": 4}
SMOKE |= {"SPACING": 1.0, "REACH": 3.0}


def main() -> None:
    parser = parser_of(globals(), "results/bench-many-batched.json")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument(
        "--alone", type=int, default=ALONE, help="fits one by one; 0 leaves them out"
    )
    parser.add_argument("--compared", type=int, default=COMPARED, help="with quadrature")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    problem = transport(options.seed)
    values = data_sets(problem, options.count, options.seed)
    model, seconds, used = timed(lambda: reduce_over_prior(problem, options.seed))
    rows = [told({"what": "model", "count": 1, "seconds": seconds, "cpu_seconds": used})]
    width = batch_problem(Simulator(problem, model), options.seed).search.width

    def fitted(values):
        return rz.inference.fit_data_sets(problem, values, model=model, seed=options.seed)

    first = min(options.count, width * len(jax.devices()))
    _, seconds, used = timed(lambda: fitted(values[:first]))
    rows.append(
        {"what": "first, compiled", "count": first, "seconds": seconds, "cpu_seconds": used}
    )
    fits, seconds, used = timed(lambda: fitted(values))
    batched = {"what": "batched", "count": options.count, "seconds": seconds, "cpu_seconds": used}
    rows.append(told(batched | {"an_hour": 3600 * options.count / seconds, **fits.counts}))
    chosen = np.random.default_rng([options.seed, 2]).choice(
        options.count, min(options.compared, options.count), replace=False
    )
    errors, ratios = [], []
    for number in chosen.tolist():
        mean, sd = quadrature(problem, values, fits, number)
        errors.append(np.abs((fits.mean[number] - mean) / sd).max())
        ratios.append((fits.sd[number] / sd).tolist())
    flagged = np.array([fits.verdicts[number] == "doubtful" for number in chosen])
    rows.append(
        told(
            {
                "what": "against quadrature",
                "count": len(chosen),
                "worst_mean_error_sd": float(np.max(errors)),
                "median_mean_error_sd": float(np.median(errors)),
                "sd_ratio_low": float(np.min(ratios)),
                "sd_ratio_high": float(np.max(ratios)),
                "flagged": int(flagged.sum()),
                "off_without_a_flag": int(np.sum((np.asarray(errors) > OFF) & ~flagged)),
            }
        )
    )
    if options.alone:
        rows += alone_rows(problem, values, min(options.alone, options.count - 1))
    for row in rows:
        if row["what"].startswith("laplace"):
            each = row["cpu_seconds"] / row["count"]
            told(row | {"speedup": each / (used / options.count)})
            row["speedup"] = each / (used / options.count)
    config = {"device": jax.devices()[0].device_kind, "devices": len(jax.devices())}
    config |= {"nodes": problem.forward.space.num_dofs, "modes": model.num_modes}
    config |= {
        "gap": model.gap,
        "count": options.count,
        "x64": bool(jnp.zeros(0).dtype == "float64"),
    }
    save(options.out, config, options.seed, rows, {})


if __name__ == "__main__":
    main()

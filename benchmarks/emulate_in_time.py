"""How far is a Gaussian by a surrogate from exact posteriors of equations in time?

Heat on an interval with an unknown initial state of eight Karhunen-Loeve terms and an unknown
source: all is linear, and the posterior known in closed form. And diffusion in the plane with an
unknown diffusivity and the unknown history of a source at a point, six values of a process in time:
the density `marginal` has it integrated out, and diffusivities are weighed by exact marches. Each
data set has its own truth, drawn from the prior. Of each coordinate of the unknowns the error of
the mean is in posterior standard deviations; draws on `marginal` leave 0.016 of them. No
corrections by weights, unless asked for by `--checked`: the posterior is then the one that
`rz.fit` gives.
"""

import json
import time

from bench import is_smoke, parser_of, save, small_emulate

NUM_DRAWS, LEVELS, NUM_TERMS = 4000, 3, 8
NUM_SOLVED, NUM_SETS = 8, 10
"""Draws at which the surrogate's error at the sensors is told."""


def heat():
    """The problem without data, and its exact moments."""
    import numpy as np
    import numpyro.distributions as dist

    import riesz as rz

    places, when = np.array([0.15, 0.35, 0.5, 0.7, 0.9]), np.array([0.05, 0.12, 0.3, 0.6, 1.0])
    points, times = np.tile(places, len(when)), np.repeat(when, len(places))
    likelihood = rz.Gaussian(0.03)
    problem = rz.inverse_problem(
        rz.hierarchy(rz.interval(8), LEVELS),
        rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f"),
        latents={
            "start": rz.KarhunenLoeve(rz.Matern32(0.3), num_terms=NUM_TERMS),
            "f": dist.Normal(0.5, 1.0),
        },
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, np.zeros(len(points)), times=times),
        likelihood=likelihood,
        times=np.linspace(0, 1, 31),
        initial="start",
    )

    def exact(problem, seed):
        family = rz.inference.assimilate(problem).posterior().distribution
        return np.asarray(family.mean), np.sqrt(np.asarray(family.variances()))

    return problem, exact


def plume():
    import numpy as np
    import numpyro.distributions as dist

    import riesz as rz

    knots = np.linspace(0, 1, 6)
    places = np.array([[0.25, 0.5], [0.6, 0.7], [0.7, 0.3], [0.5, 0.4], [0.35, 0.75]])
    when = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 1.0])
    points, times = np.tile(places, (len(when), 1)), np.repeat(when, len(places))
    released = rz.series(knots, "q", kind="linear")
    problem = rz.inverse_problem(
        rz.hierarchy(rz.rectangle((4, 4)), LEVELS),
        rz.storage(1.0) + rz.diffusion("k") - rz.point_source([[0.4, 0.6]], released),
        latents={
            "k": dist.LogNormal(np.log(0.1), 0.5),
            "q": rz.priors.process_in_time(rz.Matern32(0.3), knots, mean=2.0),
        },
        dirichlet={"boundary": 0.0},
        observations=rz.observations(points, np.zeros(len(points)), times=times),
        likelihood=rz.Gaussian(0.01),
        times=np.linspace(0, 1, 21),
        initial=0.0,
    )

    def exact(problem, seed):
        engine = rz.inference.Engine(rz.Laplace(), rz.Marginal(num_draws=NUM_DRAWS))
        found = rz.fit(problem, engine, seed=seed, progress=False, check=False)
        sd = np.sqrt(np.diag(np.asarray(found.coordinate_covariance())))
        return np.asarray(found.coordinate_mean()), sd

    return problem, exact


PROBLEMS = {"heat": heat, "plume": plume}


def with_data(problem, seed: int):
    """The same problem with data of a truth from the prior."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz
    from riesz.problem.posing import with_observations

    rng = np.random.default_rng(seed)
    truth = jnp.asarray(rng.normal(size=problem.num_coordinates))
    sd = np.asarray(problem.noise_sd(problem.z(truth)))
    seen = np.asarray(problem.operator @ problem.state(truth))
    blank = problem.observations
    values = seen + sd * rng.normal(size=len(seen))
    observed = rz.observations(blank.points, values, times=blank.times)
    return with_observations(problem, observed, problem.likelihood)


def one_row(name: str, problem, exact, seed: int, *, checked: bool) -> dict:
    import jax.random as jr
    import numpy as np

    import riesz as rz

    start = time.process_time()
    found = rz.fit(
        problem,
        small_emulate() if is_smoke() else rz.inference.Engine(rz.GaussianVI(), rz.Surrogate()),
        seed=seed,
        progress=False,
        check=False,
    )
    records = found.states(problem, jr.key(0), draws := found.sample(jr.key(seed), NUM_SOLVED))
    if checked:
        found = rz.diagnose.with_importance_check(found, seed=seed)
    seconds = time.process_time() - start
    mean, sd = exact(problem, seed)
    shift = (np.asarray(found.coordinate_mean()) - mean) / sd
    ratio = np.sqrt(np.diag(np.asarray(found.coordinate_covariance()))) / sd
    gaps = [
        np.abs(problem.whiten(problem.operator @ (own - problem.state(one)), problem.z(one))).max()
        for own, one in zip(records, draws, strict=True)
    ]
    return {
        "problem": name,
        "seed": seed,
        "nodes": problem.forward.space.num_dofs,
        "steps": problem.time.axis.num_steps,
        "unknowns": problem.num_coordinates,
        "worst_mean_error_sd": float(np.abs(shift).max()),
        "sd_ratio_low": float(ratio.min()),
        "sd_ratio_high": float(ratio.max()),
        "sensor_error": float(max(gaps)),
        "rounds": len(found.history["moved"]),
        "cpu_seconds": seconds,
        "checked": checked,
        "k_hat": None if found.check is None else float(found.check.k_hat),
        "effective_draws": None if found.check is None else found.check.effective_draws,
        "corrected": bool(found.check is not None and found.check.is_applied),
        "notes": "; ".join(map(str, found.notes)),
    }


SMOKE = {"NUM_DRAWS": 40, "NUM_SOLVED": 2, "NUM_SETS": 1, "LEVELS": 2, "NUM_TERMS": 2}


def main() -> None:
    parser = parser_of(globals(), "results/bench-emulate-in-time.json")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--sets", type=int, default=NUM_SETS, help="rows that are there are kept")
    parser.add_argument("--seeds", nargs="*", type=int, help="of data sets [default: all]")
    parser.add_argument("--checked", action="store_true", help="as rz.fit corrects q by weights")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    from riesz.io.store.results import read_results

    rows = read_results(options.out)["rows"] if options.out.exists() else []
    known = {(one["problem"], one["seed"]) for one in rows}
    config = {"sets": options.sets, "draws": NUM_DRAWS, "checked": options.checked}
    for name in options.problems:
        blank, exact = PROBLEMS[name]()
        for seed in options.seeds or range(options.sets):
            if (name, seed) not in known:
                rows.append(
                    one_row(name, with_data(blank, seed), exact, seed, checked=options.checked)
                )
                print(json.dumps(rows[-1]), flush=True)
            save(options.out, config, 0, rows, figures(rows))
    print(json.dumps(figures(rows), indent=1))


def figures(rows: list[dict]) -> dict[str, float]:
    import numpy as np

    found = {}
    for name in sorted({one["problem"] for one in rows}):
        own = [one for one in rows if one["problem"] == name]
        errors = [one["worst_mean_error_sd"] for one in own]
        found |= {
            f"{name}: worst mean error, median": float(np.median(errors)),
            f"{name}: worst mean error, largest": max(errors),
            f"{name}: sd ratio, lowest": min(one["sd_ratio_low"] for one in own),
            f"{name}: sd ratio, highest": max(one["sd_ratio_high"] for one in own),
            f"{name}: error at a sensor": max(one["sensor_error"] for one in own),
        }
    return found


if __name__ == "__main__":
    main()

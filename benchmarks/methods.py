"""Is every method right on every density? Moments beside those that are known.

Three problems with two unknowns on 17^2 nodes: the strengths of two sources, whose posterior is
normal, and a diffusivity with the strength of a source, whose posterior is skewed, or bent where
the prior is twice as wide. What is exact is the sum over a grid of exact solves. A row has the
largest error of a posterior mean, in standard deviations, the largest relative error of a standard
deviation, and the notes by which the fit itself casts doubt on its result.
"""

import json
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from bench import in_process, parser_of, save, told

PROBLEMS = ("sources", "skewed", "bent")
METHODS = ("laplace", "gaussian-vi", "mcmc", "mcmc, nuts")

LEVELS, SIDES = 2, 8
NUM_SENSORS, NOISE = 9, 0.02
REACTION = 5.0
"""Without it only the ratio of source and diffusivity would be known."""

NUM_AXIS, WIDEST = 121, 6.0
"""Points of the grid along each unknown, and how many standard deviations it reaches."""

NUM_SAMPLES, NUM_EXACT, NUM_VALUES, NUM_DRAWS = 2500, 10_000, 1000, 40_000
"""Of chains, of draws that are weighed, and of the unknowns that are left or integrated out."""

GOOD_MEAN, GOOD_SD = 0.05, 0.05


def sources(z):
    return {"diffusivity": 1.0, "strengths": z["w"]}


def scaled(z):
    import jax.numpy as jnp

    return {"diffusivity": z["a"], "strengths": jnp.stack([z["s"], 0.0])}


def problem_of(name: str, seed: int):
    import jax.numpy as jnp
    import numpy as np
    import numpyro.distributions as dist

    import riesz as rz

    rng = np.random.default_rng(seed)
    points = rng.uniform(0.1, 0.9, (NUM_SENSORS, 2))
    latents, parts = {
        "sources": ({"w": dist.Normal(0.5 * jnp.ones(2), 1.0)}, sources),
        "skewed": ({"a": dist.LogNormal(0.0, 0.25), "s": dist.Normal(1.0, 0.25)}, scaled),
        "bent": ({"a": dist.LogNormal(0.0, 0.5), "s": dist.Normal(1.0, 0.5)}, scaled),
    }[name]

    def diffusivity(x, z):
        return parts(z)["diffusivity"]

    def strength(x, z):
        return parts(z)["strengths"] @ jnp.array([1.0, jnp.cos(jnp.pi * x[0])])

    def posed(values):
        return rz.inverse_problem(
            rz.hierarchy(rz.rectangle((SIDES, SIDES)), LEVELS),
            rz.diffusion(diffusivity) + rz.reaction(REACTION) - rz.source(strength),
            latents=latents,
            dirichlet={"left": 0.0, "right": 0.2},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian(NOISE),
        )

    empty = posed(np.zeros(NUM_SENSORS))
    clean = empty.operator @ empty.state(jnp.asarray(rng.normal(size=2)))
    return posed(np.asarray(clean) + NOISE * rng.normal(size=NUM_SENSORS))


def exact_moments(problem):
    """Means and sds of the coordinates: a first grid tells where the second lies."""
    import equinox as eqx
    import jax
    import numpy as np

    from riesz.density.exact import exact_density

    density = exact_density(problem, "auto")
    logs_of = eqx.filter_jit(lambda own, places: jax.lax.map(own, places, batch_size=64))
    mean, sd = np.zeros(2), np.ones(2)
    for _ in range(2):
        axes = [
            m + s * np.linspace(-WIDEST, WIDEST, NUM_AXIS) for m, s in zip(mean, sd, strict=True)
        ]
        places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        logs = np.asarray(logs_of(density, places))
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        mean = weights @ places
        sd = np.sqrt(weights @ (places - mean) ** 2)
    return mean, sd


def method_of(name: str):
    import riesz as rz

    chains = {"num_samples": NUM_SAMPLES}
    return {
        "laplace": rz.Laplace(),
        "gaussian-vi": rz.GaussianVI(),
        "mcmc": rz.MCMC(**chains),
        "mcmc, nuts": rz.MCMC(kernel="nuts", **chains),
    }[name]


def densities():
    import riesz as rz

    return {
        "exact": rz.Exact(),
        "marginal": rz.Marginal(num_values=NUM_VALUES, num_draws=NUM_DRAWS),
        "reduced-basis": rz.ReducedBasis(num_exact=NUM_EXACT),
        "surrogate": rz.Surrogate(num_exact=NUM_EXACT),
        "relaxed": rz.Relaxed(epsilon_rel=0.01),
    }


def one_row(name: str, problem, exact, method: str, density: str, seed: int) -> dict:
    import numpy as np

    import riesz as rz
    from riesz.notes import doubts

    row = {"problem": name, "method": method, "density": density}
    start, cpu = time.perf_counter(), time.process_time()
    try:
        pair = {"method": method_of(method), "density": densities()[density]}
        posterior = rz.fit(problem, **pair, seed=seed, progress=False)
    except rz.RieszError as error:
        return row | {"refused": str(error)}
    mean, sd = (np.asarray(one) for one in exact)
    found = np.asarray(posterior.coordinate_mean())
    width = np.sqrt(np.diag(np.asarray(posterior.coordinate_covariance())))
    errors = {
        "mean_error": float(np.abs((found - mean) / sd).max()),
        "sd_error": float(np.abs(width / sd - 1).max()),
    }
    flags = sorted({note.code for note in doubts(posterior.notes)})
    is_right = errors["mean_error"] <= GOOD_MEAN and errors["sd_error"] <= GOOD_SD
    times = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    return row | errors | {"flags": flags, "is_right": is_right} | times


SMOKE = {"LEVELS": 2, "SIDES": 4, "NUM_AXIS": 11, "NUM_SAMPLES": 20, "NUM_EXACT": 20}
SMOKE |= {"NUM_VALUES": 20, "NUM_DRAWS": 40, "PROBLEMS": ("skewed",), "METHODS": ("laplace",)}


def rows_of(name: str, method: str, seed: int) -> list[dict]:
    """A method on every density."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    problem = problem_of(name, seed)
    exact = exact_moments(problem)
    return [told(one_row(name, problem, exact, method, density, seed)) for density in densities()]


def main() -> None:
    parser = parser_of(globals(), "results/bench-methods.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--worker", nargs=2, metavar="PART")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(rows_of(*options.worker, options.seed)))
        return

    def worker_rows(pair: tuple[str, str]) -> list[dict]:
        return in_process("--seed", str(options.seed), "--worker", *pair)

    # A process for each method: one holds only so many compiled programs.
    with ThreadPoolExecutor(options.jobs) as pool:
        groups = list(pool.map(worker_rows, product(PROBLEMS, METHODS)))
    rows = [row for group in groups for row in group]
    answered = [row for row in rows if "refused" not in row]
    wrong = [row for row in answered if not row["is_right"]]
    figures = {
        "pairs": len(rows),
        "refused": len(rows) - len(answered),
        "wrong": len(wrong),
        "wrong and not flagged": sum(not row["flags"] for row in wrong),
    }
    config = {"levels": LEVELS, "sides": SIDES, "sensors": NUM_SENSORS, "noise": NOISE}
    save(options.out, config, options.seed, rows, figures)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

"""Does `auto` end with a posterior that passes its check, and what does that cost beside others?

Twelve problems from 1 to 16,641 unknowns, by `auto` and by each method alone that might do. A row
runs in a process of its own; processor seconds have compilation and checks in them. An engine
passes where `auto` would have ended with it. Rows are printed as they come, and kept:
    python benchmarks/auto.py --rows rows.jsonl      (goes on where it was stopped)
"""

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import in_process, parser_of, save, told
from many_unknowns import posed as with_terms
from sampler import field_problem

SEED = 3
SECONDS = 900.0
"""That `auto` and `mcmc` are given at most, unless other seconds are."""


def posed(form, latents, *, sides: int, points, truth, relative_noise: float = 0.02):
    """A problem on a square, with data of its own at these coordinates, and noise."""
    import jax.numpy as jnp
    import numpy as np

    import riesz as rz

    mesh, rng = rz.rectangle((sides, sides)), np.random.default_rng(SEED)

    def with_data(values, noise_sd: float):
        return rz.inverse_problem(
            mesh,
            form,
            latents=latents,
            dirichlet={"boundary": 0.0},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian(noise_sd),
        )

    empty = with_data(np.zeros(len(points)), 1.0)
    coordinates = jnp.asarray(
        truth if truth is not None else rng.normal(size=empty.num_coordinates)
    )
    clean = np.asarray(empty.operator @ empty.state(coordinates))
    noise_sd = relative_noise * float(np.abs(clean).max())
    return with_data(clean + noise_sd * rng.standard_normal(len(clean)), noise_sd)


def places(count: int):
    import numpy as np

    return np.random.default_rng(SEED).uniform(0.05, 0.95, (count, 2))


def transport():
    import numpyro.distributions as dist

    import riesz as rz

    form = rz.diffusion("a") + rz.advection([1.0, 0.5]) - rz.source("f")
    latents = {"a": dist.LogNormal(0.0, 1.0), "f": dist.Normal(1.0, 1.0)}
    return posed(form, latents, sides=32, points=places(25), truth=[-1.0, 0.5])


def decay():
    import numpyro.distributions as dist

    import riesz as rz

    form = rz.diffusion("a") + rz.reaction("k") - rz.source(1.0)
    latents = {"a": dist.LogNormal(0.0, 1.0), "k": dist.LogNormal(1.0, 1.0)}
    return posed(form, latents, sides=64, points=places(10), truth=[-1.0, 0.5])


def two_peaks():
    """A source at height s seen from the middle line: s and 1 - s give the same data."""
    import jax.numpy as jnp
    import numpyro.distributions as dist

    import riesz as rz

    def bump(x, z):
        return 20 * jnp.exp(-((x[0] - 0.5) ** 2 + (x[1] - z["s"]) ** 2) / (2 * 0.08**2))

    points = [[x, 0.5] for x in (0.2, 0.35, 0.5, 0.65, 0.8)]
    latents = {"s": dist.Normal(0.45, 0.2)}
    form = rz.diffusion(1.0) - rz.source(bump)
    return posed(form, latents, sides=24, points=points, truth=[-1.0])


def linear_source():
    import riesz as rz

    latents = {"f": rz.KarhunenLoeve(rz.Matern32(1.0, 0.3), num_terms=40)}
    form = rz.diffusion(1.0) - rz.source("f")
    return posed(form, latents, sides=32, points=places(40), truth=None)


def learned_source():
    import riesz as rz

    field = rz.GP(
        rz.priors.Matern52(0.4, 2.0), 24, learned=rz.priors.LearnedScales(), at_nodes=True
    )
    form = rz.diffusion(1.0) - rz.source("f")
    return posed(form, {"f": field}, sides=24, points=places(30), truth=None)


def blocks():
    from riesz_paper.experiments.blocks.problem import block_problem

    return block_problem(SEED)


NUTS = "nuts"

PROBLEMS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "two peaks": (two_peaks, ("laplace", NUTS, "mcmc")),
    "transport": (transport, ("laplace", "gaussian-vi", NUTS, "mcmc")),
    "decay, finer mesh": (decay, ("laplace", "gaussian-vi", "mcmc")),
    "linear source": (linear_source, ("laplace(marginal)", "laplace")),
    "source with learned scales": (learned_source, ("laplace(marginal)", "laplace", "mcmc")),
    "20 terms": (lambda: with_terms(20, SEED)[0], ("laplace", "gaussian-vi", "mcmc")),
    "32 terms": (lambda: with_terms(32, SEED)[0], ("laplace", "gaussian-vi", "mcmc")),
    "64 terms": (lambda: with_terms(64, SEED)[0], ("laplace", "gaussian-vi", "mcmc")),
    "64 blocks": (blocks, ("laplace", "gaussian-vi", "mcmc")),
    "33 x 33 nodes": (lambda: field_problem(32, SEED), ("laplace", "gaussian-vi", "mcmc")),
    "65 x 65 nodes": (lambda: field_problem(64, SEED), ("laplace", "gaussian-vi", "mcmc")),
    "129 x 129 nodes": (lambda: field_problem(128, SEED), ("laplace", "gaussian-vi", "mcmc")),
}


def measure(name: str, engine: str, seconds: float = SECONDS) -> dict:
    """One row, alone."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import riesz as rz
    from riesz.errors import RieszError
    from riesz.inference.fit import find_inadequacy

    problem = PROBLEMS[name][0]()
    row = {"problem": name, "unknowns": problem.num_coordinates, "engine": engine}
    row |= {"seconds_given": seconds}
    cpu, begun = time.process_time(), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            taken = rz.MCMC(kernel="nuts") if engine == NUTS else engine
            posterior = rz.fit(problem, taken, seed=SEED, progress=False, time_limit=seconds)
            spent = time.process_time() - cpu
            row |= {"seconds": time.perf_counter() - begun}  # of the limit, without what follows
            missing = find_inadequacy(posterior, SEED)
    except RieszError as error:
        spent = time.process_time() - cpu
        row |= {"seconds": time.perf_counter() - begun}
        return row | {"cpu_seconds": spent, "passes": False, "missing": str(error)}
    return row | {
        "taken": posterior.engine,
        "cpu_seconds": spent,
        "passes": missing is None,
        "missing": missing and str(missing.why),
        "notes": list(map(str, posterior.notes)),
    }


def summarised(rows: list[dict]) -> dict:
    """For each problem what auto took, and its time over that of the best engine that passes."""
    found = {}
    for name in dict.fromkeys(row["problem"] for row in rows):
        own = {row["engine"]: row for row in rows if row["problem"] == name}
        auto = own.pop("auto", None)
        if auto is None:
            continue
        times = {engine: row["cpu_seconds"] for engine, row in own.items() if row["passes"]}
        best = min(times, key=lambda engine: times[engine], default=None)
        found[name] = {
            "unknowns": auto["unknowns"],
            "auto took": auto.get("taken"),
            "passes": auto["passes"],
            "cpu_seconds": auto["cpu_seconds"],
            "best": best,
            "ratio": None if best is None else auto["cpu_seconds"] / times[best],
        }
    return found


SMOKE = {"PROBLEMS": {"transport": (transport, ("laplace",))}, "SECONDS": 20.0}


def main() -> None:
    parser = parser_of(globals(), "results/bench-auto.json")
    parser.add_argument("--rows", type=Path, help="Keep rows here, and leave out those it has.")
    parser.add_argument("--problem", choices=PROBLEMS, help="Print one row.")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="For that one row.")
    options = parser.parse_args()
    if options.problem:
        print(json.dumps(measure(options.problem, options.engine, options.seconds)))
        return
    kept = options.rows.read_text().splitlines() if options.rows and options.rows.exists() else []
    rows = [json.loads(line) for line in kept]
    done = {(row["problem"], row["engine"]) for row in rows}
    wanted = [(name, "auto") for name in PROBLEMS]
    wanted += [(name, engine) for name, (_, engines) in PROBLEMS.items() for engine in engines]
    for name, engine in wanted:
        if (name, engine) not in done:
            rows.append(told(in_process("--problem", name, "--engine", engine)))
            if options.rows:
                with options.rows.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    config = {"seconds_of_sampling": SECONDS}
    save(options.out, config, SEED, rows, summarised(rows))
    print(json.dumps(summarised(rows), indent=1))


if __name__ == "__main__":
    main()

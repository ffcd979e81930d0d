"""Does a further measurement tell what `riesz next` says, and how long does that take to say?

Two problems on 17^2 nodes, with few sensors: the strength of a source, a field in which all is
linear and normal, and a log-diffusivity, in which nothing is. At places from the least to the most
telling, measurements are simulated from the posterior predictive distribution, evenly spread over
it, and the problem is fitted again with each, by `laplace` with draws weighted to be those of the
exact posterior. The share of the variance that is gone, its mean over the values at a place, stands
beside what was foretold by the first fit; the slope between them is that of a line through the
origin. Then the command is timed with 10,000 candidates, from its start to its end, on the aquifer
of the examples.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import parser_of, save

ROOT = Path(__file__).parents[1]
SIDES, NUM_TERMS, LENGTH_SCALE, NUM_SENSORS = 16, 8, 0.4, 8
RELATIVE_NOISE = {"source": 0.05, "diffusivity": 0.05}
NUM_PLACES, NUM_VALUES = 8, 4
NUM_DRAWS, NUM_WEIGHTED, SEED = 2000, 4000, 0
QUANTITIES = {"source": ("u", "f", "exceed:-0.03"), "diffusivity": ("u", "a", "exceed:0.1")}
NUM_CANDIDATES = 10_000
TIMED = ("u", "transmissivity", "exceed:1450")


def posed(kind: str, points, values, noise_sd: float):
    """A field of which little is known."""
    import jax.numpy as jnp

    import riesz as rz

    kernel, is_source = rz.Matern32(length_scale=LENGTH_SCALE), kind == "source"
    transform = {} if is_source else {"transform": jnp.exp}
    field = rz.KarhunenLoeve(kernel, num_terms=NUM_TERMS, **transform)
    equation = rz.diffusion(1.0) - rz.source("f") if is_source else rz.diffusion("a")
    return rz.inverse_problem(
        rz.rectangle((SIDES, SIDES)),
        equation if is_source else equation - rz.source(1.0),
        latents={"f" if is_source else "a": field},
        dirichlet={"left": 0.0, "right": 0.0},
        observations=rz.observations(points, values),
        likelihood=rz.Gaussian(noise_sd),
    )


def first_data(kind: str):
    """Places, values and noise of what is measured already."""
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.05, 0.95, (NUM_SENSORS, 2))
    blank = posed(kind, points, np.zeros(NUM_SENSORS), 1.0)
    clean = np.asarray(blank.operator @ blank.state(jnp.asarray(rng.normal(size=NUM_TERMS))))
    noise_sd = float(RELATIVE_NOISE[kind] * np.abs(clean).max())
    return points, clean + noise_sd * rng.standard_normal(NUM_SENSORS), noise_sd


class Fit(NamedTuple):
    """A posterior, draws, and what each weighs."""

    posterior: Any
    draws: Any
    coordinates: Any
    weights: Any

    @property
    def effective_draws(self) -> float:
        return float(1 / (self.weights @ self.weights))

    def amounts(self, names: tuple[str, ...]) -> dict[str, float]:
        """What there is to be learned of each quantity, as `measure_next` counts it."""
        import numpy as np

        from riesz.prediction.next_draws import target

        found = {}
        for name in names:
            one = target(self.draws, name)
            per_part = self.weights @ (one.parts - self.weights @ one.parts) ** 2
            if one.above is not None:
                share = self.weights @ one.above
                per_part = np.minimum(share, 1 - share)
            found[name] = float(per_part @ one.weights)
        return found

    def resampled(self):
        """The posterior as draws of equal weight."""
        import jax.numpy as jnp
        import numpy as np

        from riesz.posterior.family import EmpiricalDraws

        chosen = np.random.default_rng(SEED).choice(len(self.weights), NUM_DRAWS, p=self.weights)
        return dataclasses.replace(
            self.posterior, distribution=EmpiricalDraws(jnp.asarray(self.coordinates[chosen][None]))
        )


def fitted(kind: str, points, values, noise_sd: float) -> Fit:
    """By `laplace`, whose draws are weighted to be those of the exact posterior."""
    import jax
    import jax.random as jr
    import numpy as np

    import riesz as rz
    from riesz.posterior.posterior import representative_draws
    from riesz.prediction.drawing import posterior_draws

    problem = posed(kind, points, values, noise_sd)
    posterior = rz.fit(problem, rz.Laplace(), seed=SEED, progress=False, check=False)
    draws = posterior_draws(posterior, num_draws=NUM_WEIGHTED, seed=SEED, for_summary=True)
    coordinates = representative_draws(posterior, jr.split(jr.key(SEED))[0], NUM_WEIGHTED)
    residuals = (values - draws.observed.predicted.values()) / noise_sd
    log_weights = -0.5 * np.sum(residuals**2, axis=1) - np.asarray(
        jax.vmap(posterior.distribution.log_prob)(coordinates) + 0.5 * (coordinates**2).sum(axis=1)
    )
    weights = np.exp(log_weights - log_weights.max())
    return Fit(posterior, draws, np.asarray(coordinates), weights / weights.sum())


def refits(kind: str, num_places: int) -> list[dict]:
    """A row for each refit and quantity."""
    import numpy as np

    import riesz as rz

    points, values, noise_sd = first_data(kind)
    first, names = fitted(kind, points, values, noise_sd), QUANTITIES[kind]
    before = first.amounts(names)
    posterior = first.posterior if kind == "source" else first.resampled()
    axis = np.linspace(0.025, 0.975, 20)
    candidates = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    foretold = {
        name: rz.measure_next(posterior, name, candidates, num_draws=NUM_DRAWS, seed=SEED)
        for name in names
    }
    order = np.argsort(foretold["u"].share)
    chosen = order[np.linspace(0, len(order) - 1, num_places + 1).round().astype(int)[1:]]
    levels = [(number + 0.5) / NUM_VALUES for number in range(NUM_VALUES)]
    there = rz.predict(
        posterior,
        "measurement",
        candidates[chosen],
        num_draws=NUM_DRAWS,
        seed=SEED,
        quantiles=levels,
    )
    rows = []
    for number, place in enumerate(chosen.tolist()):
        for level in levels:
            value = float(there.quantiles[level][number])
            more = (np.vstack([points, candidates[place]]), np.append(values, value), noise_sd)
            again = fitted(kind, *more)
            after = again.amounts(names)
            for name, told in foretold.items():
                rows.append(
                    {
                        "problem": kind,
                        "quantity": name,
                        "x": float(candidates[place, 0]),
                        "y": float(candidates[place, 1]),
                        "value": value,
                        "foretold": float(told.share[place]),
                        "found": 1 - after[name] / before[name],
                        "effective_draws": again.effective_draws,
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


def slope(rows: list[dict]) -> float:
    """Through the origin, of means over the values at each place."""
    import numpy as np

    places: dict[tuple, list[dict]] = {}
    for row in rows:
        places.setdefault((row["problem"], row["quantity"], row["x"], row["y"]), []).append(row)
    foretold = np.array([own[0]["foretold"] for own in places.values()])
    found = np.array([np.mean([row["found"] for row in own]) for own in places.values()])
    return float(foretold @ found / (foretold @ foretold))


def timed() -> list[dict]:
    """The command with many candidates, on the run of an example."""
    import numpy as np

    import riesz as rz
    from riesz.mesh.mesh import cell_volumes

    start = "from riesz.cli.main import main; main()"
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        problem = str(ROOT / "examples" / "aquifer" / "problem.toml")
        words = [sys.executable, "-c", start, "fit", problem, "--out", str(folder), "--quiet"]
        subprocess.run(words, check=True)
        mesh = rz.read_run(folder).draws().mesh
        area = float(cell_volumes(mesh.nodes, mesh.cells).sum())
        cell = float(np.sqrt(area / (1.02 * NUM_CANDIDATES)))
        for quantity in TIMED:
            words = ["next", str(folder), "--for", quantity, "--cell", f"{cell:.1f}", "--json"]
            begun = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", start, *words], check=True, capture_output=True, text=True
            )
            seconds = time.perf_counter() - begun
            told = json.loads(done.stdout.splitlines()[-1])
            sizes = {name: told[name] for name in ("candidates", "draws")}
            rows.append({"problem": "aquifer", "quantity": quantity, **sizes, "seconds": seconds})
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


SMOKE = {"SIDES": 4, "NUM_TERMS": 2, "NUM_SENSORS": 3, "NUM_PLACES": 1, "NUM_VALUES": 1}
SMOKE |= {"NUM_DRAWS": 50, "NUM_WEIGHTED": 50, "TIMED": ()}
SMOKE |= {"QUANTITIES": {"source": ("u", "f"), "diffusivity": ("u", "a")}}


def main() -> None:
    parser = parser_of(globals(), "results/bench-next.json")
    parser.add_argument("--places", type=int, default=NUM_PLACES, help="In each problem.")
    parser.add_argument("--kind", choices=[*QUANTITIES, "timed"], help="Only these, unwritten.")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    if options.kind:
        rows = timed() if options.kind == "timed" else refits(options.kind, options.places)
        print(None if options.kind == "timed" else slope(rows))
        return
    rows = [row for kind in QUANTITIES for row in refits(kind, options.places)]
    timings = timed() if TIMED else []
    of_variance = [row for row in rows if not row["quantity"].startswith("exceed")]
    refitted = sum(row["quantity"] == "u" for row in rows)
    summary = {"refits": refitted, "slope": slope(of_variance)}
    for kind, names in QUANTITIES.items():
        for name in names:
            own = [row for row in rows if (row["problem"], row["quantity"]) == (kind, name)]
            summary[f"{kind}: slope for {name}"] = slope(own)
    if timings:
        summary["most_candidates"] = max(row["candidates"] for row in timings)
        summary["seconds"] = max(row["seconds"] for row in timings)
    config = {
        "nodes": (SIDES + 1) ** 2,
        "sensors": NUM_SENSORS,
        "terms": NUM_TERMS,
        "draws": NUM_DRAWS,
        "weighted_draws": NUM_WEIGHTED,
        "places": options.places,
        "values": NUM_VALUES,
    }
    save(options.out, config, SEED, [*rows, *timings], summary)


if __name__ == "__main__":
    main()

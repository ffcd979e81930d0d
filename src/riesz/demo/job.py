"""The job itself: problem files, fits, samples that were held back, a map and a report.

Cadmium of the Swiss Jura is learned from 259 samples and predicted at 100 others, twice: from where
they lie, and from their lead, nickel and zinc as well.
"""

import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PyTree

import riesz as rz
from riesz.case.data.prepared import Prepared
from riesz.datasets.jura import FOLDER
from riesz.demo.figure import GUIDE_VALUE, draw_demo
from riesz.demo.scores import (
    ALL,
    METAL,
    PLACE,
    SECONDARIES,
    LogNormal,
    Row,
    references,
    row_of,
    scored,
)

TABLE, BY_PLACE, WITH_METALS = "jura.csv", "problem.toml", "with-metals.toml"
RUNS = {BY_PLACE: "run", WITH_METALS: "run-with-metals"}
FIGURE, REPORT = "cadmium.png", "report.html"
STAGES = (f"fit by {PLACE}", f"fit by {ALL}", "map", "report")

LEFT_OUT = "#: "
"""What lines of the problem file begin with that only the second one has."""


def demo(out: Path, *, seed: int, stage: Callable[[str], None]) -> list[Row]:
    """Leave everything in a folder; returns one row a method.

    `stage` is called with each of `STAGES` as it begins.
    """
    write_inputs(out)
    held_back = read_held_back(out / TABLE)
    truth = np.exp(held_back.values)
    rows: list[Row] = []
    predicted: dict[str, LogNormal] = {}

    def fitted(name: str, knows: str) -> rz.Run:
        clock = perf_counter()
        run = rz.fit_case(out / name, out / RUNS[name], seed=seed, progress=False)
        predicted[knows] = at_places(run, held_back, seed)
        scores = scored(predicted[knows], truth)
        rows.append(row_of("ours", "ours", knows, **scores, seconds=perf_counter() - clock))
        return run

    stage(STAGES[0])
    run = fitted(BY_PLACE, PLACE)
    stage(STAGES[1])
    fitted(WITH_METALS, ALL)
    stage(STAGES[2])
    draw_demo(out / FIGURE, run, new_samples(run.posterior, seed), truth, predicted)
    stage(STAGES[3])
    rz.write_report(run, out / REPORT, seed=seed)
    return [*rows, *references(run.case.prepared, held_back)]


def write_inputs(out: Path) -> None:
    """The table and both problem files; raises where one was changed since, to lose no work."""
    text = files("riesz.demo").joinpath(BY_PLACE).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    inputs = {
        TABLE: files("riesz.datasets").joinpath(FOLDER, TABLE).read_bytes(),
        BY_PLACE: "".join(one for one in lines if not one.startswith(LEFT_OUT)).encode(),
        WITH_METALS: "".join(one.removeprefix(LEFT_OUT) for one in lines).encode(),
    }
    for name, content in inputs.items():
        if (out / name).exists() and (out / name).read_bytes() != content:
            raise rz.RieszError(
                f"{out / name} is not what the demo writes there: choose another --out, or move it."
            )
    for name, content in inputs.items():
        if name in RUNS and (out / name).exists():  # of an earlier demo, finished or stopped
            for folder in (RUNS[name], f"{RUNS[name]}.unfinished"):
                shutil.rmtree(out / folder, ignore_errors=True)
        (out / name).write_bytes(content)


def read_held_back(table: Path) -> Prepared:
    return rz.read_observations(
        table,
        x="x_km",
        y="y_km",
        value=METAL,
        transform="log",
        where={"set": "validation"},
        covariates=SECONDARIES,
    )


def at_places(run: rz.Run, places: Prepared, seed: int) -> LogNormal:
    """What samples there are predicted to be, noise included."""
    known, design = run.case.prepared, None
    if known.covariates:
        design, _ = rz.covariate_design(known, places, logs=SECONDARIES)
    found = rz.predict_data(run.posterior, places.points, design=design, seed=seed)
    return LogNormal(found.mean, found.sd)


def new_samples(posterior: rz.Posterior, seed: int) -> Float[np.ndarray, "3 node"]:
    """Mean and sd of a sample taken anywhere, in mg/kg, and how likely it is above the guide value.

    Its noise is integrated out: given the state u and its sd s it is log-normal.
    """

    def moments(problem: Any, u: Float[Array, " node"], z: PyTree) -> Float[Array, "3 node"]:
        s = z["noise"]
        above = norm.cdf((u - jnp.log(GUIDE_VALUE)) / s)
        return jnp.stack([jnp.exp(u + s**2 / 2), jnp.exp(2 * u + 2 * s**2), above])

    mean, square, above = rz.predict(posterior, moments, seed=seed, quantiles=()).mean
    return np.stack([mean, np.sqrt(square - mean**2), above])

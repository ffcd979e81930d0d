"""The job itself: problem files, fits, samples that were held back, a map and a report.

Cadmium of the Swiss Jura is learned from 259 samples and predicted at 100 others, twice: from where
they lie, and from their lead, nickel and zinc as well.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PyTree
from matplotlib.axes import Axes
from scipy.special import ndtr

import riesz as rz

METAL, SECONDARIES = "Cd", ("Pb", "Ni", "Zn")
PLACE, ALL = "place", f"place, {', '.join(SECONDARIES)}"
"""What a prediction goes by."""

PUBLISHED = {"GPDK": 0.451, "VAE": 0.569, "VAE-DT": 0.478, "VAE-NLD": 0.549}
"""Mean absolute errors in mg/kg, of Tait & Damoulas (2020), Table 1; by `ALL`."""

GUIDE_VALUE = 0.8
"""mg/kg: of cadmium in soil, in Switzerland."""

LABEL = "cadmium, mg/kg"
TICKS = (0.2, 0.5, 1, 2, 5)

TABLE, BY_PLACE, WITH_METALS = "jura.csv", "problem.toml", "with-metals.toml"
RUNS = {BY_PLACE: "run", WITH_METALS: "run-with-metals"}
FIGURE, REPORT = "cadmium.png", "report.html"
STAGES = (f"fit by {PLACE}", f"fit by {ALL}", "map", "report")

LEFT_OUT = "#: "
"""What lines of the problem file begin with that only the second one has."""


@dataclass(frozen=True, eq=False)
class LogNormals:
    """What is predicted for each sample: its logarithm is normal."""

    mean: Float[np.ndarray, " sample"]
    sd: Float[np.ndarray, " sample"]

    def quantile(self, normal: float) -> Float[np.ndarray, " sample"]:
        """So many standard deviations above the median."""
        return np.exp(self.mean + normal * self.sd)

    def crps(self, truth: Float[np.ndarray, " sample"]) -> Float[np.ndarray, " sample"]:
        """The continuous ranked probability score (Baran & Lerch 2015, section 2.2)."""
        reached = (np.log(truth) - self.mean) / self.sd
        beyond = ndtr(reached - self.sd) + ndtr(self.sd / np.sqrt(2)) - 1
        expected = np.exp(self.mean + self.sd**2 / 2)
        return truth * (2 * ndtr(reached) - 1) - 2 * expected * beyond


def score_row(
    method: str,
    role: str,
    knows: str,
    mae: float,
    *,
    crps: float | None = None,
    coverage95: float | None = None,
    seconds: float | None = None,
) -> rz.io.Row:
    return {
        "method": method,
        "role": role,
        "knows": knows,
        "metal": METAL,
        "mae": mae,
        "crps": crps,
        "coverage95": coverage95,
        "seconds": seconds,
    }


def score_prediction(predicted: LogNormals, truth: Float[np.ndarray, " sample"]) -> rz.io.Row:
    low, high = (predicted.quantile(normal) for normal in (-1.96, 1.96))
    return {
        "mae": float(np.abs(predicted.quantile(0.0) - truth).mean()),
        "crps": float(predicted.crps(truth).mean()),
        "coverage95": float(np.mean((low <= truth) & (truth <= high))),
    }


def references(known: rz.case.DataRows, held_back: rz.case.DataRows) -> Sequence[rz.io.Row]:
    """What takes no model, one distribution for all and the nearest sample; what was published."""
    truth = np.exp(held_back.values)
    alike = LogNormals(*np.full((len(truth), 2), [known.values.mean(), known.values.std()]).T)
    apart = np.linalg.norm(held_back.points[:, None] - known.points, axis=-1)
    nearest = np.exp(known.values[apart.argmin(axis=1)])
    return (
        score_row("all samples alike", "baseline", "nothing", **score_prediction(alike, truth)),
        score_row("nearest sample", "baseline", PLACE, float(np.abs(nearest - truth).mean())),
        *(score_row(method, "published", ALL, mae) for method, mae in PUBLISHED.items()),
    )


def draw_demo(
    path: Path,
    run: rz.case.Run,
    on_map: Float[np.ndarray, "3 node"],
    truth: Float[np.ndarray, " sample"],
    predicted: Mapping[str, LogNormals],
) -> None:
    """Six panels; samples and mean share one colour scale."""
    figure, panels = rz.plot.new_figure(3, 2, width=4.4, height=4.7)
    seen, mean, sd, risk, *others = panels
    mesh, known = run.posterior.problem.forward.space.mesh, run.case.prepared
    measured = np.exp(known.values)
    # A quantile, since a few high values would leave the rest in one colour.
    scale = {"vmin": 0.0, "vmax": float(np.quantile(measured, 0.95))}
    rz.plot.draw_mesh(seen, mesh, color="0.85")
    dots = seen.scatter(*known.points.T, c=measured, s=14, zorder=3, **scale)
    figure.colorbar(dots, ax=seen, label=LABEL, location="bottom", shrink=0.8)
    rz.plot.draw_field(mean, mesh, on_map[0], label=LABEL, **scale)
    rz.plot.draw_field(sd, mesh, on_map[1], label=LABEL, cmap="magma", vmin=0)
    rz.plot.draw_field(risk, mesh, on_map[2], label="probability", cmap="cividis", vmin=0, vmax=1)
    titles = (
        f"{len(measured)} samples",
        "mean of a new sample",
        "its standard deviation",
        f"risk of more than {GUIDE_VALUE:g} mg/kg",
    )
    for axes, title in zip((seen, mean, sd, risk), titles, strict=True):
        axes.set(title=title, xlabel="x, km", ylabel="y, km")
    for axes, (knows, one) in zip(others, predicted.items(), strict=True):
        draw_held_back(axes, truth, one)
        axes.set_title(f"{len(truth)} held back, by {knows}")
    rz.plot.save_figure(path, figure)


def draw_held_back(axes: Axes, truth: Float[np.ndarray, " sample"], predicted: LogNormals) -> None:
    """Medians and 95 % intervals over what was measured; misses in red."""
    low, median, high = (predicted.quantile(normal) for normal in (-1.96, 0.0, 1.96))
    missed = (truth < low) | (truth > high)
    for chosen, colour in ((~missed, "tab:blue"), (missed, "tab:red")):
        bars = [(median - low)[chosen], (high - median)[chosen]]
        axes.errorbar(
            truth[chosen], median[chosen], bars,
            fmt="o", markersize=3, linewidth=0.8, color=colour,
        )  # fmt: skip
    axes.axline((1, 1), (2, 2), color="black", linewidth=0.6)
    axes.set(xscale="log", yscale="log", xlabel="measured, mg/kg", ylabel="predicted, mg/kg")
    axes.set(xlim=(0.1, 10), ylim=(0.1, 10), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axis.set_ticks([], minor=True)


def run_demo(out: Path, *, seed: int, stage: Callable[[str], None]) -> list[rz.io.Row]:
    """Leave everything in a folder; returns one row a method.

    `stage` is called with each of `STAGES` as it begins.
    """
    write_inputs(out)
    held_back = read_held_back(out / TABLE)
    truth = np.exp(held_back.values)
    rows: list[rz.io.Row] = []
    predicted: dict[str, LogNormals] = {}

    def fit_model(name: str, knows: str) -> rz.case.Run:
        clock = perf_counter()
        run = rz.read_problem(out / name).fit(out / RUNS[name], seed=seed, progress=False)
        predicted[knows] = predict_at(run, held_back, seed)
        scores = score_prediction(predicted[knows], truth)
        rows.append(score_row("ours", "ours", knows, **scores, seconds=perf_counter() - clock))
        return run

    stage(STAGES[0])
    run = fit_model(BY_PLACE, PLACE)
    stage(STAGES[1])
    fit_model(WITH_METALS, ALL)
    stage(STAGES[2])
    draw_demo(out / FIGURE, run, new_samples(run.posterior, seed), truth, predicted)
    stage(STAGES[3])
    run.report(out / REPORT, seed=seed)
    return [*rows, *references(run.case.prepared, held_back)]


def write_inputs(out: Path) -> None:
    """The table and both problem files; raises where one was changed since, to lose no work."""
    text = files("riesz_demo").joinpath(BY_PLACE).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    inputs = {
        TABLE: rz.datasets.jura_csv(),
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
            shutil.rmtree(out / RUNS[name], ignore_errors=True)
            rz.case.remove_unfinished(out / RUNS[name])
        (out / name).write_bytes(content)


def read_held_back(table: Path) -> rz.case.DataRows:
    return rz.case.read_observations(
        table,
        x="x_km",
        y="y_km",
        value=METAL,
        transform="log",
        where={"set": "validation"},
        covariates=SECONDARIES,
    )


def predict_at(run: rz.case.Run, places: rz.case.DataRows, seed: int) -> LogNormals:
    """What samples there are predicted to be, noise included."""
    known, design = run.case.prepared, None
    if known.covariates:
        design, _ = rz.case.covariate_design(known, places, logs=SECONDARIES)
    asked = {"design": design, "seed": seed}
    result = rz.predict(run.posterior, "measurement", places.points, **asked)
    return LogNormals(result.mean, result.sd)


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

"""The numbers that a report shows, from a run and draws of its posterior."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from riesz.case.report.drawn import Drawn, drawn
from riesz.case.report.maps import FieldMap, field_map, map_grid, rings
from riesz.case.report.trust import APPROXIMATE, EXACT, PARTLY, SAMPLED, Verdict, overall, verdicts
from riesz.case.run.folder import MANIFEST, Run
from riesz.case.run.measured import VALUE, Measured, Measurements, measured_as, measurements_of
from riesz.diagnose.summary import DataFit, fit_to_data, sampler_check
from riesz.engines.conditional.engine import Conditional
from riesz.io.store.results import read_results
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior, is_field, label_of, regions_of
from riesz.prediction.predict import NUM_DRAWS
from riesz.prediction.quantity import Grid, arrow_grid
from riesz.problem.linearity import linear_parts
from riesz.problem.problem import InverseProblem
from riesz.problem.words import equation_lines

INTERVAL = (0.025, 0.5, 0.975)
NO_CURVES = ("r_hat", "effective_draws", "num_steps", "accept_probability", "step_size")
"""Entries of a history that are no curve worth looking at."""

MOST_CURVES = 6
MOST_ARROWS = 24
"""Of flow along the longer side: more would touch each other on a phone."""

ROUNDING = 1e-10
"""Of a budget's largest line: what is smaller is zero."""

GAINS = {"point_source": "wells", "leakage": "rivers"}
"""What the terms of an equation are called where it describes an aquifer."""


@dataclass(frozen=True)
class Parameter:
    """An unknown number, or the mean of a field over nodes, before and after the data."""

    name: str
    prior: tuple[float, float, float]  # ends of the 95 % interval and the median between
    posterior: tuple[float, float, float]
    contraction: float


@dataclass(frozen=True)
class BudgetLine:
    """What is gained or lost a unit time, with its 95 % interval."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Flow:
    """The mean flux at the points of a grid."""

    points: Float[np.ndarray, "arrow 2"]
    spacing: float
    flux: Float[np.ndarray, "arrow 2"]


@dataclass(frozen=True, eq=False)
class Content:
    """All that the page shows."""

    name: str
    measured: Measured
    engine: str
    equation: str
    manifest: dict[str, Any]
    configuration: str
    pixels: Grid
    outline: tuple[Float[np.ndarray, "corner 2"], ...]
    unknowns: tuple[str, ...]
    maps: tuple[FieldMap, ...]
    parameters: tuple[Parameter, ...]
    measurements: Measurements
    flow: Flow | None
    curves: dict[str, Float[np.ndarray, "line step"]]
    verdicts: tuple[Verdict, ...]
    level: str
    warnings: tuple[str, ...]
    budget: tuple[BudgetLine, ...]
    met: DataFit
    num_draws: int


def content_of(run: Run, *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Content:
    """What the report of a run shows."""
    problem, posterior = run.case.problem, run.posterior
    mesh = problem.forward.space.mesh
    pixels = map_grid(mesh)
    arrows = arrow_grid(problem, MOST_ARROWS)
    found = drawn(posterior, pixels, arrows, num_draws=num_draws, seed=seed)
    measured = measured_as(run.case)
    met = fit_to_data(problem, found.sensors)
    shares = {name: contraction(found.before[name], own) for name, own in found.unknowns.items()}
    parameters = parameters_of(problem, found, shares)
    told = verdicts(
        posterior.check or sampler_check(posterior),
        posterior.surrogate_error,
        met=met,
        contraction={name: shares[name] for name in problem.latents.names},
        method=method_of(posterior),
    )
    warnings = tuple(dict.fromkeys((*run.case.notes, *posterior.notes, *run.notes)))
    return Content(
        name=run.folder.resolve().name,
        measured=measured,
        engine=posterior.engine,
        equation=" ".join(equation_lines(problem.forward)),
        manifest=read_results(run.folder / MANIFEST),
        configuration=run.case.content.decode(errors="replace"),
        pixels=pixels,
        outline=tuple(rings(mesh)),
        unknowns=problem.latents.names,
        maps=maps_of(measured, found),
        parameters=parameters,
        measurements=measurements_of(problem, measured, found.sensors),
        flow=arrows and Flow(arrows.points, arrows.cell[0], found.flux.mean(axis=0)),
        curves=curves_of(posterior.history),
        verdicts=tuple(told),
        level=overall(told, warnings),
        warnings=warnings,
        budget=budget_of(found),
        met=met,
        num_draws=len(found.state),
    )


def method_of(posterior: Posterior) -> str:
    """What it means where a posterior comes without a check."""
    if posterior.engine == Conditional.name:
        return PARTLY if len(linear_parts(posterior.problem).others) else EXACT
    return SAMPLED if isinstance(posterior.distribution, EmpiricalDraws) else APPROXIMATE


def maps_of(measured: Measured, found: Drawn) -> tuple[FieldMap, ...]:
    """The measured quantity first, the state itself where that is another, then the fields."""
    name = measured.name
    values = found.state if found.value is None else found.value
    maps = [field_map(VALUE, name, measured.unit, np.asarray(measured.of(values)))]
    if measured.transform is not None or found.value is not None:
        alone = "" if found.value is None else ", without what neighbours share"
        maps.append(field_map("u", measured.state + alone, None, found.state))
    maps += [field_map(one, one, None, draws) for one, draws in found.fields.items()]
    return tuple(maps)


def parameters_of(
    problem: InverseProblem, found: Drawn, shares: Mapping[str, float]
) -> tuple[Parameter, ...]:
    rows = []
    for name in problem.latents.names:  # compiled functions return them in another order
        before, after = found.before[name], found.unknowns[name]
        is_map = is_field(problem, name) and not regions_of(problem, name)
        count = after.shape[1]
        if is_map:
            columns = {f"{name} (mean over the domain)": (before.mean(axis=1), after.mean(axis=1))}
        else:
            columns = {
                label_of(problem, name, i, count): (before[:, i], after[:, i]) for i in range(count)
            }
        for label, (prior, posterior) in columns.items():
            one = shares[name]
            if count > 1 and not is_map:
                one = contraction(prior[:, None], posterior[:, None])
            rows.append(Parameter(label, interval(prior), interval(posterior), one))
    return tuple(rows)


def interval(values: Float[np.ndarray, " draw"]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, INTERVAL).tolist()
    return low, middle, high


def contraction(
    before: Float[np.ndarray, "prior_draw component"], after: Float[np.ndarray, "draw component"]
) -> float:
    """The share of the prior's variance that the data took away, of the component in the middle.

    Of quantities that are positive before the data, that of the logarithm: their prior has a tail
    in which any width could hide.
    """
    if (before > 0).all() and (after > 0).all():
        before, after = np.log(before), np.log(after)
    widths = [np.subtract(*np.quantile(draws, (0.84, 0.16), axis=0)) for draws in (after, before)]
    ratios = widths[0] / np.where(widths[1] > 0, widths[1], np.inf)
    return float(1 - np.median(ratios) ** 2)


def curves_of(history: Mapping[str, Array]) -> dict[str, Float[np.ndarray, "line step"]]:
    """Curves of a training, or of chains: one line a chain."""
    found = {}
    for name, values in history.items():
        curve = np.asarray(values)
        is_curve = curve.ndim in (1, 2) and curve.shape[-1] > 1 and curve.dtype.kind == "f"
        if is_curve and name not in NO_CURVES:
            found[name] = np.atleast_2d(curve)
    return dict(list(found.items())[:MOST_CURVES])


def budget_of(found: Drawn) -> tuple[BudgetLine, ...]:
    """Gains, then losses with a minus, then what they leave unbalanced."""
    amounts = {GAINS.get(name, name): values for name, values in found.gains.items()} | {
        f"outflow, {name}": -values for name, values in found.outflows.items()
    }
    if not amounts:
        return ()
    amounts["imbalance"] = np.sum(list(amounts.values()), axis=0)
    largest = max(float(np.abs(values).max()) for values in amounts.values())
    amounts = {
        name: np.where(np.abs(values) < ROUNDING * largest, 0.0, values)
        for name, values in amounts.items()
    }
    return tuple(line_of(name, values) for name, values in amounts.items())


def line_of(name: str, values: Float[np.ndarray, " draw"]) -> BudgetLine:
    low, high = np.quantile(values, (0.025, 0.975)).tolist()
    return BudgetLine(name, float(values.mean()), low, high)

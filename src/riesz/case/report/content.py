"""The numbers that a report shows, from a run and draws of its posterior."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.report.maps import FieldMap, encode_map, field_map, map_grid, rings, round_digits
from riesz.case.report.residuals import Dot, dots_of
from riesz.case.report.trust import BAD, Verdict, overall, verdicts
from riesz.case.run.folder import MANIFEST, Run, load_answers
from riesz.case.run.measurand import (
    GAINS,
    Measurand,
    Measurements,
    measurand_of,
    measurements_of,
)
from riesz.case.run.request import format_times
from riesz.io.store.results import read_results
from riesz.mesh.grids import Grid, arrow_grid
from riesz.mesh.location import locate
from riesz.notes import Note
from riesz.posterior.checks import FitFacts
from riesz.prediction.draws import PosteriorDraws
from riesz.prediction.new_points import new_points
from riesz.prediction.sensors import DataFit, fit_to_data
from riesz.problem.unknowns import MEASUREMENT, STATE, VALUE

MOST_ARROWS = 24
"""Of flow along the longer side: more would touch each other on a phone."""

ROUNDING = 1e-10
"""Of a budget's largest line: what is smaller is zero."""


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
    """All that the page shows, with the run and the draws that it is made from."""

    run: Run
    draws: PosteriorDraws
    facts: FitFacts
    measured: Measurand
    manifest: dict[str, Any]
    pixels: Grid
    outline: tuple[Float[np.ndarray, "corner 2"], ...]
    maps: tuple[FieldMap, ...]
    measurements: Measurements
    flow: Flow | None
    verdicts: tuple[Verdict, ...]
    level: str
    warnings: tuple[Note, ...]
    remarks: tuple[str, ...]  # what was decided from the data, and whether kriging does as well
    budget: tuple[BudgetLine, ...]
    met: DataFit
    course: dict[str, Any] | None = None  # in time, as the page reads it
    dots: tuple[Dot, ...] = ()  # of the map of residuals
    answers: tuple[dict[str, Any], ...] = ()  # where to measure next, where that was asked

    @property
    def name(self) -> str:
        return self.run.folder.resolve().name


def content_of(run: Run, *, num_draws: int | None = None, seed: int = 0) -> Content:
    """What the report of a run shows."""
    draws, facts = run.draws(num_draws, seed), run.facts
    measured = measurand_of(run.observations).with_link(draws.shifts.scatter)
    met, every = verdicts_of(run, draws, facts)
    pixels, warnings = map_grid(draws.mesh), warnings_in(run)
    return Content(
        run=run,
        draws=draws,
        facts=facts,
        measured=measured,
        manifest=read_results(run.folder / MANIFEST),
        pixels=pixels,
        outline=tuple(rings(draws.mesh)),
        maps=maps_of(measured, draws, pixels, seed),
        measurements=measurements_of(measured, draws.observed, run.prepared.num_rows),
        flow=None if draws.flux is None else flow_of(draws),
        verdicts=tuple(every),
        level=overall(every, warnings),
        warnings=warnings,
        remarks=tuple(run.numbers.get("remarks", ())),
        budget=budget_of(draws),
        met=met,
        course=course_of(run, measured, pixels, seed),
        dots=dots_of(run.misfit, draws.observed.points),
        answers=tuple(load_answers(run.folder)),
    )


def verdicts_of(run: Run, draws: PosteriorDraws, facts: FitFacts) -> tuple[DataFit, list[Verdict]]:
    """How the data are met, and what that and all checks say of a run."""
    observed = draws.observed
    met = fit_to_data(observed.values, observed.censored, observed.drawn)
    every = verdicts(
        facts.check,
        facts.surrogate_error,
        met=met,
        contraction={one.unknown: one.unknown_share for one in draws.learned},
        method=facts.method,
        misfit=run.misfit,
    )
    return met, every


def warnings_in(run: Run) -> tuple[Note, ...]:
    return tuple(dict.fromkeys(run.notes))


def trust_level(run: Run) -> str:
    """How far a run is to be trusted, as its report says in one word."""
    if run.numbers.get("failed"):
        return BAD
    return overall(verdicts_of(run, run.draws(), run.facts)[1], warnings_in(run))


def course_of(run: Run, measured: Measurand, pixels: Grid, seed: int) -> dict[str, Any] | None:
    """Maps of some dates, and hydrographs at the observed places: of new measurements, where their
    noise is known elsewhere."""
    data = run.prepared
    if run.stored is None or run.stored.course is None or data.times is None:
        return None
    draws, course = run.stored.draws, run.stored.course
    axis, lines, last = course.axis, [], course.map_draws(draws, -1)
    errors = last.shifts.sites
    for place, states in zip(course.places, np.moveaxis(course.states(), 2, 0), strict=True):
        points = np.tile(place, (len(axis.times), 1))
        site = None if errors is None else errors.numbers_at(points)
        at = {"given": states, "site": site, "when": axis.times}
        there = new_points(last, points, None, seed=seed, **at)
        of = there.location if draws.shifts.scatter is None else there.new_measurements
        values = np.asarray(measured.of(of(slice(None))))
        ends = np.quantile(values, (0.025, 0.975), axis=0)
        lines.append([round_digits(one, 6) for one in (values.mean(axis=0), *ends)])
    sites = dict(zip(map(tuple, data.points.tolist()), data.sites or (), strict=False))
    then = (course.map_draws(draws, k) for k in range(len(course.shown)))
    read = np.interp(axis.numbers(data.times.values()), axis.times, np.arange(len(axis.times)))
    return {
        "dates": format_times(axis.dates(axis.times)),
        "shown": course.shown.tolist(),
        "maps": [[encode_map(one) for one in maps_of(measured, k, pixels, seed)] for k in then],
        "read": round_digits(read, 6),  # in steps since the first
        "places": round_digits(course.places),
        "sites": [sites.get((x, y), f"{x:.7g}, {y:.7g}") for x, y in course.places.tolist()],
        "lines": lines,  # mean and 95 % interval
    }


def flow_of(draws: PosteriorDraws) -> Flow:
    spread = arrow_grid(draws.mesh, MOST_ARROWS)
    flux = draws.flux_at(locate(draws.mesh, spread.points))
    return Flow(spread.points, spread.cell[0], flux)


def maps_of(
    measured: Measurand, draws: PosteriorDraws, pixels: Grid, seed: int
) -> tuple[FieldMap, ...]:
    """What a new measurement would read first, then the quantity without its noise, the state
    itself where that is another, and the fields."""
    points = pixels.points
    where, shifts = locate(draws.mesh, points), draws.shifts
    there = new_points(draws, points, where, seed=seed)
    predictor = there.predictor(slice(None))
    name, unit = measured.name, measured.unit
    maps = []
    if shifts.scatter is not None:
        new = np.asarray(measured.of(shifts.new_measurements(predictor, there.noise)))
        maps.append(field_map(MEASUREMENT, f"a new measurement of {name}", unit, new))
    maps.append(field_map(VALUE, name, unit, np.asarray(measured.of(shifts.location(predictor)))))
    if measured.transform is not None or shifts.local is not None:
        alone = "" if shifts.local is None else ", without what neighbours share"
        states = there.states(slice(None))
        maps.append(field_map(STATE, measured.state + alone, None, states))
    maps += [
        field_map(one, one, None, draws.unknown_at(one, points, where)) for one in draws.mapped
    ]
    if draws.mesh_error is not None:
        error = draws.mesh_error[where.cell]
        title = f"largest error of the mesh in {measured.state}, before any correction"
        maps.append(field_map("mesh error", title, None, np.tile(error, (2, 1))))
    return tuple(maps)


def budget_of(draws: PosteriorDraws) -> tuple[BudgetLine, ...]:
    """Gains, then losses with a minus, then what they leave unbalanced."""
    amounts = {GAINS.get(name, name): values for name, values in draws.gains.items()} | {
        f"outflow, {name}": -values for name, values in draws.outflows.items()
    }
    if not amounts:
        return ()
    lines = np.stack([*amounts.values(), np.sum(list(amounts.values()), axis=0)])
    lines = np.where(np.abs(lines) < ROUNDING * np.abs(lines).max(), 0.0, lines)
    numbers = lines.mean(axis=1), *np.quantile(lines, (0.025, 0.975), axis=1)
    return tuple(map(BudgetLine, [*amounts, "imbalance"], *(part.tolist() for part in numbers)))

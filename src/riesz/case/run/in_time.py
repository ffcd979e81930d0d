"""Predictions of problems in time: at which dates, at which places, and the states of draws there.

What a run keeps serves for hydrographs at the observed places, and for maps of the dates that it
has; anything else is marched to anew.
"""

import dataclasses
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from riesz.case.file.time_axis import TimeTable, as_moment, check_times
from riesz.case.run.folder import PROBLEM, PROBLEM_OF_RUN, Run
from riesz.case.run.request import PredictionRequest, Scene, Then, Times, Where, format_times
from riesz.case.table import parse_table
from riesz.errors import RieszError
from riesz.fem.time.axis import TimeAxis
from riesz.io.tables.numbers import number_in
from riesz.mesh.grids import Grid
from riesz.prediction.draws import Course, PosteriorDraws
from riesz.prediction.statistics import NUM_DRAWS

ALL = "all"

MOST_NUMBERS, FEWEST_DRAWS = 50_000_000, 20
"""Of states that are held at once, and of draws below which statistics mean little."""


def axis_of(run: Run) -> TimeAxis:
    """As the problem file has it: to open the problem takes longer than to find a wrong date."""
    if run.fitted is not None:
        time = run.case.problem.time
        assert time is not None
        return time.axis
    return parse_table(TimeTable, run.time, run.folder / PROBLEM).axis()


def parse_times(at: Any, axis: TimeAxis) -> Times:
    """All times of the axis, one, or several: by commas in a text, in their order; each once."""
    if isinstance(at, str) and at.strip() == ALL:
        return axis.dates(axis.times)
    words = at.split(",") if isinstance(at, str) else np.atleast_1d(at).tolist()
    given = np.array([moment_in(word, at) for word in words])
    numbers = np.unique(axis.numbers(given, "the dates asked for"))
    axis.locate_times(numbers, "dates asked for")
    return axis.dates(numbers)


def moment_in(word: Any, at: Any) -> Any:
    number = number_in(word) if isinstance(word, str) else np.nan
    try:
        result = as_moment(number if np.isfinite(number) else word)
    except ValueError:
        raise RieszError(
            f"the dates asked for are {at!r}: give a date such as 1980-01-31 or, where the time "
            "axis has none, a number; several by commas; or all."
        ) from None
    return result if isinstance(result, float) else np.datetime64(result, "s")


def times_available(request: PredictionRequest, run: Run, axis: TimeAxis) -> Times | None:
    """Where a table of places has a column of dates, and no others are asked for."""
    rows, date = request.rows, run.observations.date
    if request.at is not None or rows is None or date not in rows.table.header:
        return None
    table = rows.within
    return check_times(table.times(str(date)), axis, table.path, table.at)


def scene_in_time(request: PredictionRequest, run: Run, at: Where, sites: Sequence[str]) -> Scene:
    """Draws of the state at the dates that are asked for, at the places `at`."""
    axis = axis_of(run)
    own = times_available(request, run, axis)
    times = parse_times(ALL if request.at is None else request.at, axis) if own is None else own
    numbers, is_paired = axis.numbers(times), own is not None
    scene = Scene(at, (), sites, times, paired=is_paired)
    course = run.stored.course if run.stored else None
    if course is not None and request.num_draws is None and request.seed == 0:
        thens = load_thens(run, course, at, numbers, is_paired=is_paired)
        if thens:
            return dataclasses.replace(scene, thens=thens)
    draws, states = solve_in_time_at(request, run, at, times, paired=is_paired)
    if is_paired:
        return dataclasses.replace(scene, thens=(Then(draws, states, times=numbers),))
    by_time = np.moveaxis(states.reshape(len(states), len(times), -1), 1, 0)
    thens = tuple(
        Then(draws, values, when, number)
        if is_points(at)
        else Then(draws.with_states(values), None, when, number)
        for values, when, number in zip(by_time, format_times(times), numbers[:, None], strict=True)
    )
    return dataclasses.replace(scene, thens=thens)


def is_points(at: Where) -> bool:
    return not (at is None or isinstance(at, Grid))


def load_thens(
    run: Run, course: Course, at: Where, numbers: Float[np.ndarray, " time"], *, is_paired: bool
) -> tuple[Then, ...]:
    """From what the run keeps, where that is enough; else none."""
    assert run.stored is not None
    draws, axis, when = run.stored.draws, course.axis, format_times(course.axis.dates(numbers))
    if is_points(at):
        far, place = KDTree(course.places).query(np.asarray(at))
        if (far > 0).any():
            return ()
        states, (step, share) = course.states(), axis.locate_times(numbers, "dates asked for")
        last = course.map_draws(draws, -1)
        if is_paired:
            before, after = (states[:, step + end, place] for end in (0, 1))
            values = (1 - share) * before + share * after
            return (Then(last, values, times=numbers),)
        thens = []
        for k, part, word, number in zip(
            step.tolist(), share.tolist(), when, numbers[:, None], strict=True
        ):
            values = (1 - part) * states[:, k] + part * states[:, k + 1]
            thens.append(Then(last, values[:, place], word, times=number))
        return tuple(thens)
    known = axis.times[course.shown]
    if not np.isin(numbers, known).all():
        return ()
    rows: Int[np.ndarray, " time"] = np.searchsorted(known, numbers)
    return tuple(
        Then(course.map_draws(draws, row), None, word)
        for row, word in zip(rows.tolist(), when, strict=True)
    )


def solve_in_time_at(
    request: PredictionRequest, run: Run, at: Where, times: Times, *, paired: bool
) -> tuple[PosteriorDraws, Float[np.ndarray, "draw row"]]:
    """By a march for each draw, as many as can be held."""
    opened = import_module(PROBLEM_OF_RUN)
    points = None if at is None or isinstance(at, Grid) else at
    read = opened.reading(run.case.problem, times, points, paired=paired)
    fitting, asked = MOST_NUMBERS // read.rows.num_rows, request.num_draws
    if fitting < (asked or FEWEST_DRAWS):
        raise RieszError(
            f"{read.rows.num_rows} states, of {len(times)} dates, would be held for each of "
            f"{asked or FEWEST_DRAWS} draws: ask for fewer dates or places"
            f"{'' if asked is None else f', or at most {fitting} draws'}."
        )
    number = min(fitting, NUM_DRAWS) if asked is None else asked
    drawn = {"num_draws": number, "seed": request.seed}
    draws, result = opened.draws_and_readings(run.posterior, {ALL: read}, **drawn)
    return draws, result[ALL]

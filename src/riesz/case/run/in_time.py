"""Predictions of problems in time: at which dates, at which places, and the states of draws there.

What a run keeps serves for hydrographs at the observed places, and for maps of the dates that it
has; anything else is marched to anew.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from riesz.case.file.time_axis import TimeTable, as_moment, check_times
from riesz.case.run.folder import PROBLEM, PROBLEM_OF_RUN, Run
from riesz.case.run.request import PredictionRequest, Scene, Then, Times, Where, format_times
from riesz.case.table import parse_table
from riesz.errors import RieszError
from riesz.fem.time.axis import TimeAxis
from riesz.io.tables.numbers import number_in
from riesz.mesh.grids import Grid
from riesz.prediction.draws import PosteriorDraws
from riesz.prediction.statistics import NUM_DRAWS

ALL = "all"

MOST_NUMBERS, FEWEST_DRAWS = 50_000_000, 20
"""Of states that are held at once, and of draws below which statistics mean little."""


def axis_of(run: Run) -> TimeAxis:
    """As the problem file has it: to open the problem takes longer than to find a wrong date."""
    if run.fitted is not None:
        return run.case.problem.in_time.axis
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


def scene_in_time(request: PredictionRequest, at: Where, sites: Sequence[str]) -> Scene:
    """Draws of the state at the dates that are asked for, at the places `at`."""
    axis, rows = axis_of(request.run), request.rows
    column = request.column_of_dates
    if column is None or rows is None:
        times, paired = parse_times(ALL if request.at is None else request.at, axis), False
    else:
        table, paired = rows.within, True
        times = check_times(table.times(column), axis, table.path, table.at)
    numbers = axis.numbers(times)
    draws, states = load_states(request, at, numbers, paired=paired) or solve_in_time_at(
        request, at, times, paired=paired
    )
    if paired:
        return Scene(request, at, (Then(draws, states, times=numbers),), sites, times, paired=True)
    by_time = np.moveaxis(states.reshape(len(states), len(times), -1), 1, 0)
    thens = tuple(
        Then(draws, values, when, number)
        if is_points(at)
        else Then(draws.with_states(values), None, when, number)
        for values, when, number in zip(by_time, format_times(times), numbers[:, None], strict=True)
    )
    return Scene(request, at, thens, sites, times)


def is_points(at: Where) -> bool:
    return not (at is None or isinstance(at, Grid))


DrawsAndStates = tuple[PosteriorDraws, Float[np.ndarray, " draw *row"]]
"""A row is a place at its time, or a place at each of the times, time by time."""


def load_states(
    request: PredictionRequest, at: Where, numbers: Float[np.ndarray, " time"], *, paired: bool
) -> DrawsAndStates | None:
    """From what the run keeps, where that is enough."""
    stored = request.run.stored
    if stored is None or stored.course is None or (request.num_draws, request.seed) != (None, 0):
        return None
    course, draws = stored.course, stored.course.map_draws(stored.draws, -1)
    if not is_points(at):
        known = course.axis.times[course.shown]
        if not np.isin(numbers, known).all():
            return None
        return draws, course.map_states()[:, np.searchsorted(known, numbers)]
    far, place = KDTree(course.places).query(np.asarray(at))
    if (far > 0).any():
        return None
    step, share = course.axis.locate_times(numbers, "dates asked for")
    if not paired:
        step, share = step[:, None], share[:, None]
    states = course.states()
    return draws, (1 - share) * states[:, step, place] + share * states[:, step + 1, place]


def solve_in_time_at(
    request: PredictionRequest, at: Where, times: Times, *, paired: bool
) -> DrawsAndStates:
    """By a march for each draw, as many as can be held."""
    opened, run = import_module(PROBLEM_OF_RUN), request.run
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

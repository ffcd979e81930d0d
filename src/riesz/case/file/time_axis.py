"""The table [time] of a problem file: when the equation holds, step by step, and how it begins."""

import datetime
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float, Shaped
from pydantic import Field, PlainValidator, PositiveFloat, PositiveInt

from riesz.case.table import FileTable, NumberOrName, brief, is_finite
from riesz.errors import FileFormatError
from riesz.fem.time.axis import TimeAxis, period_times, time_axis
from riesz.fem.time.problem import SteadyState
from riesz.fem.time.scheme import SDIRK2
from riesz.io.tables.dates import Times, format_dates
from riesz.notes import Note
from riesz.problem.observation_in_time import ObservationInTime

STEADY = "steady"
"""The initial state is the one that the stresses of the first time would lead to."""

CALENDAR = {
    "day": ("D", 1, 1.0),
    "week": ("D", 7, 7.0),
    "month": ("M", 1, 30.4),
    "year": ("M", 12, 365.0),
}
"""Steps by name: the unit of NumPy that they are counted in, how many of it, and about the days."""

MOST_STEPS = 100_000
"""More are a slip of a unit."""

SECONDS, ROUNDING = 86_400.0, 1e-9

Moment = datetime.datetime | float
Numbers = Float[np.ndarray, " time"]
Moments = Shaped[np.ndarray, " time"]
"""Of the type datetime64[s]."""


def as_moment(value: Any) -> Moment:
    """A date or a date with a time, in quotes or not; or a number."""
    if is_finite(value):
        return float(value)
    result = value
    if isinstance(value, str):
        try:
            result = datetime.datetime.fromisoformat(value)
        except ValueError:
            result = None
    if isinstance(result, datetime.date) and not isinstance(result, datetime.datetime):
        result = datetime.datetime(result.year, result.month, result.day)
    if not isinstance(result, datetime.datetime):
        raise ValueError(f"is {brief(value)}: give a date such as 1980-01-31, or a number")
    if result.tzinfo is not None:
        raise ValueError(f"is {brief(value)}, in a time zone: leave it out, here and everywhere")
    return result


def as_step(value: Any) -> float | str:
    if is_finite(value) and value > 0:
        return float(value)
    if isinstance(value, str) and value in CALENDAR:
        return value
    raise ValueError(
        f"is {brief(value)}: give a positive number, of days where start is a date, or one of "
        f"{', '.join(map(repr, CALENDAR))}"
    )


When = Annotated[Any, PlainValidator(as_moment)]
Step = Annotated[Any, PlainValidator(as_step)]


class TimeTable(FileTable):
    """From a start to an end by equal steps; or stress periods, each in some steps that grow."""

    start: When = Field(description="when the initial state holds: a date, or a number")
    end: When = None
    step: Step = None
    periods: list[When] | None = None  # where each ends
    steps: PositiveInt = 1  # in each
    growth: PositiveFloat = 1.0  # of a step over the one before
    initial: NumberOrName = STEADY
    scheme: Literal["sdirk2", "euler"] = SDIRK2

    def faults(self) -> Iterator[str]:
        given = self.model_fields_set
        if self.periods is None and not {"end", "step"} <= given:
            yield "needs end and step; or periods, the dates at which stresses change"
        for key in ("steps", "growth") if self.periods is None else ("end", "step"):
            if key in given:
                other = "with" if self.periods is None else "without"
                yield f"has the key {key!r}, which goes {other} periods: leave it out"
        if self.periods is not None and not self.periods:
            yield "has no periods: give where each of them ends"
        if len({isinstance(one, float) for one in self.bounds()}) > 1:
            yield "has dates and numbers: give all its times in one way"
        for one, next_one in pairwise(self.bounds()):
            if not next_one > one:
                yield f"goes from {one} to {next_one}: times must rise"
        if isinstance(self.start, float) and isinstance(self.step, str):
            yield f"has step = {self.step!r}, which needs dates: give a number"
        if self.num_steps() > MOST_STEPS:
            about = f"{self.num_steps():.2g}"
            yield f"has about {about} steps, more than {MOST_STEPS}: make them longer"

    def bounds(self) -> list[Any]:
        """The start, and where periods end; without any the end."""
        return [self.start, *([self.end] if self.periods is None else self.periods)]

    def durations(self) -> list[float]:
        """Days since the start, or numbers, by then."""
        return [days_between(self.start, one) for one in self.bounds()]

    def num_steps(self) -> float:
        step: Any = self.step
        if self.periods is not None:
            return float(len(self.periods) * self.steps)
        return self.durations()[-1] / (CALENDAR[step][2] if isinstance(step, str) else step)

    def initial_state(self) -> Any:
        return SteadyState() if self.initial == STEADY else self.initial

    def axis(self) -> TimeAxis:
        return time_axis(self.times())

    def times(self) -> Moments | Numbers:
        """Where steps end, the start first."""
        if isinstance(self.step, str):
            start, end = (np.datetime64(one, "s") for one in (self.start, self.end))
            return calendar_times(start, end, self.step)
        if self.periods is None:
            # The last step is shorter where the end is no whole number of steps away.
            (_, span), step = self.durations(), self.step
            passed = np.append(np.arange(np.ceil(span / step - ROUNDING)) * step, span)
        else:
            passed = period_times(self.durations(), self.steps, growth=self.growth)
        if isinstance(self.start, float):
            return self.start + passed
        return np.datetime64(self.start, "s") + np.round(passed * SECONDS).astype("timedelta64[s]")


def days_between(first: Any, last: Any) -> float:
    """Or the difference of numbers."""
    passed = last - first
    return passed.total_seconds() / SECONDS if isinstance(passed, datetime.timedelta) else passed


def calendar_times(start: np.datetime64, end: np.datetime64, step: str) -> Moments:
    """Days, weeks, months or years from a start on; a month that is too short ends on its last day.

    The last step ends with the end, and may be shorter.
    """
    unit, count, _ = CALENDAR[step]
    first = start.astype(f"datetime64[{unit}]")
    number = (end.astype(first.dtype) - first).astype(int) // count + 1
    whole = first + (count * np.arange(number + 1)).astype(f"timedelta64[{unit}]")
    beyond = (whole + np.timedelta64(1, unit)).astype("datetime64[D]") - np.timedelta64(1, "D")
    days = start.astype("datetime64[D]")
    same = whole.astype("datetime64[D]") + (days - first.astype("datetime64[D]"))
    result = (np.minimum(same, beyond) if unit != "D" else same).astype("datetime64[s]")
    result = result + (start - days)
    return np.append(result[result < end], end)


def time_notes(time: ObservationInTime | None) -> list[Note]:
    """What a reader of maps must know."""
    if time is None:
        return []
    last = format_dates(time.axis.dates(time.axis.times[-1:])) if time.axis.origin else None
    when = last[0] if last else f"{time.axis.times[-1]:g}"
    return [Note("maps_at_end", when=when)]


def check_times(times: Times, axis: TimeAxis, path: Path, at: Callable[[int], str]) -> Any:
    """When each row of a table was, found to be on the axis; raises with its line where it is not.

    `at` tells where a row is.
    """
    given = times.values()
    numbers = axis.numbers(given, f"{path}: times")
    outside = ~((numbers >= axis.times[0]) & (numbers <= axis.times[-1]))
    if outside.any():
        first, last = axis.dates(axis.times[[0, -1]])
        row = int(np.argmax(outside))
        raise FileFormatError(
            f"{at(row)}: the time {given[row]} is not between {first} and {last}, where [time] "
            f"starts and ends ({int(outside.sum())} of {len(numbers)} rows are like that): make it "
            "longer, or leave rows out, of observations by their keys from and to."
        )
    return given

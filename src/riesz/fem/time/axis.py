"""The time axis of a problem: where steps end, as numbers or as dates.

Dates are counted in days since the first one, so that conductivities and rates are by day. Times of
measurements and of tables are put on the same axis.
"""

import datetime
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import FormError

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "s")
"""Seconds."""

DIGITS = 9
"""To which lengths of steps are compared, each by its own size: steps may grow a millionfold."""

Times = Float[np.ndarray, " time"]


class TimeAxis(eqx.Module):
    """Where steps in time end; the first entry is when the initial state holds."""

    times: Times
    kinds: tuple[int, ...] = eqx.field(static=True)  # of steps: those of one length have one
    origin: str | None = eqx.field(static=True, default=None)  # the first date, where there is one

    @property
    def num_steps(self) -> int:
        return len(self.times) - 1

    @property
    def num_kinds(self) -> int:
        return len(set(self.kinds))

    @property
    def steps(self) -> Float[np.ndarray, " step"]:
        return np.diff(self.times)

    def numbers(self, times: Any, what: str = "times") -> Times:
        """Times of something else on this axis: dates, if it has dates, or numbers."""
        result = np.asarray(times)
        if self.origin is None:
            if not is_number(result):
                raise FormError(
                    f"{what} are {describe(result)}, but the time axis has numbers: give numbers, "
                    "or make the axis from dates."
                )
            return result.astype(float)
        if is_number(result):
            raise FormError(
                f"{what} are numbers, but the time axis has dates: give dates as well, or make the "
                "axis from numbers."
            )
        return days_since(as_dates(result, what), np.datetime64(self.origin))

    def locate_times(
        self, times: Times, what: str
    ) -> tuple[Int[np.ndarray, " time"], Float[np.ndarray, " time"]]:
        """The steps in which times lie, and how far along them; those outside are refused."""
        outside = np.flatnonzero(~((times >= self.times[0]) & (times <= self.times[-1])))
        if outside.size:
            first, last = self.dates(self.times[[0, -1]])
            raise FormError(
                f"{outside.size} of {len(times)} {what} lie outside the time axis, {first} to "
                f"{last}, first number {outside[0] + 1}, {self.dates(times[outside[:1]])[0]}: make "
                "the axis longer, or leave them out."
            )
        step = np.clip(np.searchsorted(self.times, times) - 1, 0, self.num_steps - 1)
        return step, (times - self.times[step]) / self.steps[step]

    def dates(self, times: Times) -> np.ndarray:
        """The dates of times, or the times themselves where there are none."""
        if self.origin is None:
            return times
        seconds = np.round(np.asarray(times) * DAY).astype("timedelta64[s]")
        return np.datetime64(self.origin) + seconds

    def __repr__(self) -> str:
        first, last = self.dates(self.times[[0, -1]])
        return f"TimeAxis({self.num_steps} steps from {first} to {last})"


def time_axis(times: Any) -> TimeAxis:
    """From the ends of all steps, the beginning first: rising numbers, or dates.

    For instance `np.linspace(0, 1, 101)`, `geometric_ticks(...)`, `period_times(...)`, or ISO
    dates.
    """
    if isinstance(times, TimeAxis):
        return times
    result = np.asarray(times)
    if result.ndim != 1 or len(result) < 2:
        raise FormError(
            f"the time axis has shape {result.shape}: give at least two times, where the first is "
            "when the initial state holds."
        )
    if is_number(result):
        numbers, origin = result.astype(float), None
        check_finite_times(numbers)
    else:
        dates = as_dates(result, "the times of the axis")
        numbers, origin = days_since(dates, dates[0]), str(dates[0])
    check_rising(numbers, result)
    return TimeAxis(numbers, kinds_of(numbers), origin)


def kinds_of(times: Times) -> tuple[int, ...]:
    """Which steps have the same length.

    Their matrices are the same, where nothing in the equation but its storage knows of time.
    """
    steps = np.diff(times)
    size = 10.0 ** np.floor(np.log10(steps))
    _, kind = np.unique(np.round(steps / size, DIGITS) * size, return_inverse=True)
    return tuple(kind.tolist())


def period_times(ends: Any, steps: Any, *, growth: float = 1.0) -> Times:
    """Times of stress periods: each has some steps, the first of which may be shorter.

    `ends` are where periods end, the beginning of the first one first; `steps` a number for all or
    one for each; each step is `growth` times as long as the one before, from the start of a period.
    """
    bounds = np.asarray(ends, float)
    counts: Int[np.ndarray, " period"] = np.broadcast_to(steps, (len(bounds) - 1,))
    if (counts < 1).any() or not growth > 0:
        raise FormError("a stress period needs at least one step, and a positive growth.")
    result = [bounds[:1]]
    for start, end, count in zip(bounds[:-1], bounds[1:], counts.tolist(), strict=True):
        lengths = growth ** np.arange(count)
        result.append(start + (end - start) * np.cumsum(lengths) / lengths.sum())
    return np.concatenate(result)


def is_number(values: np.ndarray) -> bool:
    return values.dtype.kind in "iuf"


def describe(values: np.ndarray) -> str:
    return "dates" if values.dtype.kind == "M" else f"such as {values.ravel()[0]!r}"


def as_dates(values: np.ndarray, what: str) -> np.ndarray:
    """To the second; text must be ISO, without a time zone."""
    if values.dtype.kind == "O" and any(
        isinstance(one, datetime.datetime) and one.tzinfo is not None for one in values.ravel()
    ):
        raise FormError(f"{what} have a time zone: convert them to one, and leave it out.")
    try:
        dates = values.astype("datetime64[s]")
    except (ValueError, TypeError) as error:
        raise FormError(
            f"{what} are no dates ({error}): give them as 2001-12-31 or 2001-12-31T08:00, all "
            "without a time zone."
        ) from None
    missing = np.flatnonzero(np.isnat(dates))
    if missing.size:
        raise FormError(f"{what} have no date in row {missing[0] + 1}: fill or remove it.")
    return dates


def days_since(dates: np.ndarray, origin: np.datetime64) -> Times:
    return (dates - origin) / np.timedelta64(1, "s") / DAY


def check_finite_times(numbers: Times) -> None:
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise FormError(f"entry {bad[0] + 1} of the time axis is {numbers[bad[0]]}: remove it.")


def check_rising(numbers: Times, given: np.ndarray) -> None:
    falling: Bool[np.ndarray, " step"] = np.diff(numbers) <= 0
    if falling.any():
        row = int(np.argmax(falling)) + 1
        raise FormError(
            f"the time axis does not rise: {given[row]} in entry {row + 1} comes after "
            f"{given[row - 1]}. Sort it, and leave out what occurs twice."
        )

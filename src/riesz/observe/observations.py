"""Measured values, and of what."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Shaped

from riesz.errors import RieszError
from riesz.fem.time.axis import as_dates, is_number
from riesz.notes import Note, NoteWarning
from riesz.observe.given import as_numbers, as_point_rows
from riesz.observe.observables import AbstractObservable, AtPoints, Several

Given = Shaped[np.ndarray, " sensor"]
"""Numbers, or dates of the type datetime64[s]."""


class Observations(eqx.Module):
    """One value a sensor, in the caller's units.

    `points` is where each was measured, the middle of an area or a line; NaN where that is only
    known on the mesh of a problem. Compiled functions take values as arguments, so that one
    compilation serves many data sets. `times` say when; a value that has a time `since` as well is
    what has changed since then. Dates are kept as seconds since 1970, which programs can take;
    `when` and `since_when` are what was given.
    """

    points: Float[np.ndarray, "sensor dim"]
    values: Float[np.ndarray, " sensor"]
    what: AbstractObservable
    times: Float[np.ndarray, " sensor"] | None = None
    since: Float[np.ndarray, " sensor"] | None = None
    are_dates: bool = eqx.field(static=True, default=False)  # the times

    @property
    def num_sensors(self) -> int:
        return len(self.values)

    @property
    def when(self) -> Given | None:
        return self.as_given(self.times)

    @property
    def since_when(self) -> Given | None:
        return self.as_given(self.since)

    def as_given(self, times: Float[np.ndarray, " sensor"] | None) -> Given | None:
        return times.astype("datetime64[s]") if self.are_dates and times is not None else times


def observations(points: Any, values: Any, *, times: Any = None, since: Any = None) -> Observations:
    """Checked measurements; several at one place are allowed, and told.

    `points` has one row of coordinates a value, where the state was measured; on an interval,
    numbers will do. Or it is what else was measured, such as `AverageOver(areas)`. For problems in
    time, `times` has a number or a date for each value, or one for all; `since`, likewise, where
    values are differences from an earlier time.
    """
    values = as_numbers(values, "values")
    if values.ndim != 1:
        raise RieszError(f"the observed values have shape {values.shape}: give one value a point.")
    if not len(values):
        raise RieszError("there are no observations: give at least one.")
    what = points if isinstance(points, AbstractObservable) else AtPoints(as_places(points, values))
    if what.num_sensors != len(values):
        raise RieszError(
            f"there are {len(values)} values for {what.num_sensors} {what.describe()}: give one "
            "for each."
        )
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise RieszError(
            f"{len(bad)} of the observed values are NaN or infinite, first in observation "
            f"{bad[0][0]}: remove or fill them."
        )
    if isinstance(what, AtPoints) and times is None:
        tell_duplicates(what.points, values)
    if since is not None and times is None:
        raise RieszError("values have times `since`, but none themselves: give times= as well.")
    given = [as_times(one, len(values)) for one in (times, since)]
    dated = {one.dtype.kind == "M" for one in given if one is not None}
    if len(dated) > 1:
        raise RieszError("values have dates, and numbers since when: give both in one way.")
    numbers = [None if one is None else one.astype(float) for one in given]
    return Observations(where(what), values, what, *numbers, are_dates=dated == {True})


def as_times(times: Any, count: int) -> Given | None:
    """A number or a date for each value; what they mean is for a time axis to say."""
    if times is None:
        return None
    result = np.asarray(times)
    result = result if is_number(result) else as_dates(result, "times of observations")
    if result.shape not in ((), (count,)):
        raise RieszError(
            f"the times have shape {result.shape}, but there are {count} values: give one for each."
        )
    return np.broadcast_to(result, (count,))


def as_places(points: Any, values: Float[np.ndarray, " sensor"]) -> Float[np.ndarray, "sensor dim"]:
    points = as_numbers(points, "coordinates")
    points = points[:, None] if points.ndim == 1 and len(points) == len(values) else points
    points = np.atleast_2d(points)
    if points.ndim != 2 or len(points) != len(values):
        raise RieszError(
            f"the points have shape {points.shape}, but there are {len(values)} values: give one "
            "row of coordinates for each value."
        )
    return as_point_rows(points)


def where(what: AbstractObservable) -> Float[np.ndarray, "sensor dim"]:
    """Points as far as they are known without a mesh."""
    if isinstance(what, AtPoints):
        return what.points
    return np.full((what.num_sensors, 1), np.nan)


def join_observations(each: Sequence[Observations]) -> Observations:
    """Several kinds of data as one, one after the other."""
    if len(each) == 1:
        return each[0]
    what = Several(tuple(one.what for one in each))
    values = np.concatenate([one.values for one in each])
    return Observations(where(what), values, what, joint_times(each), are_dates=each[0].are_dates)


def joint_times(each: Sequence[Observations]) -> Float[np.ndarray, " sensor"] | None:
    """Of several kinds of data, where all of them have times."""
    result = [one.times for one in each if one.times is not None]
    if not result:
        return None
    if len(result) < len(each) or any(one.since is not None for one in each):
        raise RieszError(
            "several kinds of data in time: give all of them times=, and differences by themselves."
        )
    if len({one.are_dates for one in each}) > 1:
        raise RieszError("some data have dates, and some numbers: give all times in one way.")
    return np.concatenate(result)


def with_centres(observed: Observations, centres: Float[np.ndarray, "sensor dim"]) -> Observations:
    """The same, with the places of all sensors."""
    return dataclasses.replace(observed, points=centres)


def tell_duplicates(points: Float[np.ndarray, "sensor dim"], values: Float[np.ndarray, " sensor"]):
    """Warn where one place was measured more than once with different results."""
    places, place = np.unique(points, axis=0, return_inverse=True)
    place = place.ravel()
    low, high = np.full(place.max() + 1, np.inf), np.full(place.max() + 1, -np.inf)
    np.minimum.at(low, place, values)
    np.maximum.at(high, place, values)
    (differing,) = np.nonzero(high > low)
    if differing.size:
        first = differing[0]
        ends = {"first": places[first], "low": low[first], "high": high[first]}
        note = Note("observed_twice", count=differing.size, total=len(values), **ends)
        warnings.warn(NoteWarning(note), stacklevel=3)

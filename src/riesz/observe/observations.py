"""Measured values at points."""

import warnings
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError


class Observations(eqx.Module):
    """One value a point, in the caller's units.

    Compiled functions take them as arguments, so that one compilation serves many data sets.
    """

    points: Float[np.ndarray, "sensor dim"]
    values: Float[np.ndarray, " sensor"]

    @property
    def num_sensors(self) -> int:
        return len(self.values)


def observations(points: Any, values: Any) -> Observations:
    """Checked measurements; several at one place are allowed, and told.

    `points` has one row of coordinates a value; on an interval, numbers will do.
    """
    points, values = as_numbers(points, "coordinates"), as_numbers(values, "values")
    if values.ndim != 1:
        raise RieszError(f"the observed values have shape {values.shape}: give one value a point.")
    if points.ndim == 1 and len(points) == len(values):
        points = points[:, None]
    points = np.atleast_2d(points)
    if points.ndim != 2 or len(points) != len(values):
        raise RieszError(
            f"the points have shape {points.shape}, but there are {len(values)} values: give one "
            "row of coordinates for each value."
        )
    if not len(values):
        raise RieszError("there are no observations: give at least one.")
    for name, array in (("coordinates", points), ("values", values)):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            raise RieszError(
                f"{len(bad)} of the observed {name} are NaN or infinite, first in observation "
                f"{bad[0][0]}: remove or fill them."
            )
    tell_duplicates(points, values)
    return Observations(points, values)


def as_numbers(values: Any, name: str) -> Float[np.ndarray, "..."]:
    if np.iscomplexobj(values):
        raise RieszError(f"the observed {name} are complex: give real numbers.")
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(float), np.nan)
        return np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise RieszError(f"the observed {name} are not all numbers ({error}).") from None


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
        warnings.warn(
            f"{differing.size} places were observed more than once with different values, first "
            f"{places[first].tolist()} with {low[first]:.6g} .. {high[first]:.6g}: each value "
            "counts as a measurement of its own.",
            stacklevel=3,
        )

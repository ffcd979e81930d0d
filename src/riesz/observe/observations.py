"""Measured values at points."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError


@dataclass(frozen=True, eq=False)
class Observations:
    """One value a point, in the caller's units; data of the host."""

    points: Float[np.ndarray, "sensor dim"]
    values: Float[np.ndarray, " sensor"]

    @property
    def num_sensors(self) -> int:
        return len(self.values)


def observations(points: Any, values: Any) -> Observations:
    """Checked measurements; several at one place are allowed, and told."""
    points, values = np.atleast_2d(np.asarray(points, float)), np.asarray(values, float)
    if values.shape != points.shape[:1]:
        raise RieszError(
            f"there are {len(points)} points but values of shape {values.shape}: give one value a "
            "point."
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


def tell_duplicates(points: Float[np.ndarray, "sensor dim"], values: Float[np.ndarray, " sensor"]):
    """Warn where one place was measured more than once with different results."""
    _, place = np.unique(points, axis=0, return_inverse=True)
    place = place.ravel()
    low, high = np.full(place.max() + 1, np.inf), np.full(place.max() + 1, -np.inf)
    np.minimum.at(low, place, values)
    np.maximum.at(high, place, values)
    differing = int((high > low).sum())
    if differing:
        warnings.warn(
            f"{differing} places were observed more than once with different values: each value "
            "counts as a measurement of its own.",
            stacklevel=3,
        )

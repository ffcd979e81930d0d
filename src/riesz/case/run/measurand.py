"""What was measured, its unit, and measurements beside what was predicted for them."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.case.data.schema import ObservationsTable
from riesz.io.maps.geopackage import Table, geopackage_modules
from riesz.notes import Note
from riesz.observe.distributions import AbstractObservationDistribution
from riesz.prediction.draws import Observed, Shifts
from riesz.prediction.sensors import ENDS
from riesz.problem.unknowns import MEASUREMENT, STATE, VALUE

LOG = "log"

GAINS = {"point_source": "wells", "leakage": "rivers"}
"""What the terms of an equation are called where it describes an aquifer."""


@dataclass(frozen=True, eq=False)
class Measurand:
    """The measured quantity; the state is its logarithm where `transform` says so."""

    name: str
    unit: str | None
    transform: str | None
    rate: str | None = (
        None  # "log of" or "log-odds of", where the state is that of what is expected
    )

    def with_link(self, scatter: AbstractObservationDistribution | None) -> "Measurand":
        """The same, where counts or shares are linked to the state by their noise."""
        words = {"log": "log of", "logit": "log-odds of"}
        return dataclasses.replace(self, rate=words.get(getattr(scatter, "link", "")))

    def of(self, states: Float[Any, "*shape"]) -> Float[Any, "*shape"]:
        """Values in the unit of the measurements, from states of the equation."""
        return np.exp(states) if self.transform == LOG else states

    @property
    def label(self) -> str:
        return self.name if self.unit is None else f"{self.name} [{self.unit}]"

    @property
    def state(self) -> str:
        """What the state of the equation is called."""
        if self.rate is not None:
            return f"{self.rate} {self.name}"
        return self.name if self.transform is None else f"{self.transform} of {self.name}"

    def describe(self, quantity: str) -> str:
        names = {VALUE: self.name, MEASUREMENT: f"a new measurement of {self.name}"}
        return names.get(quantity, quantity)

    def unit_of(self, quantity: str) -> str | None:
        """The unit of a quantity by its name, as far as it is known."""
        if quantity in (VALUE, MEASUREMENT):
            return self.unit
        is_measured = self.transform is None and self.rate is None
        return self.unit if quantity == STATE and is_measured else None


def measurand_of(names: ObservationsTable) -> Measurand:
    """What a problem file says of its measurements."""
    return Measurand(name=names.value, unit=names.unit, transform=names.transform)


def noise_note(names: ObservationsTable, shifts: Shifts, quantity: str) -> Note | None:
    """Where observations differ in their noise, that of which one a new measurement has."""
    if not shifts.differs or quantity not in (VALUE, MEASUREMENT):
        return None
    of = {"exposure": names.exposure, "trials": None if quantity == VALUE else names.trials}
    for code, column in of.items():
        if column is not None:
            middle = float(np.median(shifts.parameters[code]))
            return Note(f"median_{code}", column=column, median=middle)
    return None if quantity == VALUE else Note("median_noise", what="a new measurement")


@dataclass(frozen=True, eq=False)
class Measurements:
    """Measurements in their unit, and what was predicted for them."""

    points: Float[np.ndarray, "sensor 2"]
    measured: Float[np.ndarray, " sensor"]
    predicted: Float[np.ndarray, " sensor"]
    sd: Float[np.ndarray, " sensor"]  # of the prediction, without noise
    low: Float[np.ndarray, " sensor"]  # ends of the interval of a new measurement
    high: Float[np.ndarray, " sensor"]
    censored: Bool[np.ndarray, " sensor"]  # known only to lie below what was measured

    @property
    def residuals(self) -> Float[np.ndarray, " sensor"]:
        """Measured less predicted; NaN where the measured value is a limit."""
        return np.where(self.censored, np.nan, self.measured - self.predicted)


def measurements_of(of: Measurand, observed: Observed, count: int) -> Measurements:
    """The first so many, which are the observations, from draws of the posterior.

    Further measurements, behind them, are of other kinds and units.
    """
    drawn = observed.drawn
    values = np.asarray(of.of(drawn.predicted[:, :count]))
    low, high = np.quantile(of.of(drawn.measured[:, :count]), ENDS, axis=0)
    return Measurements(
        points=observed.points[:count],
        measured=np.asarray(of.of(observed.values[:count])),
        predicted=values.mean(axis=0),
        sd=values.std(axis=0, ddof=1),
        low=low,
        high=high,
        censored=observed.censored[:count],
    )


def measurements_layer(data: Measurements, unit: str | None) -> tuple[Table, list[Any]]:
    """Measurements with what was predicted there."""
    _, shapely = geopackage_modules()
    table: Table = {
        "measured": data.measured.tolist(),
        "predicted": data.predicted.tolist(),
        "residual": data.residuals.tolist(),
        "sd": data.sd.tolist(),
        "low_95": data.low.tolist(),
        "high_95": data.high.tolist(),
        "censored": data.censored.tolist(),
        "unit": [unit or ""] * len(data.measured),
    }
    return table, list(shapely.points(data.points))

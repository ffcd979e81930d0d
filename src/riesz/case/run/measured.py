"""What was measured: its name, its unit, and how the state of the equation becomes it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.file.problem import Case

LOG = "log"


@dataclass(frozen=True, eq=False)
class Measured:
    """The measured quantity; the state is its logarithm where `transform` says so."""

    name: str
    unit: str | None
    transform: str | None

    def of(self, states: Float[Any, "*shape"]) -> Float[Any, "*shape"]:
        """Values in the unit of the measurements, from states of the equation."""
        return np.exp(states) if self.transform == LOG else states

    @property
    def label(self) -> str:
        return self.name if self.unit is None else f"{self.name} [{self.unit}]"

    @property
    def state(self) -> str:
        """What the state of the equation is called."""
        return self.name if self.transform is None else f"{self.transform} of {self.name}"

    def unit_of(self, quantity: str) -> str | None:
        """The unit of a quantity by its name, as far as it is known."""
        if quantity == VALUE:
            return self.unit
        return self.unit if quantity == "u" and self.transform is None else None


VALUE = "value"
"""The name of the measured quantity, among those that can be predicted."""


def measured_as(case: Case) -> Measured:
    """What a problem file says of its measurements."""
    return Measured(
        name=case.tables.observations.value,
        unit=case.unit,
        transform=case.transform,
    )

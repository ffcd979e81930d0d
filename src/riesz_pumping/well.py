"""What a pumping test is: how a well was built and pumped, and what was read about it.

Numbers are in metres and days.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.errors import RieszError

Numbers = Float[np.ndarray, " reading"]


@dataclass(frozen=True)
class Pumped:
    """A well that takes water from the whole thickness of an aquifer."""

    rates: tuple[tuple[float, float], ...]  # from which time on, and m3/d; the first at 0
    thickness: float
    well_radius: float = 0.1
    leaky: bool = False  # whether water comes through the layer above
    casing_radius: float = 0.0  # of what stores water in the well itself
    stores: bool = False  # the same, where that radius is unknown
    skin: bool = False  # whether water meets a resistance as it enters the well

    def __post_init__(self):
        for name, least in (("thickness", 1e-9), ("well_radius", 1e-9), ("casing_radius", 0.0)):
            if not least <= getattr(self, name) < np.inf:
                told = f"the {name.replace('_', ' ')} is {getattr(self, name):g} m"
                raise RieszError(f"{told}: it must be positive.")
        times, rates = np.array(self.rates, float).reshape(-1, 2).T
        if not np.isfinite([times, rates]).all() or not len(times) or not rates.any():
            raise RieszError("the well is not pumped: give at least one rate that is not zero.")
        if times[0] != 0 or (np.diff(times) <= 0).any():
            raise RieszError(f"rates begin at times {times}: the first is 0, and they must rise.")

    @property
    def parameters(self) -> tuple[str, ...]:
        others = {"c": self.leaky, "rc": self.stores, "skin": self.skin}
        return ("k", "Ss", *(name for name, is_unknown in others.items() if is_unknown))

    def inside(self, radius: Numbers) -> Bool[np.ndarray, " reading"]:
        """Which readings are of the pumped well itself."""
        return radius <= self.well_radius

    def changes(self) -> Iterator[tuple[float, float]]:
        """When the rate changes, and by how much."""
        before = 0.0
        for time, rate in self.rates:
            yield time, rate - before
            before = rate


@dataclass(frozen=True, eq=False)
class Readings:
    """Levels of one test; each reading belongs to one of the wells."""

    wells: tuple[str, ...]
    well: Int[np.ndarray, " reading"]  # a place in `wells`
    radius: Numbers  # from the pumped well's axis
    time: Numbers  # since the start
    level: Numbers  # fall of head, or the displacement in a slug test

    def __len__(self) -> int:
        return len(self.level)

    def of_wells(self) -> Iterator[tuple[str, Int[np.ndarray, " own"]]]:
        """The readings of each well, in the order of time."""
        for number, name in enumerate(self.wells):
            own = np.flatnonzero(self.well == number)
            yield name, own[np.argsort(self.time[own], kind="stable")]

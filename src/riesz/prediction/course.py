"""How the state went in time: at some dates everywhere, and at the observed places all along.

It is read off the marches that a fit makes for its draws anyway, and kept beside them: whoever has
it draws hydrographs and maps of other dates than the last without a solve.
"""

import dataclasses

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from riesz.fem.time.axis import TimeAxis
from riesz.prediction.draws import NodalDraws, PosteriorDraws, Rounded, Shifts


class Course(eqx.Module):
    """Some of the draws: states at the nodes at a few dates, and at places at all times."""

    axis: TimeAxis
    shown: Int[np.ndarray, " date"]  # which times maps are of
    maps: Rounded  # a place is a node at a date, date by date
    places: Float[np.ndarray, "place dim"]
    at_places: Rounded  # a place at a time, time by time
    shifts: Shifts

    @property
    def num_draws(self) -> int:
        return len(self.maps.offsets)

    def map_draws(self, draws: PosteriorDraws, date: int) -> PosteriorDraws:
        """What draws would be if the axis ended at one of the dates."""
        states = self.maps.values().reshape(self.num_draws, len(self.shown), -1)[:, date]
        state = NodalDraws(Rounded(np.zeros(states.shape[1]), states), False)
        return dataclasses.replace(draws, state=state, shifts=self.shifts)

    def states(self) -> Float[np.ndarray, "draw time place"]:
        """At the places."""
        return self.at_places.values().reshape(self.num_draws, len(self.axis.times), -1)

"""What a prediction looks at: places, and draws of the state at one date or at several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from riesz.io.tables.dates import spelt_dates
from riesz.mesh.grid import Grid
from riesz.mesh.mesh import Mesh
from riesz.prediction.draws import AtPlaces, PosteriorDraws

Times = Shaped[np.ndarray, " time"]
"""Dates, or numbers where the axis has none."""

Where = Grid | Float[np.ndarray, "point 2"] | None
"""A grid, points, or the mesh itself."""


def spelt_times(times: Times) -> list[str]:
    """As files write them."""
    return spelt_dates(times) if times.dtype.kind == "M" else [f"{time:.12g}" for time in times]


class Then(NamedTuple):
    """Draws as they were at a date; `states` at the places, where those at the nodes are not."""

    draws: PosteriorDraws
    states: AtPlaces | None = None
    when: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """Places, and what draws say of them, date by date.

    Where `paired`, each place has a time of its own.
    """

    at: Where
    thens: tuple[Then, ...]
    sites: Sequence[str] = ()  # of observed places, where they have names
    times: Times | None = None
    paired: bool = False

    @property
    def draws(self) -> PosteriorDraws:
        """At the last of the dates; but for the state they are the same at all."""
        return self.thens[-1].draws

    @property
    def spelt(self) -> list[str]:
        """The times, as files write them."""
        return [] if self.times is None else spelt_times(self.times)

    @property
    def mesh(self) -> Mesh:
        return self.draws.mesh

    @property
    def points(self) -> Float[np.ndarray, "place 2"]:
        points = self.at.points if isinstance(self.at, Grid) else self.at
        return self.mesh.nodes if points is None else points

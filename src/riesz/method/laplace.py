r"""A Gaussian about the most likely unknowns.

Newton's method with conjugate gradients finds the mode; the curvature there, in the few directions
in which it differs from the prior's, gives the spread. Both cost a number of solves that does not
grow with the number of unknowns, so that there may be one at each node of the mesh. (The Laplace
approximation with a low-rank update of the prior: Bui-Thanh, Ghattas, Martin & Stadler 2013.)
"""

from typing import ClassVar

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.devices import Devices
from riesz.errors import RieszError
from riesz.method.base import GRADIENT, AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.newton import MapSearch, SearchSettings, find_map, search_origin
from riesz.method.settings import Count
from riesz.notes import Note
from riesz.posterior.density import AbstractDensity, curvature_at
from riesz.posterior.family import PriorUpdate

NEGLIGIBLE = 0.01
"""Directions in which the data tell less than this part of what the prior does keep the prior."""


FEW = 0.1
"""The same, for directions that were not looked at: more would narrow the posterior by 5 %."""


SEARCHING = 0.6
"""The share of the time that the search for the mode may take: its curvature takes the rest."""


class Laplace(SearchSettings, AbstractMethod):
    """The mode of the posterior, and the Gaussian that its curvature there makes.

    `start` is where the search for the mode begins; `num_modes` directions are looked at around it.
    """

    name: ClassVar[str] = "laplace"
    is_normal: ClassVar[bool] = True

    num_modes: Count = 50

    def num_directions(self, size: int, num_data: int) -> int:
        return min(self.num_modes, size)

    def cost(self, value: float, size: int, num_data: int) -> float:
        return value * (GRADIENT * 20 * (1 + size / 10) + 1400)

    def infer(self, target: TargetDensity, work: Work) -> Inferred:
        density = target.density
        origin = search_origin(target, self.start, work)
        sooner = work._replace(deadline=work.deadline.sooner(SEARCHING))
        search = find_map(density, self, origin, sooner)
        family, values, notes = laplace_approximation(
            density, search, self.num_modes, work.seed, work.devices
        )
        curves = {name: jnp.asarray(curve) for name, curve in search.history.items()}
        return Inferred(family, curves | {"eigenvalues": values}, notes)


def note_on_directions(values: Float[Array, " direction"], size: int) -> tuple[Note, ...]:
    """A note where directions that were not looked at would narrow the posterior."""
    smallest = float(np.abs(np.asarray(values)).min())
    if smallest <= FEW or len(values) == size:
        return ()
    return (Note("few_directions", count=len(values), share=smallest),)


def laplace_approximation(
    density: AbstractDensity,
    search: MapSearch,
    num_modes: int,
    seed: int,
    devices: Devices | None = None,
) -> tuple[PriorUpdate, Float[Array, " direction"], tuple[Note, ...]]:
    """The Gaussian about the mode, the eigenvalues that make it, and what to warn of."""
    mode, steps, notes = search.end.coordinates, len(search.history["cost"]) - 1, ()
    if not search.converged:
        distance = search.history["decrement"][-1]
        notes = (Note("map_search", steps=steps, distance=distance, is_cut=search.is_cut),)
    values, directions = curvature_at(density, search.end, num_modes, jr.key(seed), devices=devices)
    notes = (*notes, *note_on_directions(values, len(mode)))
    if not bool(jnp.all(values > -1)):
        raise RieszError(
            "the log-posterior has no maximum where the search ended: it bends upwards. Start "
            "elsewhere, start=..., or use mcmc."
        )
    informed = np.abs(np.asarray(values)) > NEGLIGIBLE
    return PriorUpdate(mode, directions[:, informed], values[informed]), values, notes

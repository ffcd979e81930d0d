r"""The engine `laplace`: a Gaussian about the most likely unknowns, by exact solves.

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

from riesz.density.base import AbstractDensity
from riesz.density.curvature import curvature_at
from riesz.devices import Devices
from riesz.engines.base import (
    GRADIENT,
    AbstractEngine,
    Count,
    Solver,
    Start,
    Work,
    exact_density,
    states_by,
)
from riesz.engines.laplace.newton import MapSearch, SearchSettings, find_map, search_origin
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import Automatic
from riesz.notes import Note
from riesz.posterior.family import PriorUpdate
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem

NEGLIGIBLE = 0.01
"""Directions in which the data tell less than this part of what the prior does keep the prior."""


FEW = 0.1
"""The same, for directions that were not looked at: more would narrow the posterior by 5 %."""


SEARCHING = 0.6
"""The share of the time that the search for the mode may take: its curvature takes the rest."""


class Laplace(SearchSettings, AbstractEngine):
    """The mode of the posterior, and the Gaussian that its curvature there makes.

    `start` is where the search for the mode begins; `num_modes` directions are looked at around it.
    """

    name: ClassVar[str] = "laplace"
    is_exact: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    is_normal: ClassVar[bool] = True
    compiling: ClassVar[float] = 60.0

    num_modes: Count = 50
    start: Start = None
    linear_solver: Solver = Automatic()

    def cost(self, solve: float, problem: InverseProblem) -> float:
        return solve * (GRADIENT * 20 * (1 + problem.num_coordinates / 10) + 1400)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        sides = min(self.num_modes, problem.num_coordinates)
        density = exact_density(problem, self.linear_solver, num_rhs=sides)
        origin = search_origin(problem, density, self.start, work)
        sooner = work._replace(deadline=work.deadline.sooner(SEARCHING))
        search = find_map(density, self, origin, sooner)
        family, values, notes = laplace_approximation(
            density, search, self.num_modes, work.seed, work.devices
        )
        curves = {name: jnp.asarray(curve) for name, curve in search.history.items()}
        history = curves | {"eigenvalues": values}
        states = states_by(self.linear_solver)
        return Posterior(problem, family, states, history, self.name, work.seed, notes)


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
            "elsewhere, start=..., or use nuts."
        )
    informed = np.abs(np.asarray(values)) > NEGLIGIBLE
    return PriorUpdate(mode, directions[:, informed], values[informed]), values, notes

"""Flow to a pumped well: the radius about its axis, the equation in time, what is unknown in it.

The state is the fall of head. Water comes from the aquifer's storage, through a leaky layer above
and from the well itself, whose casing empties as its level falls. A resistance to what enters the
well (skin) is a ring about its wall that conducts less, drawn inside the wall.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from riesz.fem.elements.space import P2
from riesz.fem.terms.regional import scaled
from riesz.fem.terms.series import series
from riesz.fem.terms.weakform import diffusion, point_source, reaction, storage
from riesz.fem.time.axis import time_axis
from riesz.mesh.shapes import graded, interval
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem
from riesz.pumping.well import Pumped, Readings

PRIORS = {
    "k": dist.LogNormal(np.log(10.0), 3.0),  # m/d: 95 % from silt to gravel
    "Ss": dist.LogNormal(np.log(1e-4), 3.0),  # 1/m
    "c": dist.LogNormal(np.log(100.0), 3.0),  # d
    "rc": dist.LogNormal(np.log(0.1), 1.0),  # m
    "skin": dist.LogNormal(0.0, 2.0),  # a factor: 95 % from 0.02 to 50
}
"""The same for every test: they know no more than that an aquifer is pumped."""

NUM_RING = 8
"""Cells of the ring of a skin, whose radii differ by the factor e: a skin factor of one conducts
in it as the aquifer does."""

REACH = 1e5
"""Radius of the aquifer, m, which no test feels."""


@dataclass(frozen=True)
class Resolution:
    """How fine the section about a pumped well is, and how steps in time grow.

    Levels follow the logarithms of radius and time, and so do cells and steps.
    """

    num_cells: int
    growth: float  # of steps, from each to the next
    early: float  # the first step is shorter than the time of the first reading by this factor


FINE = Resolution(240, 1.03, 300.0)
"""With which closed forms are met to a thousandth."""


def growing_times(first: float, last: float, growth: float) -> Float[np.ndarray, " time"]:
    """Steps that grow by one factor, about `first` at the beginning."""
    count = np.log(1 + (growth - 1) * last / first) / np.log(growth)
    return graded(0.0, last, int(np.ceil(count)), first=first)


def times_of(well: Pumped, seen: Readings, by: Resolution) -> Float[np.ndarray, " time"]:
    """Steps that grow anew whenever the rate changes, up to the last reading."""
    last = seen.time.max()
    starts = np.array([time for time, _ in well.rates if time < last])
    found = [starts[:1]]
    for start, end in zip(starts, np.append(starts[1:], last), strict=True):
        within = seen.time[(seen.time > start) & (seen.time <= end)]
        first = (within.min() if within.size else end) - start
        found.append(start + growing_times(first / by.early, end - start, by.growth)[1:])
        found[-1][-1] = end  # to the last digit: there the next rate begins
    return np.concatenate(found)


def conductivity_with_skin(well: Pumped) -> Callable[..., Any]:
    """Times the thickness: between two radii a factor e apart, less by the skin factor."""

    def found(x: Any, z: Any) -> Any:
        own = well.thickness * z["k"]
        return jnp.where(x[0] < well.well_radius, own / z["skin"], own)

    return found


def pumped_problem(
    well: Pumped,
    seen: Readings,
    likelihood: AbstractLikelihood,
    noise_priors: dict[str, Any],
    by: Resolution = FINE,
) -> InverseProblem:
    """Readings of a test as an inverse problem."""
    radii = graded(well.well_radius, REACH, by.num_cells)
    wall, places = well.well_radius, seen.radius
    conductivity = scaled("k", well.thickness)
    if well.skin:
        ring = well.well_radius * np.exp(np.linspace(-1, 0, NUM_RING + 1))
        radii, wall = np.concatenate([ring[:-1], radii]), ring[0]
        places = np.where(well.inside(places), wall, places)
        conductivity = conductivity_with_skin(well)
    mesh = interval(radii)
    when, rates = np.transpose(well.rates)
    rate = series(when, rates[:, None]) if len(rates) > 1 else rates
    equation = (
        storage(scaled("Ss", well.thickness))
        + diffusion(conductivity)
        - point_source([[wall]], rate)
    )
    if well.leaky:
        equation = equation + reaction(lambda x, z: 1 / z["c"])
    # All of the casing's water for each part of the circle that is the well's wall.
    if well.stores:
        equation = equation + storage(lambda x, z: z["rc"] ** 2 / (2 * wall), on="left")
    elif well.casing_radius:
        equation = equation + storage(well.casing_radius**2 / (2 * wall), on="left")
    return inverse_problem(
        P2(mesh, axisymmetric=True),
        equation,
        latents={name: PRIORS[name] for name in well.parameters} | noise_priors,
        observations=observations(places[:, None], seen.level, times=seen.time),
        likelihood=likelihood,
        dirichlet={"right": 0.0},
        times=time_axis(times_of(well, seen, by)),
        initial=0.0,
    )

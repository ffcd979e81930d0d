"""Flow to a well: the section about its axis, the equation in time, and what is unknown in it.

About a pumped well heads depend on the radius alone, and the state is the fall of head. A slug test
needs the depth as well, since water leaves the well through its screen only: the state is the rise
of head, and the level in the well that of the screen, where one head holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

import riesz as rz
from riesz_paper.data.pumping import Readings
from riesz_paper.experiments.pumping.field_tests import Pumped, Slug

PRIORS = {
    "k": dist.LogNormal(np.log(10.0), 3.0),  # m/d: 95 % from silt to gravel
    "Ss": dist.LogNormal(np.log(1e-4), 3.0),  # 1/m
    "c": dist.LogNormal(np.log(100.0), 3.0),  # d
}
"""The same for every test: they know no more than that an aquifer is pumped."""

REACH = 1e5
"""Radius of the aquifer, m, which no test feels."""

SLUG_REACH = 200.0
"""The same for a cupful of water."""


@dataclass(frozen=True)
class Resolution:
    """How fine the section about a pumped well is, and how steps in time grow.

    Levels follow the logarithms of radius and time, and so do cells and steps.
    """

    num_cells: int
    growth: float  # of steps, from each to the next
    early: float  # the first step is shorter than the time of the first reading by this factor


@dataclass(frozen=True)
class SlugResolution:
    """The same about a screen, where flow is the strongest at its ends and its wall.

    Steps in time double now and then instead of growing: there are few lengths, and few matrices.
    """

    num_radial: int
    num_along: int  # the screen
    num_away: int  # above it, and below
    shortest: float  # m: cells at the ends of the screen and at its wall
    steps: int  # of one length, one after the other
    quadratic: bool


PUMPED = {False: Resolution(60, 1.25, 10.0), True: Resolution(240, 1.04, 300.0)}
SLUG = {
    False: SlugResolution(16, 8, 8, 0.01, 3, quadratic=False),
    True: SlugResolution(16, 8, 9, 0.004, 6, quadratic=True),
}
"""For the search, and for what is told."""

EVEN = 2e3
"""Conductance along the screen, beside that of the aquifer over the screen's length: the well has
one head, to a ten-thousandth."""

SCREEN = "screen"


def flow_problem(
    well: Pumped | Slug,
    seen: Readings,
    likelihood: rz.AbstractLikelihood,
    *,
    fine: bool,
    **latents: Any,
) -> rz.InverseProblem:
    """What readings say of a well's aquifer; `latents` are priors of what the noise names."""
    priors = {name: PRIORS[name] for name in well.parameters} | latents
    if isinstance(well, Slug):
        return slug_problem(well, seen, likelihood, priors, SLUG[fine])
    return pumped_problem(well, seen, likelihood, priors, PUMPED[fine])


def growing_times(first: float, last: float, growth: float) -> Float[np.ndarray, " time"]:
    """Steps that grow by one factor, about `first` at the beginning."""
    count = np.log(1 + (growth - 1) * last / first) / np.log(growth)
    return rz.graded(0.0, last, int(np.ceil(count)), first=first)


def doubling_times(first: float, last: float, count: int) -> Float[np.ndarray, " time"]:
    """So many steps of one length, then as many of twice that length, and so on."""
    num_lengths = int(np.ceil(np.log2(1 + last / (first * count))))
    ends = 2.0 ** np.arange(num_lengths + 1) - 1
    return rz.period_times(ends * last / ends[-1], count)


def pumped_problem(
    well: Pumped,
    seen: Readings,
    likelihood: rz.AbstractLikelihood,
    priors: dict[str, Any],
    by: Resolution,
) -> rz.InverseProblem:
    mesh = rz.interval(rz.graded(well.well_radius, REACH, by.num_cells))
    times = growing_times(seen.time.min() / by.early, seen.time.max(), by.growth)
    equation = (
        rz.storage(rz.scaled("Ss", well.thickness))
        + rz.diffusion(rz.scaled("k", well.thickness))
        - rz.point_source([[well.well_radius]], [well.rate])
    )
    if well.leaky:
        equation = equation + rz.reaction(lambda x, z: 1 / z["c"])
    return rz.inverse_problem(
        rz.P2(mesh, axisymmetric=True),
        equation,
        latents=priors,
        observations=rz.observations(seen.radius[:, None], seen.level, times=seen.time),
        likelihood=likelihood,
        dirichlet={"right": 0.0},
        times=rz.time_axis(times),
        initial=0.0,
    )


def slug_mesh(well: Slug, by: SlugResolution) -> rz.Mesh:
    """The section from the well's wall outwards, with depths below the top of the aquifer."""
    short, half = by.shortest, by.num_along // 2
    top, bottom = well.screen
    middle = (top + bottom) / 2
    depths = [
        rz.graded(0.0, top, by.num_away, last=short),
        rz.graded(top, middle, half, first=short),
        rz.graded(middle, bottom, half, last=short),
        rz.graded(bottom, well.thickness, by.num_away, first=short),
    ]
    radii = rz.graded(well.well_radius, SLUG_REACH, by.num_radial, first=short)
    mesh = rz.rectangle((radii, np.unique(np.concatenate(depths))))
    return rz.tag_boundary(mesh, SCREEN, lambda x: on_screen(well, x))


def on_screen(well: Slug, points: Float[np.ndarray, "point 2"]) -> np.ndarray:
    top, bottom = well.screen
    return (points[:, 0] == well.well_radius) & (points[:, 1] >= top) & (points[:, 1] <= bottom)


def slug_problem(
    well: Slug,
    seen: Readings,
    likelihood: rz.AbstractLikelihood,
    priors: dict[str, Any],
    by: SlugResolution,
) -> rz.InverseProblem:
    mesh = slug_mesh(well, by)
    area = 2 * np.pi * well.well_radius * well.screen_length
    # All of the casing's water for each part of the screen's area.
    casing = np.pi * well.casing_radius**2 / area
    space = (rz.P2 if by.quadratic else rz.P1)(mesh, axisymmetric=True)
    equation = (
        rz.storage("Ss")
        + rz.diffusion("k")
        + rz.storage(casing, on=SCREEN)
        + rz.diffusion(rz.scaled("k", EVEN * well.screen_length), on=SCREEN)
    )
    at_level = np.array([[well.well_radius, sum(well.screen) / 2]])
    return rz.inverse_problem(
        space,
        equation,
        latents=priors,
        observations=rz.observations(
            np.repeat(at_level, len(seen), axis=0), seen.level, times=seen.time
        ),
        likelihood=likelihood,
        times=rz.time_axis(doubling_times(seen.time.min(), seen.time.max(), by.steps)),
        initial=rz.nodal(np.where(on_screen(well, mesh.nodes), well.displacement, 0.0)),
    )

"""Flow to a well: the section about its axis, the equation in time, and what is unknown in it.

About a pumped well heads depend on the radius alone, and the state is the fall of head. A slug test
needs the depth as well, since water leaves the well through its screen only: the state is the rise
of head, and the level in the well that of the screen, where one head holds.
"""

from dataclasses import dataclass

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

NOISE = "noise_sd"
NOISE_PRIOR = dist.LogNormal(np.log(0.01), 1.5)
"""Of a level, m: from half a millimetre to twenty centimetres."""

REACH = 1e5
"""Radius of the aquifer, m, which no test feels."""

SLUG_REACH = 200.0
"""The same for a cupful of water."""


@dataclass(frozen=True)
class Steps:
    """Steps in time grow, since levels follow the logarithm of time."""

    growth: float  # from each to the next
    early: float  # the first is shorter than the time of the first reading by this factor


PUMPED_STEPS, SLUG_STEPS = Steps(growth=1.04, early=300), Steps(growth=1.15, early=5)

RADIAL_CELLS = 240
SLUG_CELLS = (20, 10, 11)
"""Along the radius, the screen, and what is above it and below."""

SCREEN_END, FIRST_RING = 0.004, 0.004
"""Lengths, m, of cells at the ends of the screen and at its wall: flow is the strongest there."""

EVEN = 1e4
"""How much better water moves along the screen than in the aquifer: the well has one head."""

SCREEN = "screen"


def flow_problem(
    well: Pumped | Slug, seen: Readings, likelihood: rz.AbstractLikelihood, **latents: object
) -> rz.InverseProblem:
    """What readings say of a well's aquifer; `latents` are priors of what the noise names."""
    priors = {name: PRIORS[name] for name in well.parameters} | latents
    if isinstance(well, Slug):
        return slug_problem(well, seen, likelihood, priors)
    return pumped_problem(well, seen, likelihood, priors)


def time_steps(seen: Readings, steps: Steps) -> Float[np.ndarray, " time"]:
    """From the start to the last reading, longer and longer."""
    first, last = seen.time.min() / steps.early, seen.time.max()
    count = np.log(1 + (steps.growth - 1) * last / first) / np.log(steps.growth)
    return rz.graded(0.0, last, int(np.ceil(count)), first=first)


def pumped_problem(
    well: Pumped, seen: Readings, likelihood: rz.AbstractLikelihood, priors: dict
) -> rz.InverseProblem:
    mesh = rz.interval(rz.graded(well.well_radius, REACH, RADIAL_CELLS))
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
        times=rz.time_axis(time_steps(seen, PUMPED_STEPS)),
        initial=0.0,
    )


def slug_mesh(well: Slug) -> rz.Mesh:
    """The section from the well's wall outwards, with depths below the top of the aquifer."""
    radial, along, away = SLUG_CELLS
    top, bottom = well.screen
    middle = (top + bottom) / 2
    depths = [
        rz.graded(0.0, top, away, last=SCREEN_END),
        rz.graded(top, middle, along // 2, first=SCREEN_END),
        rz.graded(middle, bottom, along // 2, last=SCREEN_END),
        rz.graded(bottom, well.thickness, away, first=SCREEN_END),
    ]
    radii = rz.graded(well.well_radius, SLUG_REACH, radial, first=FIRST_RING)
    mesh = rz.rectangle((radii, np.unique(np.concatenate(depths))))
    return rz.tag_boundary(mesh, SCREEN, lambda x: on_screen(well, x))


def on_screen(well: Slug, points: Float[np.ndarray, "point 2"]) -> np.ndarray:
    top, bottom = well.screen
    return (points[:, 0] == well.well_radius) & (points[:, 1] >= top) & (points[:, 1] <= bottom)


def slug_problem(
    well: Slug, seen: Readings, likelihood: rz.AbstractLikelihood, priors: dict
) -> rz.InverseProblem:
    mesh = slug_mesh(well)
    area = 2 * np.pi * well.well_radius * well.screen_length
    # All of the casing's water for each part of the screen's area.
    casing = np.pi * well.casing_radius**2 / area
    space = rz.P2(mesh, axisymmetric=True)
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
        times=rz.time_axis(time_steps(seen, SLUG_STEPS)),
        initial=rz.nodal(np.where(on_screen(well, mesh.nodes), well.displacement, 0.0)),
    )

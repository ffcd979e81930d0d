"""Flow out of a well into which water was poured: depth and radius about its axis, in time.

Water leaves the well through its screen only. The state is the rise of head, and the level in the
well that of the screen, where one head holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

import riesz as rz
from riesz_paper.experiments.pumping.field_tests import Slug
from riesz_pumping.fit import PRIORS
from riesz_pumping.well import Readings

SLUG_REACH = 200.0
"""Metres, which a cupful of water does not feel."""


@dataclass(frozen=True)
class SlugResolution:
    """How fine the section is about a screen: flow is the strongest at its ends and its wall.

    Steps in time double now and then instead of growing: there are few lengths, and few matrices.
    """

    num_radial: int
    num_along: int  # the screen
    num_away: int  # above it, and below
    shortest: float  # m: cells at the ends of the screen and at its wall
    steps: int  # of one length, one after the other
    quadratic: bool


SLUG = {
    False: SlugResolution(16, 8, 8, 0.01, 3, quadratic=False),
    True: SlugResolution(16, 8, 9, 0.004, 6, quadratic=True),
}
"""For the search, and for what is told."""

EVEN = 2e3
"""Conductance along the screen, beside that of the aquifer over the screen's length: the well has
one head, to a ten-thousandth."""

SCREEN = "screen"


def doubling_times(first: float, last: float, count: int) -> Float[np.ndarray, " time"]:
    """So many steps of one length, then as many of twice that length, and so on."""
    num_lengths = int(np.ceil(np.log2(1 + last / (first * count))))
    ends = 2.0 ** np.arange(num_lengths + 1) - 1
    return rz.fem.period_times(ends * last / ends[-1], count)


def slug_mesh(well: Slug, by: SlugResolution) -> rz.mesh.Mesh:
    """The section from the well's wall outwards, with depths below the top of the aquifer."""
    short, half = by.shortest, by.num_along // 2
    top, bottom = well.screen
    middle = (top + bottom) / 2
    depths = [
        rz.mesh.geometric_ticks(0.0, top, by.num_away, last=short),
        rz.mesh.geometric_ticks(top, middle, half, first=short),
        rz.mesh.geometric_ticks(middle, bottom, half, last=short),
        rz.mesh.geometric_ticks(bottom, well.thickness, by.num_away, first=short),
    ]
    radii = rz.mesh.geometric_ticks(well.well_radius, SLUG_REACH, by.num_radial, first=short)
    mesh = rz.rectangle((radii, np.unique(np.concatenate(depths))))
    return rz.mesh.tag_boundary(mesh, SCREEN, lambda x: on_screen(well, x))


def on_screen(well: Slug, points: Float[np.ndarray, "point 2"]) -> np.ndarray:
    top, bottom = well.screen
    return (points[:, 0] == well.well_radius) & (points[:, 1] >= top) & (points[:, 1] <= bottom)


def slug_problem(
    well: Slug,
    seen: Readings,
    likelihood: rz.observe.AbstractLikelihood,
    noise_priors: dict[str, Any],
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
        + rz.diffusion(rz.fem.scale("k", EVEN * well.screen_length), on=SCREEN)
    )
    at_level = np.array([[well.well_radius, sum(well.screen) / 2]])
    return rz.inverse_problem(
        space,
        equation,
        latents={name: PRIORS[name] for name in well.parameters} | noise_priors,
        observations=rz.observations(
            np.repeat(at_level, len(seen), axis=0), seen.level, times=seen.time
        ),
        likelihood=likelihood,
        times=rz.fem.time_axis(doubling_times(seen.time.min(), seen.time.max(), by.steps)),
        initial=rz.nodal(np.where(on_screen(well, mesh.nodes), well.displacement, 0.0)),
    )

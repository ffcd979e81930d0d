r"""Blind problems whose truth is solved on a mesh two levels finer; one in four is in time.

Grounds, models, priors and sensors are those of `blind`; noise is normal, and by its rule at least
four times the error of mesh and steps at the sensors (root mean square). In time there are storage
and a stress that is held over each of twelve periods, recharge or a well; the fit takes one step a
period, the truth four.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

import riesz as rz
from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.finer import on_refined_mesh, with_half_steps
from riesz.problem.posing import with_observations
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.ground import scattered
from riesz_paper.experiments.blind.model import between, positive
from riesz_paper.experiments.blind.problem import (
    MOST_REDRAWN,
    OVER_MESH_ERROR,
    RELATIVE_NOISE,
    Site,
    draw_site,
    spread_of,
)

LEVELS = 2
"""By which the truth's mesh is finer; its steps are cut in two as often."""

EVERY_IN_TIME = 4
PERIODS, MOST_SENSORS = 12, 12
"""Of problems in time: each sensor is read when a period ends."""

TIMES = (3, 7, 11)
"""Periods at whose ends the state is asked for elsewhere."""

PERIOD = (0.01, 0.1)
"""Of the time in which heads even out over the domain, for a storage of one."""

HELD = ("recharge", "pumping")
STEADY_FAMILIES = ("number", "zones", "field")
"""Whose models are given storage; without advection."""

Everywhere = Float[np.ndarray, " sensor_or_place"]
Coordinates = Float[np.ndarray, " coordinate"]


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, its truth, and how far the discretisation is off there."""

    family: str
    everywhere: InverseProblem  # read at the sensors, then at places where nobody measures
    num_sensors: int
    finer: InverseProblem
    truth: Coordinates
    true_state: Everywhere  # of the finer problem
    own_state: Everywhere  # for the same unknowns, of the problem that is fitted
    noise_sd: float
    noise: Everywhere

    def fitted(self, values: Everywhere, noise_sd: Any) -> InverseProblem:
        """With measurements at the sensors alone."""
        given, n = self.everywhere.observations, self.num_sensors
        times = None if given.times is None else given.times[:n]
        observed = rz.observations(given.points[:n], values[:n], times=times)
        return with_observations(self.everywhere, observed, rz.Gaussian(noise_sd))


@eqx.filter_jit
def state_and_readings(
    problem: InverseProblem, solver: AbstractLinearSolver, coordinates: Array
) -> Array:
    return problem.predict(problem.solve(coordinates, solver), problem.z(coordinates))


def read_state(problem: InverseProblem, coordinates: Coordinates) -> Everywhere:
    """By an exact solve; NaN where there is no solution."""
    solver = problem.default_solver()
    return np.asarray(state_and_readings(problem, solver, on_device(coordinates)))


def draw_case(seed: int, number: int) -> Case:
    """The same for the same seed and number; another where an equation has no solution."""
    for again in range(MOST_REDRAWN):
        rng = np.random.default_rng([seed, number, again])
        is_in_time = number % EVERY_IN_TIME == EVERY_IN_TIME - 1
        family, everywhere, count = (in_time if is_in_time else steady)(rng)
        relative = between(rng, *RELATIVE_NOISE)
        case = case_of(family, everywhere, count, relative, rng)
        if case is not None:
            return case
    raise RieszError(f"no solutions for {MOST_REDRAWN} problems in a row: this is no chance.")


def case_of(
    family: str,
    everywhere: InverseProblem,
    num_sensors: int,
    relative: float,
    rng: np.random.Generator,
    over: float = OVER_MESH_ERROR,
) -> Case | None:
    """With unknowns of the prior, and noise no less than `over` times the error at the sensors."""
    finer = everywhere
    for _ in range(LEVELS):
        finer = on_refined_mesh(finer)
        finer = finer if finer.time is None else with_half_steps(finer)
    truth = rng.standard_normal(everywhere.num_coordinates)
    true_state, own_state = (read_state(one, truth) for one in (finer, everywhere))
    if not np.isfinite(true_state + own_state).all():
        return None
    error = np.sqrt(np.mean((true_state - own_state)[:num_sensors] ** 2))
    noise_sd = float(max(relative * spread_of(true_state[:num_sensors]), over * error))
    noise = noise_sd * rng.standard_normal(len(true_state))
    states = (truth, true_state, own_state)
    return Case(family, everywhere, num_sensors, finer, *states, noise_sd, noise)


def steady(rng: np.random.Generator) -> tuple[str, InverseProblem, int]:
    """A problem of `blind`, read at its sensors and at its places without one."""
    site, _ = draw_site(rng)
    points = np.concatenate([site.sensors, site.probes])
    return site.model.family, pose(site, points, site.model.equation), len(site.sensors)


def in_time(rng: np.random.Generator) -> tuple[str, InverseProblem, int]:
    """Storage and a stress that is held, on a ground and in a model of `blind`."""
    site, _ = draw_site(rng)
    while site.model.family not in STEADY_FAMILIES or "advection" in site.model.terms:
        site, _ = draw_site(rng)
    units = site.model.units
    period = units.length**2 / units.diffusivity * between(rng, *PERIOD)
    ends = period * np.arange(PERIODS + 1)
    family = str(rng.choice(HELD))
    rates = rng.lognormal(0, 0.5, PERIODS) * (1 + np.cos(2 * np.pi * np.arange(PERIODS) / PERIODS))
    rates *= units.state * units.diffusivity
    sensors = site.sensors[:MOST_SENSORS]
    if family == "recharge":
        stress = -rz.source(rz.series(ends[:-1], 4 / units.length**2 * rates))
    else:
        well = scattered(site.ground.mesh, 1, rng, clustered=False)
        apart = np.linalg.norm(site.sensors - well, axis=1)
        sensors = site.sensors[apart > 1.5 * site.ground.edge][:MOST_SENSORS]
        stress = rz.point_source(well, rz.series(ends[:-1], rates[:, None]))
    times = [(sensors, ends[1:]), (site.probes, ends[1:][list(TIMES)])]
    points = np.concatenate([np.tile(where, (len(when), 1)) for where, when in times])
    read = np.concatenate([np.repeat(when, len(where)) for where, when in times])
    equation = rz.storage("s") + site.model.equation + stress
    axis = rz.fem.time_axis(ends)
    problem = pose(site, points, equation, {"s": positive(1.0, 0.5)}, read, times=axis)
    return family, problem, len(sensors) * PERIODS


def pose(
    site: Site, points: Any, equation: Any, more: Any = None, read: Any = None, **timed: Any
) -> InverseProblem:
    """On the ground's own mesh, without data."""
    model = site.model
    return rz.inverse_problem(
        site.ground.mesh,
        equation,
        latents=dict(model.latents) | (more or {}),
        observations=rz.observations(points, np.zeros(len(points)), times=read),
        likelihood=rz.Gaussian(1.0),
        dirichlet=model.dirichlet,
        **timed,
    )

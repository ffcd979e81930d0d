"""The peaks of a posterior: searches from many places, and a normal distribution about each end.

Two ends are two peaks where the way between them leads through a valley; ends on one ridge are one.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.devices import Devices, over_rows
from riesz.engines.laplace.newton import (
    Place,
    SearchSettings,
    data_actions,
    leading_eigenpairs,
    most_likely,
    place_at,
)
from riesz.engines.sample.hamiltonian import Peaks
from riesz.engines.sample.metric import Metric, metric_about, together
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.problem import Coordinates, InverseProblem

NUM_SEARCHES, MANY_SEARCHES, FEW = 6, 16, 32
"""Places that are searched from, and how many where there are up to 32 unknowns: with few, peaks
may be so narrow that one search of twelve ends there, and a search costs little beside chains."""

SEARCH = SearchSettings(max_steps=30, tolerance=0.05)
"""Chains start around the ends: a twentieth of a standard deviation more or less is nothing."""

FEW_UNKNOWNS = 256
"""Up to so many all directions are reshaped; of more, those in which data tell something."""

NUM_DIRECTIONS = 50
"""Of those, at the least; where there are more observations, as many, up to four times that."""

VALLEY = 3.0
"""How far the log-density falls between two peaks, below the lower one."""

NUM_BETWEEN = 9
"""Places between two ends that are looked at."""

NEGLIGIBLE = 9.0
"""Peaks with a smaller weight than the largest, by logarithms, are left out."""

LEAST_INFORMATION = -0.75
"""Where the log-density bends upwards the metric is at most twice as wide as the prior."""


def searched(
    problem: InverseProblem, solver: AbstractLinearSolver, starts: list[Coordinates]
) -> list[Place]:
    """Where searches end, the most likely first; a start without a density is passed over."""
    ends, refused = [], None
    for start in starts:
        try:
            ends.append(most_likely(problem, solver, SEARCH, start, lambda _: None).place)
        except RieszError as error:
            refused = error
    if not ends:
        assert refused is not None
        raise refused
    return sorted(ends, key=lambda end: float(end.cost))


def usual_searches(num_coordinates: int) -> int:
    return MANY_SEARCHES if num_coordinates <= FEW else NUM_SEARCHES


def first_places(origin: Coordinates, count: int, key: PRNGKeyArray) -> list[Coordinates]:
    """The middle, and draws of the prior in pairs of opposite sign: both sides are looked at."""
    half = jr.normal(key, ((count + 1) // 2, len(origin)))
    pairs = jnp.stack([half, -half], axis=1).reshape(-1, len(origin))
    return [origin, *pairs[: count - 1]]


def apart(problem: InverseProblem, solver: AbstractLinearSolver, ends: list[Place]) -> list[Place]:
    """One end for each peak."""
    kept: list[Place] = []
    for end in ends:
        if all(has_valley(problem, solver, one, end) for one in kept):
            kept.append(end)
    return kept


def has_valley(
    problem: InverseProblem, solver: AbstractLinearSolver, one: Place, other: Place
) -> bool:
    """Whether the log-density falls between two ends."""
    highest = max(float(one.cost), float(other.cost)) + VALLEY
    for share in np.arange(1, NUM_BETWEEN + 1) / (NUM_BETWEEN + 1):
        between = (1 - share) * one.coordinates + share * other.coordinates
        cost = float(place_at(problem, between, solver).cost)
        if not cost <= highest:
            return True
    return False


def ends_from(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    origin: Coordinates,
    num_searches: int,
    key: PRNGKeyArray,
) -> list[Place]:
    """Where searches end, one place for each peak, the most likely first."""
    starts = first_places(origin, num_searches, key)
    return apart(problem, solver, searched(problem, solver, starts))


def metric_at(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    place: Place,
    key: PRNGKeyArray,
    devices: Devices | None = None,
) -> Metric:
    """From the curvature there."""
    size = problem.num_coordinates
    count = size
    if size > FEW_UNKNOWNS:
        count = int(np.clip(len(problem.observed), NUM_DIRECTIONS, 4 * NUM_DIRECTIONS))

    def action(directions: Float[Array, "direction coordinate"]):
        return over_rows(data_actions, (problem, place, solver), directions, devices)

    values, directions = leading_eigenpairs(action, size, count, key)
    return metric_about(place.coordinates, directions, jnp.maximum(values, LEAST_INFORMATION))


def peaks_of(
    problem: InverseProblem,
    solver: AbstractLinearSolver,
    origin: Coordinates,
    num_searches: int,
    key: PRNGKeyArray,
    devices: Devices | None = None,
) -> Peaks:
    """Peaks with weights by Laplace's method, without those that have next to none."""
    places_key, own = jr.split(key)
    ends = ends_from(problem, solver, origin, num_searches, places_key)
    metrics = [metric_at(problem, solver, end, own, devices) for end in ends]
    logs = np.array(
        [float(m.log_volume()) - float(end.cost) for m, end in zip(metrics, ends, strict=True)]
    )
    if not np.isfinite(logs).any():
        raise RieszError(
            f"the curvature of the log-density is not finite at any of the {len(ends)} peaks that "
            "were found: look for coefficients whose derivatives are infinite or NaN there, or use "
            "nuts."
        )
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    kept = np.flatnonzero(logs > logs.max() - NEGLIGIBLE)
    weights = jax.nn.log_softmax(jnp.asarray(logs[kept]))
    return Peaks(together([metrics[i] for i in kept]), weights)

"""The modes of a posterior: ends of searches from several places.

Two ends are two modes where the way between them leads through a valley; ends on one ridge are one.
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from riesz.errors import RieszError
from riesz.method.newton import SearchSettings, find_map
from riesz.posterior.density import AbstractDensity, Linearization, linearize_at
from riesz.problem.problem import Coordinates

NUM_SEARCHES, MANY_SEARCHES, FEW = 6, 16, 32
"""Places that are searched from, and how many where there are up to 32 unknowns: with few, modes
may be so narrow that one search of twelve ends there, and a search costs little beside chains."""

SEARCH = SearchSettings(max_steps=30, tolerance=0.05)
"""Chains start around the ends: a twentieth of a standard deviation more or less is nothing."""

VALLEY = 3.0
"""How far the log-density falls between two modes, below the lower one."""

NUM_BETWEEN = 9
"""Places between two ends that are looked at."""

NEGLIGIBLE = 9.0
"""Modes with a smaller weight than the largest, by logarithms, are left out."""


def search_all(density: AbstractDensity, starts: list[Coordinates]) -> list[Linearization]:
    """Where searches end, the most likely first; a start without a density is passed over."""
    ends, refused = [], None
    for start in starts:
        try:
            ends.append(find_map(density, SEARCH, start).end)
        except RieszError as error:
            refused = error
    if not ends:
        assert refused is not None
        raise refused
    return sorted(ends, key=lambda end: float(end.cost))


def default_searches(num_coordinates: int) -> int:
    return MANY_SEARCHES if num_coordinates <= FEW else NUM_SEARCHES


def search_starts(origin: Coordinates, count: int, key: PRNGKeyArray) -> list[Coordinates]:
    """The middle, and draws of the prior in pairs of opposite sign: both sides are looked at."""
    half = jr.normal(key, ((count + 1) // 2, len(origin)))
    pairs = jnp.stack([half, -half], axis=1).reshape(-1, len(origin))
    return [origin, *pairs[: count - 1]]


def separate(density: AbstractDensity, ends: list[Linearization]) -> list[Linearization]:
    """One end for each mode."""
    modes: list[Linearization] = []
    for end in ends:
        if all(are_separated(density, mode, end) for mode in modes):
            modes.append(end)
    return modes


def are_separated(density: AbstractDensity, one: Linearization, other: Linearization) -> bool:
    """Whether the log-density falls between two ends."""
    highest = max(float(one.cost), float(other.cost)) + VALLEY
    for share in np.arange(1, NUM_BETWEEN + 1) / (NUM_BETWEEN + 1):
        between = (1 - share) * one.coordinates + share * other.coordinates
        cost = float(linearize_at(density, between).cost)
        if not cost <= highest:
            return True
    return False


def find_modes(
    density: AbstractDensity,
    origin: Coordinates,
    num_searches: int,
    key: PRNGKeyArray,
) -> list[Linearization]:
    """Where searches end, one place for each mode, the most likely first."""
    starts = search_starts(origin, num_searches, key)
    return separate(density, search_all(density, starts))

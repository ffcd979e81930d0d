"""Few unknowns about their most probable values: a Gaussian by the curvature, and weighed draws.

The Gaussian is what is drawn from, not what is believed: draws are weighed by the density itself,
which is at hand, and those that are kept stand for it. (Pareto-smoothed importance resampling.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from riesz.density.marginal.linear import Others
from riesz.notes import Note
from riesz.posterior.importance import ImportanceSample, weight_draws
from riesz.posterior.sobol import spread_normals

STEP = 1e-3
"""Of differences of slopes, in prior standard deviations: third derivatives of a solve would be
exact too, but take minutes to compile."""

FLAT = 0.25
"""Curvatures are taken for no smaller: the prior alone has one, and what is flat there or bends
upwards would put draws beyond anything the prior allows."""

DEGREES = 5.0
"""Of freedom: draws to be weighed have the heavy tails of Student's t, so that none of the
density's is missed, which are those of a standard normal prior at most."""

WEIGHED = 3
"""So many draws are weighed for each that is kept."""

Cost = Callable[[Others], tuple[Any, Any]]
"""The negative log-density and its slope."""


class Spread(NamedTuple):
    """The Gaussian about a mode, by its axes, and whether some of them had to be shortened."""

    axes: Float[np.ndarray, "other other"]  # in columns
    lengths: Float[np.ndarray, " other"]  # standard deviations along them
    notes: tuple[Note, ...]


def curvature(cost: Cost, mode: Others) -> Float[np.ndarray, "other other"]:
    """Of the negative log-density, by differences of slopes."""
    here, there = np.asarray(cost(mode)[1]), np.asarray(mode)
    ahead = [cost(jnp.asarray(there + STEP * axis))[1] for axis in np.eye(len(mode))]
    matrix = (np.stack([np.asarray(slope) for slope in ahead]) - here) / STEP
    return (matrix + matrix.T) / 2


def gaussian_spread(cost: Cost, mode: Others) -> Spread:
    return spread_by(curvature(cost, mode))


def spread_by(curvature: Float[np.ndarray, "other other"]) -> Spread:
    values, axes = np.linalg.eigh(curvature)
    flat = int(np.sum(values < FLAT))
    notes = ()
    if flat:
        notes = (Note("flat_directions", count=flat, total=len(values)),)
    return Spread(axes, 1 / np.sqrt(np.maximum(values, FLAT)), notes)


def sample_hyperparameters(
    log_density: Callable[[Any], Any],
    spread: Spread,
    mode: Float[np.ndarray, " other"],
    count: int,
    seed: int,
) -> tuple[ImportanceSample, Float[np.ndarray, "draw other"]]:
    """Draws of the Gaussian with their weights, and so many that are kept by these.

    Where the density is the joint one of unknowns and data, its integral is the evidence.
    """
    rng, number = np.random.default_rng(seed % 2**64), WEIGHED * count
    away = spread_normals(seed, number, len(mode))
    away *= np.sqrt(DEGREES / rng.chisquare(DEGREES, number))[:, None]
    places = mode + away @ (spread.axes * spread.lengths).T
    logs = np.array([float(log_density(jnp.asarray(place))) for place in places])
    # The density of Student's t.
    half, size = DEGREES / 2, len(mode) / 2
    proposed = gammaln(half + size) - gammaln(half) - size * np.log(DEGREES * np.pi)
    proposed -= np.sum(np.log(spread.lengths))
    proposed -= (half + size) * np.log1p(np.sum(away**2, axis=1) / DEGREES)
    sample = weight_draws(places, logs - proposed)
    # Along the longest axis neighbours stand in for each other.
    order = np.argsort(away[:, np.argmax(spread.lengths)])
    return sample, sample.resample(count, rng.uniform(), order)

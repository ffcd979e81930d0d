r"""Data models that know no equation: kriging whose variogram is learned, and a plane.

Both are normal: a level and slopes along the axes, effects of covariates where there are any, and
for kriging a Matern process of the places; with times, a process of places and times and a level
for each place as well. Their scales are log-normal about what the data suggest.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from riesz.arrays import on_device
from riesz.density.marginal.host import Columns, Component, DataModel, Scales
from riesz.density.marginal.spread import WEIGHED, gaussian_spread, sample_hyperparameters
from riesz.priors.kernels import Matern32, covariance_factor, with_scales

REACH, TREND = 0.15, 3.0
"""Medians of kriging: its range as a share of the extent, and its trend in sds of the data."""

NUGGET, NUGGET_SPREAD = 0.3, 1.5
"""The noise's median as a share of what a plane leaves of the data, and the sd of its logarithm."""

FLAT = 1e-6
"""What a plane leaves of data at least, as a share of them: those on a plane have a scale too."""

NUM_VALUES, NEGLIGIBLE = 120, 1e-6
"""Of scales and noise, over which predictions are averaged; those of less weight are left out."""

Points = Float[np.ndarray, "sensor dim"]
Values = Float[np.ndarray, " sensor"]


def part(
    name: str, columns: Callable[[Scales], Columns], num_columns: int, num_scales: int = 0
) -> Component:
    """What adds to the data, before it has its place behind others; it grows by its first scale."""
    growth = np.ones(num_columns) if num_scales else None
    return Component(name, columns, np.arange(num_scales), np.arange(num_columns), growth)


Axes = Int[np.ndarray, " dim"]
"""Which axes share a unit: numbers that are alike for places, and another for times."""


def extents(points: Points, axes: Axes) -> Float[np.ndarray, " unit"]:
    """The longest side of what was measured, of each kind of axis; one where there is none."""
    result = np.array([np.ptp(points[:, axes == one], axis=0).max() for one in np.unique(axes)])
    return np.where(result > 0, result, 1.0)


def trend(points: Points, axes: Axes, spread: float) -> Component:
    """A level, and slopes along the axes."""
    centred = 2 * (points - points.mean(axis=0)) / extents(points, axes)[axes]
    columns = TREND * spread * np.hstack([np.ones((len(points), 1)), centred])
    return part("trend", lambda _: columns, columns.shape[1])


def process(name: str, points: Points, axes: Axes, spread: float) -> Component:
    """Matern 3/2, with an sd and a length for each kind of axis."""
    places, rows = np.unique(points, axis=0, return_inverse=True)
    reach = REACH * extents(points, axes)

    def columns(scales: Scales) -> Columns:
        own = np.append(spread * np.exp(scales[0]), (reach * np.exp(scales[1:]))[axes])
        return covariance_factor(with_scales(Matern32(1.0), own), places)[rows.reshape(-1)]

    return part(name, columns, len(places), 1 + len(reach))


def levels(points: Points, spread: float) -> Component:
    """Of each place that was measured more than once."""
    _, place = np.unique(points, axis=0, return_inverse=True)
    own = np.eye(place.max() + 1)[place.reshape(-1)]
    return part("levels", lambda scale: spread * np.exp(scale[0]) * own, own.shape[1], 1)


def effects(design: Float[np.ndarray, "sensor effect"], spread: float) -> Component:
    """Of covariates, each in its own standard deviations."""
    scale = design.std(axis=0)
    columns = TREND * spread * (design - design.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return part("effects", lambda _: columns, columns.shape[1])


def model_of(parts: Sequence[Component], values: Values, left: float) -> DataModel:
    """One part behind the other, with noise of one sd, which is unknown."""

    def noise_sd(given: Scales) -> Values:
        return np.full(len(values), NUGGET * left * np.exp(NUGGET_SPREAD * given[0]))

    components, num_others, num_linear = [], 1, 0
    for one in parts:
        places = {"scales": num_others + one.scales, "linear": num_linear + one.linear}
        components.append(dataclasses.replace(one, **places))
        num_others, num_linear = num_others + len(one.scales), num_linear + len(one.linear)
    noise = noise_sd, np.zeros(1, int)
    return DataModel(tuple(components), values - values.mean(), *noise, num_others, num_linear)


def rival_models(
    points: Points,
    values: Values,
    *,
    times: Values | None = None,
    design: Float[np.ndarray, "sensor effect"] | None = None,
) -> dict[str, DataModel]:
    """Kriging and a plane, by name; covariates and times are known to both."""
    spread = float(values.std()) or 1.0
    space = np.zeros(points.shape[1], int)
    at, axes = points, space
    if times is not None:
        at, axes = np.column_stack([points, times]), np.append(space, 1)
    shared = [trend(at, axes, spread)]
    if design is not None and design.shape[1]:
        shared.append(effects(design, spread))
    known = np.hstack([one.columns(np.zeros(0)) for one in shared])
    centred = values - values.mean()
    left = float(np.std(centred - known @ np.linalg.lstsq(known, centred)[0]))
    left = max(left, FLAT * spread)
    own = [process("process", points, space, left)]
    if times is not None:
        own += [process("changes", at, axes, left), levels(points, left)]
    return {
        "kriging": model_of([*shared, *own], values, left),
        "plane": model_of(shared, values, left),
    }


def of_rows(model: DataModel, rows: Int[np.ndarray, " kept"]) -> DataModel:
    """The model of some of the data."""

    def cut(one: Component) -> Component:
        return dataclasses.replace(one, columns=lambda scales: one.columns(scales)[rows])

    return dataclasses.replace(
        model,
        components=tuple(map(cut, model.components)),
        misfit=model.misfit[rows],
        noise_sd=lambda given: model.noise_sd(given)[rows],
    )


class LikelyValues(NamedTuple):
    """Of scales and noise, with weights that add up to one."""

    values: Float[np.ndarray, "value other"]
    weights: Float[np.ndarray, " value"]

    @property
    def mean(self) -> Scales:
        return self.weights @ self.values


def likely_values(
    model: DataModel,
    *,
    start: Scales | None = None,
    mode: Scales | None = None,
    seed: int = 0,
    count: int = NUM_VALUES,
) -> LikelyValues:
    """Scales and noise given the data: about their most probable values, where these are known."""
    if not model.num_others:
        return LikelyValues(np.zeros((1, 0)), np.ones(1))
    mode = model.rough_mode(start) if mode is None else mode
    spread = gaussian_spread(model.cost, on_device(mode))
    sample, _ = sample_hyperparameters(model.log_density, spread, mode, count // WEIGHED, seed)
    kept = sample.weights > NEGLIGIBLE
    return LikelyValues(sample.draws[kept], sample.weights[kept] / sample.weights[kept].sum())

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
from riesz.density.marginal.host import ROUGH, Columns, Component, DataModel, Growth, Scales
from riesz.density.marginal.spread import WEIGHED, gaussian_spread, sample_hyperparameters
from riesz.method.training import minimise
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


class Part(NamedTuple):
    """What adds to the data, before it has its place among others."""

    name: str
    columns: Callable[[Scales], Columns]
    num_columns: int
    num_scales: int = 0
    growth: Growth | None = None


def place_parts(parts: Sequence[Part], first_scale: int) -> tuple[Component, ...]:
    """One after the other, behind so many scales of others."""
    result, first_linear = [], 0
    for part in parts:
        linear = first_linear + np.arange(part.num_columns)
        scales = first_scale + np.arange(part.num_scales)
        result.append(Component(part.name, part.columns, scales, linear, part.growth))
        first_linear, first_scale = first_linear + len(linear), first_scale + len(scales)
    return tuple(result)


Axes = Int[np.ndarray, " dim"]
"""Which axes share a unit: numbers that are alike for places, and another for times."""


def extents(points: Points, axes: Axes) -> Float[np.ndarray, " unit"]:
    """The longest side of what was measured, of each kind of axis; one where there is none."""
    result = np.array([np.ptp(points[:, axes == one], axis=0).max() for one in np.unique(axes)])
    return np.where(result > 0, result, 1.0)


def trend(points: Points, axes: Axes, spread: float) -> Part:
    """A level, and slopes along the axes."""
    centred = 2 * (points - points.mean(axis=0)) / extents(points, axes)[axes]
    columns = TREND * spread * np.hstack([np.ones((len(points), 1)), centred])
    return Part("trend", lambda _: columns, columns.shape[1])


def process(name: str, points: Points, axes: Axes, spread: float) -> Part:
    """Matern 3/2, with an sd and a length for each kind of axis."""
    places, rows = np.unique(points, axis=0, return_inverse=True)
    reach = REACH * extents(points, axes)

    def columns(scales: Scales) -> Columns:
        own = np.append(spread * np.exp(scales[0]), (reach * np.exp(scales[1:]))[axes])
        return covariance_factor(with_scales(Matern32(1.0), own), places)[rows.reshape(-1)]

    return Part(name, columns, len(places), 1 + len(reach), np.ones(len(places)))


def levels(points: Points, spread: float) -> Part:
    """Of each place that was measured more than once."""
    _, place = np.unique(points, axis=0, return_inverse=True)
    own = np.eye(place.max() + 1)[place.reshape(-1)]
    return Part("levels", lambda scale: spread * np.exp(scale[0]) * own, own.shape[1], 1,
                np.ones(own.shape[1]))  # fmt: skip


def effects(design: Float[np.ndarray, "sensor effect"], spread: float) -> Part:
    """Of covariates, each in its own standard deviations."""
    scale = design.std(axis=0)
    columns = TREND * spread * (design - design.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return Part("effects", lambda _: columns, columns.shape[1])


def model_of(parts: Sequence[Part], values: Values, left: float) -> DataModel:
    """With noise of one sd, which is unknown."""

    def noise_sd(given: Scales) -> Values:
        return np.full(len(values), NUGGET * left * np.exp(NUGGET_SPREAD * given[0]))

    components = place_parts(parts, 1)
    num_scales = sum(part.num_scales for part in parts)
    num_columns = sum(part.num_columns for part in parts)
    centred = values - values.mean()
    return DataModel(components, centred, noise_sd, np.zeros(1, int), 1 + num_scales, num_columns)


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
    known = np.hstack([part.columns(np.zeros(0)) for part in shared])
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
    if mode is None:
        origin = np.zeros(model.num_others) if start is None else start
        mode = np.asarray(minimise(on_device(origin), model.cost, gain=ROUGH))
    spread = gaussian_spread(model.cost, on_device(mode))
    sample, _ = sample_hyperparameters(model.log_density, spread, mode, count // WEIGHED, seed)
    kept = sample.weights > NEGLIGIBLE
    return LikelyValues(sample.draws[kept], sample.weights[kept] / sample.weights[kept].sum())

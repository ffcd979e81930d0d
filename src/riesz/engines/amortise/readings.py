"""Data sets side by side: values, those of them that are missing, and noise of their own."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.observe.given import as_numbers
from riesz.observe.likelihood import AbstractLikelihood, AbstractNoise
from riesz.observe.observables import AtPoints
from riesz.observe.observations import Observations
from riesz.problem.posing import with_observations
from riesz.problem.problem import InverseProblem

AnyFloats = Float[Array | np.ndarray, "*data sensor"]


class Readings(eqx.Module):
    """What the sensors of one data set have told; of many, with a leading axis.

    Without `present` no value is missing, and without `noise_sd` noise is that of the problem.
    """

    values: AnyFloats
    present: Bool[Array | np.ndarray, "*data sensor"] | None = None
    noise_sd: AnyFloats | None = None

    def likelihood(self, likelihood: AbstractLikelihood) -> AbstractLikelihood:
        """That of a problem, with the noise of this data set."""
        if self.noise_sd is None:
            return likelihood
        return eqx.tree_at(lambda own: own.sd, likelihood, self.noise_sd)

    def log_prob(
        self, likelihood: AbstractLikelihood, predicted: Float[Array, " sensor"], z: PyTree
    ) -> Float[Array, ""]:
        """The log-density of the values that are there."""
        own = self.likelihood(likelihood)
        if self.present is None:
            return own.log_prob(jnp.asarray(self.values), predicted, z)
        each = jnp.asarray(own.distribution(predicted, z).log_prob(self.values))
        return jnp.sum(jnp.where(self.present, each, 0.0))


def as_readings(problem: InverseProblem, values: Any, noise_sd: Any = None) -> Readings:
    """Data sets as users give them, one a row, NaN where a value is missing."""
    found = as_numbers(values, "values")
    count = problem.observations.num_sensors
    if found.ndim != 2 or found.shape[1] != count:
        raise RieszError(
            f"the values of data sets have shape {found.shape}: give a row for each data set, with "
            f"a value for each of {count} sensors in the order of the problem's, and NaN where one "
            "is missing. For other sensors pose another problem."
        )
    present = ~np.isnan(found)
    check_there(found, present)
    sd = None if noise_sd is None else as_noise(problem, noise_sd, found.shape)
    if not present.all() and not problem.likelihood.is_independent:
        raise RieszError(
            f"{int(np.sum(~present))} values are missing, and noise that measurements share "
            f"({problem.likelihood.describe()}) cannot be told without them: fit such data sets "
            "one by one, without these sensors."
        )
    # Numbers that any noise can have, for the slopes of what is not counted.
    filled = np.where(present, found, np.asarray(problem.observed, float))
    for row in filled if present.all() else ():
        problem.likelihood.check_values(row)
    return Readings(filled, None if present.all() else present, sd)


def check_there(values: Float[np.ndarray, "data sensor"], present: Bool[np.ndarray, "..."]) -> None:
    bad = np.argwhere(np.isinf(values))
    if len(bad):
        raise RieszError(
            f"{len(bad)} observed values are infinite, first that of sensor {bad[0][1]} in data "
            f"set {bad[0][0]}: give numbers, or NaN where a value is missing."
        )
    empty = np.flatnonzero(~present.any(axis=1))
    if len(empty):
        raise RieszError(
            f"{len(empty)} of {len(values)} data sets have no value at all, first data set "
            f"{empty[0]}: leave them out."
        )


def as_noise(
    problem: InverseProblem, noise_sd: Any, shape: tuple[int, ...]
) -> Float[np.ndarray, "data sensor"]:
    """One for each value, from one for all, for each sensor or for each data set."""
    likelihood = problem.likelihood
    if not (isinstance(likelihood, AbstractNoise) and likelihood.is_independent):
        raise RieszError(
            f"noise_sd is for independent noise of an sd, and noise is {likelihood.describe()}: "
            "leave it out."
        )
    sd = as_numbers(noise_sd, "noise sds")
    if sd.shape == shape[:1] and shape[0] != shape[1]:
        sd = sd[:, None]
    try:
        sd = np.broadcast_to(sd, shape)
    except ValueError:
        raise RieszError(
            f"noise_sd has shape {sd.shape}: give one for all, one for each of {shape[1]} sensors, "
            f"one for each of {shape[0]} data sets, or {shape[0]} x {shape[1]} of them."
        ) from None
    if not (np.isfinite(sd).all() and (sd > 0).all()):
        raise RieszError("a noise_sd is not positive and finite: give standard deviations.")
    return np.ascontiguousarray(sd)


def posed_alone(problem: InverseProblem, observed: Readings, row: int) -> InverseProblem:
    """The problem of one data set, without the sensors that told nothing."""
    values, likelihood = np.asarray(observed.values)[row], problem.likelihood
    if observed.noise_sd is not None:
        own = on_device(np.asarray(observed.noise_sd)[row])
        likelihood = eqx.tree_at(lambda noise: noise.sd, likelihood, own)
    there = None if observed.present is None else np.asarray(observed.present)[row]
    if there is None or there.all():
        return dataclasses.replace(
            problem,
            observed=on_device(values, problem.forward.dtype),
            observations=dataclasses.replace(problem.observations, values=values),
            likelihood=likelihood,
        )
    if not isinstance(problem.observations.what, AtPoints):
        raise RieszError(
            f"data set {row} lacks {int(np.sum(~there))} values of what is more than the state at "
            "points: pose its problem without them, and fit that."
        )
    sd = getattr(likelihood, "sd", None)
    if isinstance(sd, Array | np.ndarray) and sd.ndim:
        fewer = on_device(np.asarray(sd)[there])
        likelihood = eqx.tree_at(lambda noise: noise.sd, likelihood, fewer)
    places = AtPoints(problem.observations.points[there])
    return with_observations(
        problem, Observations(places.points, values[there], places), likelihood
    )

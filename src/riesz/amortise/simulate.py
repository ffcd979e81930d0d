"""Data sets side by side, and such that a surrogate and a noise model make up.

A data set has values, some of which may be missing, and noise of its own. The surrogate is right
over the whole prior.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray, PyTree

from riesz.arrays import on_device
from riesz.density.reduced_basis import ReducedSensors
from riesz.density.surrogate.least_squares import LARGEST, gauss_newton_readout
from riesz.density.surrogate.start import (
    AnySurrogate,
    PatchSettings,
    default_penalty,
    initial_surrogate,
    surrogate_at_sensors,
)
from riesz.density.surrogate.surrogate import Surrogate, trajectory_over_prior
from riesz.errors import RieszError
from riesz.method.settings import Count
from riesz.observe.given import as_numbers
from riesz.observe.likelihood import AbstractLikelihood, AbstractNoise
from riesz.observe.observables import AtPoints
from riesz.observe.observations import Observations
from riesz.posterior.family import Draws, antithetic
from riesz.posterior.posterior import AbstractStateMap, ExactStates, SurrogateStates
from riesz.problem.posing import with_observations
from riesz.problem.problem import InverseProblem, in_precision

AnyFloats = Float[Array | np.ndarray, "*data sensor"]

Coordinates = Float[Array, " coordinate"]
Observed = Float[Array, " sensor"]
DataSets = Float[Array, "data sensor"]


class SensorData(eqx.Module):
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


def as_readings(problem: InverseProblem, values: Any, noise_sd: Any = None) -> SensorData:
    """Data sets as users give them, one a row, NaN where a value is missing."""
    result = as_numbers(values, "values")
    count = problem.observations.num_sensors
    if result.ndim != 2 or result.shape[1] != count:
        raise RieszError(
            f"the values of data sets have shape {result.shape}: give a row for each data set, "
            f"with a value for each of {count} sensors in the order of the problem's, and NaN "
            "where one is missing. For other sensors pose another problem."
        )
    present = ~np.isnan(result)
    check_any_present(result, present)
    sd = None if noise_sd is None else as_noise(problem, noise_sd, result.shape)
    if not present.all() and not problem.likelihood.is_independent:
        raise RieszError(
            f"{int(np.sum(~present))} values are missing, and noise that measurements share "
            f"({problem.likelihood.describe()}) cannot be told without them: fit such data sets "
            "one by one, without these sensors."
        )
    # Numbers that any noise can have, for the slopes of what is not counted.
    filled = np.where(present, result, np.asarray(problem.observed, float))
    for row in filled if present.all() else ():
        problem.likelihood.check_values(row)
    return SensorData(filled, None if present.all() else present, sd)


def check_any_present(
    values: Float[np.ndarray, "data sensor"], present: Bool[np.ndarray, "..."]
) -> None:
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


def single_problem(problem: InverseProblem, observed: SensorData, row: int) -> InverseProblem:
    """The problem of one data set, without the sensors that told nothing."""
    own = jax.tree.map(lambda leaf: np.asarray(leaf)[row], observed)
    values, there, likelihood = own.values, own.present, problem.likelihood
    if own.noise_sd is not None:
        likelihood = eqx.tree_at(lambda noise: noise.sd, likelihood, on_device(own.noise_sd))
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


def check_simulable(problem: InverseProblem) -> None:
    """Raise where data made up from the prior would not be like the observations."""
    num_censored = int(problem.censored.sum())
    if num_censored:
        raise RieszError(
            f"{num_censored} of {len(problem.observed)} observations are only known to lie below "
            "a limit, and below which limits the others would have been is not known: no data sets "
            "can be made up like these. Leave them out for that, or replace them by values."
        )


class Variety(NamedTuple):
    """How data sets differ beside their values: in those that are missing, and in their noise."""

    missing: float = 0.0  # the share that may be, at most
    noise_factor: float = 1.0  # by which an sd may be larger or smaller


class Simulator(eqx.Module):
    """The joint distribution of unknowns and observations; those of the problem are not read."""

    problem: InverseProblem
    surrogate: AnySurrogate | ReducedSensors

    def predict(self, coordinates: Coordinates) -> Observed:
        """What the sensors would see, without noise."""
        if isinstance(self.surrogate, ReducedSensors):
            return self.surrogate(self.problem, coordinates)
        return surrogate_at_sensors(self.problem, self.surrogate, coordinates)

    def states(self) -> AbstractStateMap:
        """Those that go with the unknowns; reduced ones are not kept, and solved for exactly."""
        if isinstance(self.surrogate, ReducedSensors):
            return ExactStates()
        return SurrogateStates(self.surrogate)

    def readings(
        self, key: PRNGKeyArray, num_data: int, variety: Variety
    ) -> tuple[Draws, SensorData]:
        """Unknowns from the prior, and observations of their states with noise, which may have
        other sds; values may be missing."""
        draw_key, noise_key, kind_key = jr.split(key, 3)
        size, dtype = self.problem.num_coordinates, self.problem.forward.dtype
        truths = jr.normal(draw_key, (num_data, size), dtype)

        def one(key, kind_key, truth):
            predicted, z = self.predict(truth), self.problem.z(truth)
            blank = vary_data(kind_key, self.problem, predicted, variety)
            values = blank.likelihood(self.problem.likelihood).sample(key, predicted, z)
            return dataclasses.replace(blank, values=values)

        keys = jr.split(noise_key, num_data), jr.split(kind_key, num_data)
        return truths, jax.vmap(one)(*keys, truths)

    def log_likelihood(
        self, observed: Observed | SensorData, coordinates: Coordinates
    ) -> Float[Array, ""]:
        """The log-density of a data set, given the unknowns."""
        data = observed if isinstance(observed, SensorData) else SensorData(observed)
        z = self.problem.z(coordinates)
        return data.log_prob(self.problem.likelihood, self.predict(coordinates), z)


def vary_data(
    key: PRNGKeyArray, problem: InverseProblem, values: Observed, variety: Variety
) -> SensorData:
    """Which values are missing, and the noise of the others: a share and a factor for all, and one
    for each sensor about them."""
    share_key, gap_key, factor_key, each_key = jr.split(key, 4)
    present, sd = None, None
    if variety.missing:
        share = variety.missing * jr.uniform(share_key, (), values.dtype)
        present = jr.uniform(gap_key, values.shape, values.dtype) >= share
    if variety.noise_factor > 1:
        # Half of the range for each, in logarithms.
        half = 0.5 * jnp.log(jnp.asarray(variety.noise_factor, values.dtype))
        common = jr.uniform(factor_key, (), values.dtype, -1, 1)
        each = jr.uniform(each_key, values.shape, values.dtype, -1, 1)
        sd = independent_noise_sd(problem, values.dtype) * jnp.exp(half * (common + each))
    return SensorData(values, present, sd)


def independent_noise_sd(problem: InverseProblem, dtype: DTypeLike) -> Observed:
    """The sd of independent noise, one for each sensor; raises where there is none."""
    sd = getattr(problem.likelihood, "sd", None)
    is_known = isinstance(sd, float | jax.Array) and problem.likelihood.is_independent
    if not (is_known and isinstance(problem.likelihood, AbstractNoise)):
        raise RieszError(
            "noise_factor is for independent noise of a known sd, and noise is "
            f"{problem.likelihood.describe()}: leave it out."
        )
    return jnp.broadcast_to(jnp.asarray(sd, dtype), (problem.observations.num_sensors,))


class PriorSurrogate(PatchSettings):
    """A surrogate for the whole prior, not for the surroundings of one posterior.

    By default as large as its readout can be solved for. (Training the functions before the
    readout gains nothing that more random ones do not give at less cost.) `gram` is the inner
    product behind the norm, for rough coefficients.
    """

    name: ClassVar[str] = "a surrogate over the prior"

    width: Count = 112
    features: Count = 52
    readout_batches: Count = 120  # of samples and patches in a solve
    num_solves: Count = 1  # Gauss-Newton steps of its readout; nonlinear equations need several


def surrogate_over_prior(
    problem: InverseProblem, sizes: PriorSurrogate, network_key: PRNGKeyArray, key: PRNGKeyArray
) -> AnySurrogate:
    """The surrogate fitted to the equation for unknowns from the prior, by Gauss-Newton steps; in
    time, to all steps."""
    if problem.time is not None:
        return trajectory_over_prior(problem, Surrogate(gram=sizes.gram), key)
    penalty, dtype = default_penalty(problem, sizes), problem.forward.dtype
    start = initial_surrogate(problem, network_key, width=sizes.width, features=sizes.features)
    if start.network.readout.size > LARGEST:
        raise RieszError(
            f"the readout of a surrogate with {sizes.features} features is too large to be solved "
            "for: ask for fewer features, or a smaller width."
        )
    _, readout_key = jr.split(key)
    size, count = problem.num_coordinates, sizes.readout_batches * sizes.num_samples
    # As for one surrogate: normal equations square the condition number, and need double precision.
    with jax.enable_x64(True):
        problem, penalty, result = in_precision((problem, penalty, start), jnp.float64)
        for one in jr.split(readout_key, sizes.num_solves):
            draw_key, patch_key = jr.split(one)
            draws = antithetic(draw_key, count, size, jnp.float64)
            batches = draws.reshape(sizes.readout_batches, sizes.num_samples, size)
            result = gauss_newton_readout(problem, penalty, result, patch_key, batches)
    return in_precision(result, dtype)

"""A surrogate that is right over the whole prior, and data sets made up by it and a noise model."""

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from riesz.engines.amortise.model import ReducedSensors
from riesz.engines.amortise.readings import Readings
from riesz.engines.base import Count
from riesz.engines.emulate.least_squares import applies_to, stepped_readout
from riesz.engines.emulate.start import (
    PatchSettings,
    at_sensors,
    default_penalty,
    initial_surrogate,
)
from riesz.errors import RieszError
from riesz.observe.likelihood import AbstractNoise
from riesz.posterior.family import Draws, antithetic
from riesz.posterior.posterior import AbstractStateMap, ExactStates, SurrogateStates
from riesz.prediction.predict import measured
from riesz.problem.problem import InverseProblem, in_precision
from riesz.surrogate.surrogate import Surrogate
from riesz.surrogate.trajectory import Trajectory

Coordinates = Float[Array, " coordinate"]
Observed = Float[Array, " sensor"]
DataSets = Float[Array, "data sensor"]


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
    surrogate: Surrogate | Trajectory | ReducedSensors

    def predicted(self, coordinates: Coordinates) -> Observed:
        """What the sensors would see, without noise."""
        if isinstance(self.surrogate, ReducedSensors):
            return self.surrogate(self.problem, coordinates)
        return at_sensors(self.problem, self.surrogate, coordinates)

    def states(self) -> AbstractStateMap:
        """Those that go with the unknowns; reduced ones are not kept, and solved for exactly."""
        if isinstance(self.surrogate, ReducedSensors):
            return ExactStates()
        return SurrogateStates(self.surrogate)

    def pairs(self, key: PRNGKeyArray, num_data: int) -> tuple[Draws, DataSets]:
        """Unknowns from the prior, and observations of their states with noise."""
        draw_key, noise_key = jr.split(key)
        size, dtype = self.problem.num_coordinates, self.problem.forward.dtype
        truths = jr.normal(draw_key, (num_data, size), dtype)
        return truths, jax.vmap(self.observed)(jr.split(noise_key, num_data), truths)

    def readings(
        self, key: PRNGKeyArray, num_data: int, variety: Variety
    ) -> tuple[Draws, Readings]:
        """The same with values missing and noise of other sds, as many data sets may have."""
        if variety == Variety():
            truths, values = self.pairs(key, num_data)
            return truths, Readings(values)
        draw_key, noise_key, kind_key = jr.split(key, 3)
        size, dtype = self.problem.num_coordinates, self.problem.forward.dtype
        truths = jr.normal(draw_key, (num_data, size), dtype)

        def one(key, kind_key, truth):
            predicted, z = self.predicted(truth), self.problem.z(truth)
            blank = varied(kind_key, self.problem, predicted, variety)
            values = blank.likelihood(self.problem.likelihood).sample(key, predicted, z)
            return dataclasses.replace(blank, values=values)

        keys = jr.split(noise_key, num_data), jr.split(kind_key, num_data)
        return truths, jax.vmap(one)(*keys, truths)

    def observed(self, key: PRNGKeyArray, coordinates: Coordinates) -> Observed:
        values = self.predicted(coordinates)
        return measured(key, self.problem, values, self.problem.z(coordinates))

    def log_likelihood(
        self, observed: Observed | Readings, coordinates: Coordinates
    ) -> Float[Array, ""]:
        """The log-density of a data set, given the unknowns."""
        told = observed if isinstance(observed, Readings) else Readings(observed)
        z = self.problem.z(coordinates)
        return told.log_prob(self.problem.likelihood, self.predicted(coordinates), z)


def varied(
    key: PRNGKeyArray, problem: InverseProblem, values: Observed, variety: Variety
) -> Readings:
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
        sd = known_sd(problem, values.dtype) * jnp.exp(half * (common + each))
    return Readings(values, present, sd)


def known_sd(problem: InverseProblem, dtype: DTypeLike) -> Observed:
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
) -> Surrogate:
    """The surrogate fitted to the equation for unknowns from the prior, by Gauss-Newton steps."""
    penalty, dtype = default_penalty(problem, sizes), problem.forward.dtype
    start = initial_surrogate(problem, network_key, width=sizes.width, features=sizes.features)
    if not applies_to(penalty, start):
        raise RieszError(
            f"the readout of a surrogate with {sizes.features} features is too large to be solved "
            "for: ask for fewer features, or a smaller width."
        )
    _, readout_key = jr.split(key)
    size, count = problem.num_coordinates, sizes.readout_batches * sizes.num_samples
    # As in `emulate`: normal equations square the condition number, and need double precision.
    with jax.enable_x64(True):
        problem, penalty, found = in_precision((problem, penalty, start), jnp.float64)
        for one in jr.split(readout_key, sizes.num_solves):
            draw_key, patch_key = jr.split(one)
            draws = antithetic(draw_key, count, size, jnp.float64)
            batches = draws.reshape(sizes.readout_batches, sizes.num_samples, size)
            found = stepped_readout(problem, penalty, found, patch_key, batches)
    return in_precision(found, dtype)

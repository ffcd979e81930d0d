r"""Measurements of a state that is affine in some unknowns: everything Gaussian, by algebra.

With the other unknowns $h$ held, the state at the sensors is $b(h) + R(h)\,c$ for standard normal
coordinates $c$ of sources and boundary values, and the data are normal with mean $b$ and covariance
$S = R R^\top + \Sigma$, with the covariance $\Sigma = L L^\top$ of the noise. What all are
multiplied by is $L^{-1}$, so that noise is independent and of sd one. $R$ costs one sparse
factorisation and a solve for each sensor or each coordinate, whichever are fewer.

Where a problem in time is linear in all its unknowns and its noise is known, the table of
$b + R\,c$ holds for all times of the axis, whether they were read or not. Readings are rows of it,
and new ones update the posterior without another solve.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from riesz.density.base import states_by
from riesz.density.marginal.points import (
    AbstractPointMap,
    TimePoints,
    at_points,
    map_unit_vectors,
    time_points,
)
from riesz.density.marginal.systems import AbstractDataSystem, ParameterSpace, data_system
from riesz.errors import RieszError
from riesz.fem.elements.space import point_operator
from riesz.fem.linear.linear_solve import Automatic, SparseLU
from riesz.observe.factors import AbstractFactor
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observables import AtPoints
from riesz.observe.observations import Observations
from riesz.posterior.density import AbstractGradientDensity
from riesz.posterior.family import EmpiricalDraws, full_rank_of
from riesz.posterior.posterior import MARGINAL, Posterior, check_unknown, engine_label
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.observation_in_time import readings
from riesz.problem.problem import InverseProblem

Linear = Float[Array, " linear"]
Others = Float[Array, " other"]

MAX_OTHERS = 64
"""Values of the unknowns that are not integrated out over which moments are averaged."""


class DataMap(NamedTuple):
    """What data scatter about: a constant part, and how it responds to each linear unknown."""

    offset: Float[Array, " sensor"]
    responses: Float[Array, "sensor linear"]


class MarginalDensity(AbstractGradientDensity):
    """The log-density of the other unknowns, the linear ones being integrated out."""

    problem: InverseProblem
    parts: Parts
    at: AbstractPointMap  # the sensors

    def log_likelihood(self, coordinates: Others) -> Float[Array, ""]:
        return self.system(coordinates).log_likelihood()

    def data(self, others: Others) -> DataMap:
        """For given values of the other unknowns."""
        offset, responses = affine_map(self.problem, self.parts, others, self.at)
        shift, by_unknown = affine_shift(self.problem, self.parts, others, offset)
        return DataMap(offset + shift, responses + by_unknown)

    def system(self, others: Others) -> AbstractDataSystem:
        return self.system_of(others, self.data(others))

    def system_of(self, others: Others, data: DataMap) -> AbstractDataSystem:
        """The same where the data's response is known."""
        noise, observed = self.noise(others), self.problem.observed
        # By one loop, where the noise has one.
        white = noise.white(jnp.column_stack([data.responses, observed - data.offset]))
        misfit = white[:, -1]
        return data_system(white[:, :-1], misfit, jnp.ones_like(misfit), noise.log_volume())

    def noise(self, others: Others) -> AbstractFactor:
        """A factor of its covariance."""
        problem, nothing = self.problem, jnp.zeros(len(self.parts.linear), others.dtype)
        z = self.parts.z(problem.latents, nothing, others)
        return problem.likelihood.factor(problem.observed, z)

    def explain(self, coordinates: Others, where: str) -> None:
        linear = jnp.zeros(len(self.parts.linear))
        self.problem.state(self.parts.together(linear, coordinates))
        raise RieszError(
            "the density of the unknowns that are not integrated out is not finite "
            f"where {where}: look for noise of zero, or priors that allow impossible coefficients."
        )


def affine_shift(
    problem: InverseProblem, parts: Parts, others: Others, like: Float[Array, " sensor"]
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor linear"]]:
    """What the data differ by from the state, such as effects of covariates: as `affine_map`."""
    origin = jnp.zeros(len(parts.linear), like.dtype)

    def shift(own: Float[Array, " shift"]) -> Float[Array, " sensor"]:
        z = parts.z(problem.latents, origin.at[parts.in_shift].set(own), others)
        return problem.likelihood.mean(jnp.zeros_like(like), z)

    own = origin[parts.in_shift]
    return shift(own), embed_responses(jax.jacfwd(shift)(own), parts.in_shift, len(origin))


def embed_responses(
    responses: Float[Array, "point some"], places: Int[Array, " some"], count: int
) -> Float[Array, "point linear"]:
    """Responses to some of the linear unknowns among those to all: there are none to the others."""
    return jnp.zeros((len(responses), count), responses.dtype).at[:, places].set(responses)


def affine_map(
    problem: InverseProblem, parts: Parts, others: Others, at: AbstractPointMap
) -> tuple[Float[Array, " point"], Float[Array, "point linear"]]:
    """The state at points: its constant part, and how it responds to each linear unknown."""
    forward = problem.forward
    origin = jnp.zeros(len(parts.linear), forward.dtype)
    zeros = jnp.zeros(forward.space.num_dofs, forward.dtype)
    table = at.tabulate(problem, parts)
    if table is not None:
        return table[0], embed_responses(table[1], parts.in_state, len(origin))
    # The matrix is that of any value of the linear unknowns; assembled once, it is solved often.
    result = at.linear_map(problem, parts.z(problem.latents, origin, others))

    def at_points(own: Float[Array, " state"]) -> Float[Array, " point"]:
        return result(parts.z(problem.latents, origin.at[parts.in_state].set(own), others))

    num_points, own = at.num_points(), origin[parts.in_state]
    if isinstance(at, TimePoints):
        # All at once along the one march: derivatives would be a second one beside it.
        units, steady = jnp.eye(len(own), dtype=own.dtype), np.array(at.steady, bool)
        together = at.num_together(problem)
        every = jnp.concatenate([own[None], units[~steady]])
        if len(every) <= together:
            values = jax.vmap(at_points)(every)
        else:
            values = jax.lax.map(at_points, every, batch_size=together)

        def of_steady(own: Float[Array, " state"]) -> Float[Array, " point"]:
            linear = origin.at[parts.in_state].set(own)
            return at.of_steady(problem, parts.z(problem.latents, linear, others))

        offset, responses = values[0], jnp.zeros((num_points, len(own)), own.dtype)
        responses = responses.at[:, ~steady].set((values[1:] - values[:1]).T)
        if steady.any():
            values = jax.vmap(of_steady)(jnp.concatenate([own[None], units[steady]]))
            responses = responses.at[:, steady].set((values[1:] - values[:1]).T)
    elif len(own) < num_points:
        offset, push = jax.linearize(at_points, own)
        responses = map_unit_vectors(push, len(own), zeros).T
    else:
        offset, pull = jax.vjp(at_points, own)
        responses = map_unit_vectors(lambda row: pull(row)[0], num_points, zeros)
    return offset, embed_responses(responses, parts.in_state, len(origin))


def unknown_map(
    problem: InverseProblem, parts: Parts, others: Others, name: str
) -> tuple[Float[Array, " value"], Float[Array, "value linear"]]:
    """The same of an unknown, of a field at the mesh nodes."""
    latent, part = problem.latents.latents[name], problem.latents.slices()[name]

    def show(linear: Linear) -> Float[Array, " value"]:
        own = parts.together(linear, others)[part]
        return jnp.ravel(latent.display_value(latent.entry(latent.value(own))))

    origin = jnp.zeros(len(parts.linear), problem.forward.dtype)
    return show(origin), jax.jacfwd(show)(origin)


class Mixture(NamedTuple):
    """The state at points is a mixture of normal distributions, one for each value of the others.

    The noise is that of a new measurement; where sensors have one each, its root mean square.
    """

    means: Float[np.ndarray, "part point"]
    sds: Float[np.ndarray, "part point"]
    noise: Float[np.ndarray, " part"]
    shares: Float[np.ndarray, " part"]  # they add up to one


class Moments(NamedTuple):
    """Of the state at points, and of a new measurement there; an unknown has no measurement."""

    mean: Float[np.ndarray, " point"]
    sd: Float[np.ndarray, " point"]
    measured_sd: Float[np.ndarray, " point"]


def conditional_moments(
    posterior: Posterior, at: ArrayLike | str, *, max_others: int = MAX_OTHERS
) -> Moments:
    """Of the state at points, one a row, or of an unknown by its name, where the linear
    unknowns were integrated out.

    A field is at the mesh nodes.

    Exact given the unknowns that were not integrated out; averaged over at most `max_others` of
    the posterior's values of these.
    """
    result = conditional_mixture(posterior, at, max_others=max_others)
    mean = result.shares @ result.means
    variance = result.shares @ (result.sds**2 + (result.means - mean) ** 2)
    measured = variance + result.shares @ result.noise**2
    return Moments(mean, np.sqrt(variance), np.sqrt(measured))


def conditional_mixture(
    posterior: Posterior, at: ArrayLike | str, *, max_others: int = MAX_OTHERS
) -> Mixture:
    """The distribution of the state at points itself."""
    drawn = posterior.distribution
    if posterior.density != MARGINAL or not isinstance(drawn, EmpiricalDraws):
        raise RieszError(
            f"the posterior is by {posterior.engine or 'no engine'}: these moments are of the "
            f"density {MARGINAL}; use predict."
        )
    parts = linear_parts(posterior.problem)
    others, shares = hyper_values(drawn, parts, max_others)
    return mixture_at(posterior.problem, parts, others, at)._replace(shares=shares)


def hyper_values(
    draws: EmpiricalDraws, parts: Parts, most: int, seed: int = 0
) -> tuple[Float[np.ndarray, "part other"], Float[np.ndarray, " part"]]:
    """Of unknowns that are not integrated out, each once, and how much each counts: many draws
    share them, and where all do, one part is all there is."""
    every = np.asarray(draws.all())[:, np.asarray(parts.others)]
    others, counts = np.unique(every, axis=0, return_counts=True)
    if len(others) > most:
        chosen = np.random.default_rng(seed).choice(len(others), most, replace=False)
        others, counts = others[chosen], counts[chosen]
    return others, counts / counts.sum()


def mixture_at(
    problem: InverseProblem,
    parts: Parts,
    others: Float[np.ndarray, "part other"],
    at: ArrayLike | str,
) -> Mixture:
    """The same for given values of the unknowns that are not integrated out, each alike."""
    if isinstance(at, str):
        check_unknown(problem, at)
        there = at
    elif problem.time is not None:
        raise RieszError("moments at points are of steady states: give rz.predict times=...")
    else:
        operator = point_operator(problem.forward.space, at, dtype=problem.forward.dtype)
        there = at_points(problem, operator, SparseLU())
    sensors = at_points(problem, problem.operator, SparseLU())
    result = mixture_of(problem, parts, jnp.asarray(others), sensors, there)
    means, sds, noise = map(np.asarray, result)
    return Mixture(means, sds, noise, np.full(len(others), 1 / len(others)))


@eqx.filter_jit
def mixture_of(
    problem: InverseProblem,
    parts: Parts,
    others: Float[Array, "part other"],
    sensors: AbstractPointMap,
    there: AbstractPointMap | str,
) -> tuple[Float[Array, "part point"], Float[Array, "part point"], Float[Array, " part"]]:
    """Means, sds and noise for each value of the other unknowns."""

    def one(own):
        system = MarginalDensity(problem, parts, sensors).system(own)
        if isinstance(there, str):
            offset, responses = unknown_map(problem, parts, own, there)
        else:
            offset, responses = affine_map(problem, parts, own, there)
        mean = offset + responses @ system.mean
        sd = jnp.sqrt(jnp.maximum(system.variances(responses), 0.0))
        held = parts.z(problem.latents, jnp.zeros(len(parts.linear), mean.dtype), own)
        noise = jnp.sqrt(jnp.mean(problem.noise_sd(held) ** 2))
        return mean, sd, jnp.zeros_like(noise) if isinstance(there, str) else noise

    return jax.lax.map(one, others)


ENGINE = engine_label("laplace", MARGINAL)


@dataclasses.dataclass(frozen=True, eq=False)
class Assimilation:
    """The posterior of all readings so far, and what new ones would say."""

    problem: InverseProblem
    offset: Float[np.ndarray, " record"]
    responses: Float[np.ndarray, "record coordinate"]
    system: ParameterSpace  # of these readings, in units of their noise

    def update(self, observed: Observations, likelihood: AbstractLikelihood) -> "Assimilation":
        """With further readings, at places that are known, at any times of the axis."""
        if not (likelihood.is_normal and likelihood.is_independent):
            raise RieszError(
                "readings that come in later need independent normal noise, and it is "
                f"{likelihood.describe()}: what they share with earlier ones is not kept. Begin "
                "anew with a problem of all readings."
            )
        return self.with_readings(observed, likelihood)

    def with_readings(
        self, observed: Observations, likelihood: AbstractLikelihood
    ) -> "Assimilation":
        place = place_of_readings(self.problem, observed)
        rows = readings(self.problem.in_time, observed, place, np.dtype(float))
        operator = rows.to_scipy()
        zeros = jnp.zeros(self.problem.num_coordinates)
        noise = likelihood.factor(jnp.asarray(observed.values), self.problem.z(zeros))
        misfit = observed.values - operator @ self.offset
        columns = np.column_stack([operator @ self.responses, misfit])
        white = np.asarray(noise.white(jnp.asarray(columns)))
        return dataclasses.replace(self, system=self.system.update(white[:, :-1], white[:, -1]))

    @property
    def num_readings(self) -> int:
        return len(self.system.misfit)

    def mean(self) -> Float[np.ndarray, " coordinate"]:
        return self.system.mean

    def posterior(self) -> Posterior:
        """Normal, and exact; its problem is that of the first readings."""
        covariance = self.system.solve(np.eye(self.problem.num_coordinates))
        factor = np.linalg.cholesky((covariance + covariance.T) / 2)
        family = full_rank_of(jnp.asarray(self.mean()), jnp.asarray(factor))
        states = states_by(Automatic())
        return Posterior(self.problem, family, states, {}, ENGINE, None, ())


def place_of_readings(problem: InverseProblem, observed: Observations) -> np.ndarray:
    """Which of the recorded places each reading is of."""
    known, what = problem.observations.what, observed.what
    if not (isinstance(known, AtPoints) and isinstance(what, AtPoints)):
        raise RieszError("readings that come in later must be of the state at points.")
    places = np.unique(known.points, axis=0).tolist()
    index = {tuple(place): number for number, place in enumerate(places)}
    result = np.array([index.get(tuple(point), -1) for point in what.points.tolist()])
    (unknown,) = np.nonzero(result < 0)
    if unknown.size:
        raise RieszError(
            f"{unknown.size} of {len(result)} readings are at places that nothing was recorded at, "
            f"first {what.points[unknown[0]].tolist()}: begin anew with a problem that has them."
        )
    return result


def assimilate(problem: InverseProblem) -> Assimilation:
    """The posterior of a linear problem in time, ready for readings that come in later.

    `.update(observations, likelihood)` takes them in without a solve, and `.posterior()` is the
    posterior of all.
    """
    at = time_points(problem, None, problem.default_solver())
    parts = linear_parts(problem)
    check_all_linear(problem, parts)
    offset, responses = response_table(problem, parts, at)
    size = problem.num_coordinates
    whole = np.zeros((len(offset), size))
    whole[:, np.asarray(parts.linear)] = responses
    nothing = ParameterSpace(np.zeros((0, size)), np.zeros(0), np.zeros(0))
    before = Assimilation(problem, np.asarray(offset), whole, nothing)
    return before.with_readings(problem.observations, problem.likelihood)


def check_all_linear(problem: InverseProblem, parts: Parts) -> None:
    if len(parts.others):
        names = [problem.latents.coordinate_names()[i] for i in np.asarray(parts.others)]
        raise RieszError(
            f"the state is not linear in {', '.join(names[:5])}: new readings would change the "
            "table itself. Hold them at known values, or fit anew."
        )


@eqx.filter_jit
def response_table(
    problem: InverseProblem, parts: Parts, at: TimePoints
) -> tuple[Float[Array, " record"], Float[Array, "record linear"]]:
    return affine_map(problem, parts, jnp.zeros(0, problem.forward.dtype), at)

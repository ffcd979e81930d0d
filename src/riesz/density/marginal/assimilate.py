r"""Readings as they come in: a posterior that new data update without another solve.

Where a problem in time is linear in all its unknowns and its noise is known, what sensors record is
$b + R\,c$ for standard normal coordinates $c$, at all times of the axis, whether they were read or
not. With this table at hand, readings are rows of it.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.density.base import states_by
from riesz.density.marginal.linear import affine_map
from riesz.density.marginal.points import TimePoints, time_points
from riesz.density.marginal.systems import ParameterSpace
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import Automatic
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observables import AtPoints
from riesz.observe.observations import Observations
from riesz.posterior.family import full_rank_of
from riesz.posterior.posterior import MARGINAL, Posterior, engine_label
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.observation_in_time import readings
from riesz.problem.problem import InverseProblem

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
        time = self.problem.in_time
        place = place_of_readings(self.problem, observed)
        known = (place, time.num_places, np.dtype(float))
        operator = readings(time.axis, observed, *known).to_scipy()
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
    places, what = recording_points(problem), observed.what
    if places is None or not isinstance(what, AtPoints):
        raise RieszError("readings that come in later must be of the state at points.")
    index = {tuple(place): number for number, place in enumerate(places.tolist())}
    result = np.array([index.get(tuple(point), -1) for point in what.points.tolist()])
    (unknown,) = np.nonzero(result < 0)
    if unknown.size:
        raise RieszError(
            f"{unknown.size} of {len(result)} readings are at places that nothing was recorded at, "
            f"first {what.points[unknown[0]].tolist()}: begin anew with a problem that has them."
        )
    return result


def recording_points(problem: InverseProblem) -> Float[np.ndarray, "place dim"] | None:
    what = problem.observations.what
    return np.unique(what.points, axis=0) if isinstance(what, AtPoints) else None


def assimilate(problem: InverseProblem) -> Assimilation:
    """The posterior of a linear problem in time, ready for readings that come in later.

    `.update(observations, likelihood)` takes them in without a solve, and `.posterior()` is the
    posterior of all.
    """
    if problem.time is None:
        raise RieszError("there is no time axis: readings that come in later need one.")
    parts = linear_parts(problem)
    check_all_linear(problem, parts)
    offset, responses = response_table(
        problem, parts, time_points(problem, None, problem.default_solver())
    )
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

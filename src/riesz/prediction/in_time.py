"""Predictions in time: states at dates and places under the posterior, also under other stresses.

Each draw of the unknowns is marched along the time axis anew, since what was recorded for the data
is of their places alone.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.fem.elements.space import Functionals, Operator, functionals
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.time.time_stepping import integrate_in_time
from riesz.observe.observables import rows_at as operator_at
from riesz.posterior.posterior import AbstractStateMap, Read
from riesz.problem.observation_in_time import time_rows
from riesz.problem.problem import InverseProblem


class Reading(eqx.Module):
    """Rows of what is recorded at some places, or at all nodes, at all times."""

    operator: Operator | None  # from a state to places; none: the nodes
    rows: Functionals
    num_places: int = eqx.field(static=True)

    def at_places(self, state: Float[Array, " dof"]) -> Float[Array, " place"]:
        return state[: self.num_places] if self.operator is None else self.operator @ state

    def of(self, recorded: Float[Array, "time place"]) -> Float[Array, " row"]:
        return self.rows @ recorded.ravel()

    def of_states(self, states: Float[Array, "time dof"]) -> Float[Array, " row"]:
        return self.of(jax.vmap(self.at_places)(states))


def reading(
    problem: InverseProblem,
    times: Any,
    at: ArrayLike | None = None,
    *,
    paired: bool = False,
    tolerance: float | None = None,
) -> Reading:
    """Of all places at each time, time by time; or `paired`, of each place at a time of its own."""
    if problem.time is None:
        raise RieszError("the equation is one of a steady state: use predict.")
    forward, axis = problem.forward, problem.time.axis
    operator = None if at is None else operator_at(forward, point_rows(at), tolerance)
    count = forward.space.mesh.num_nodes if at is None else len(point_rows(at))
    when = np.atleast_1d(axis.numbers(times, "times of predictions"))
    axis.locate_times(when, "times")  # raises where they are on no axis, as what they are
    place = np.arange(count)
    if not paired:
        when, place = np.repeat(when, count), np.tile(place, len(when))
    rows = functionals(time_rows(axis, when, place, count), forward.dtype)
    return Reading(operator, rows, count)


def point_rows(at: ArrayLike) -> Float[np.ndarray, "place dim"]:
    points = np.asarray(at, float)
    return points[:, None] if points.ndim == 1 else points


class TransientDraw(eqx.Module):
    """A march of its own for each draw; `measured` with the noise of a new measurement."""

    under: InverseProblem
    states: AbstractStateMap
    reading: Reading
    solver: AbstractLinearSolver
    measured: bool = eqx.field(static=True)

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
    ) -> Float[Array, "when place"]:
        reading = self.reading
        recorded = record_draw(
            jr.fold_in(key, 1), problem, self.states, z, self.under, reading.at_places, self.solver
        )
        values = reading.of(recorded).reshape(-1, reading.num_places)
        if not self.measured:
            return values
        return jnp.asarray(problem.likelihood.new(values, z).sample(key), values.dtype)


def record_draw(
    key: PRNGKeyArray,
    problem: InverseProblem,
    states: AbstractStateMap,
    z: PyTree,
    under: InverseProblem,
    read: Read,
    solver: AbstractLinearSolver,
) -> Float[Array, "time place"]:
    """What is read off the states of one draw at all times, with the stresses of `under`."""
    assert under.time is not None
    transient = under.time.transient(under.forward)
    result = integrate_in_time(
        transient, z, solver, transient.step.newton, lambda state, _: read(state)
    )
    recorded = jnp.where(jnp.all(result.solved), result.recorded, jnp.nan)
    beside = states.beside_the_march(problem, key, z, under, read, solver)
    return recorded if beside is None else recorded + beside

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
from riesz.mesh.grids import Grid
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
    at: ArrayLike | Grid | None = None,
    *,
    paired: bool = False,
    tolerance: float | None = None,
) -> Reading:
    """Of all places at each time, time by time; or `paired`, of each place at a time of its own."""
    if problem.time is None:
        raise RieszError("the equation is one of a steady state: leave the times out.")
    forward, axis = problem.forward, problem.time.axis
    mesh = forward.space.mesh
    points = None if at is None else point_rows(at, mesh.dim)
    operator = None if points is None else operator_at(forward, points, tolerance)
    count = mesh.num_nodes if points is None else len(points)
    when = np.atleast_1d(axis.numbers(times, "times of predictions"))
    axis.locate_times(when, "times")  # raises where they are on no axis, as what they are
    place = np.arange(count)
    if not paired:
        when, place = np.repeat(when, count), np.tile(place, len(when))
    rows = functionals(time_rows(axis, when, place, count), forward.dtype)
    return Reading(operator, rows, count)


def point_rows(at: ArrayLike | Grid, dim: int) -> Float[np.ndarray, "place dim"]:
    """One a row, also where a point is one number or only one was given."""
    points = np.asarray(at.points if isinstance(at, Grid) else at, float)
    return points[:, None] if points.ndim == dim == 1 else np.atleast_2d(points)


class TransientDraw(eqx.Module):
    """The states that are read of a draw, which has a march of its own."""

    under: InverseProblem
    states: AbstractStateMap
    reading: Reading
    solver: AbstractLinearSolver

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
    ) -> Float[Array, " row"]:
        parts = (jr.fold_in(key, 1), problem, self.states, z, self.under)
        return self.reading.of(record_draw(*parts, self.reading.at_places, self.solver))


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
    transient = under.in_time.transient(under.forward)
    result = integrate_in_time(
        transient, z, solver, transient.step.newton, lambda state, _: read(state)
    )
    recorded = jnp.where(jnp.all(result.solved), result.recorded, jnp.nan)
    beside = states.beside_the_march(problem, key, z, under, read, solver)
    return recorded if beside is None else recorded + beside

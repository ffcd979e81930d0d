"""What is read off a march: the state at places and times, between the ends of steps on a line."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.fem.elements.space import Functionals, Operator, functionals
from riesz.observe.observables import rows_at as operator_at
from riesz.problem.problem import InverseProblem
from riesz.problem.recording import rows_at


class Reading(eqx.Module):
    """Rows of what is recorded at some places, or at all nodes, at all times."""

    operator: Operator | None  # from a state to places; none: the nodes
    rows: Functionals
    num_places: int = eqx.field(static=True)

    def placed(self, state: Float[Array, " dof"], z: PyTree = None) -> Float[Array, " place"]:
        return state[: self.num_places] if self.operator is None else self.operator @ state

    def of(self, recorded: Float[Array, "time place"]) -> Float[Array, " row"]:
        return self.rows @ recorded.ravel()

    def of_states(self, states: Float[Array, "time dof"]) -> Float[Array, " row"]:
        return self.of(jax.vmap(self.placed)(states))


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
    operator = None if at is None else operator_at(forward, as_points(at), tolerance)
    count = forward.space.mesh.num_nodes if at is None else len(as_points(at))
    when = np.atleast_1d(axis.numbers(times, "times of predictions"))
    axis.located(when, "times")  # raises where they are on no axis, as what they are
    place = np.arange(count)
    if not paired:
        when, place = np.repeat(when, count), np.tile(place, len(when))
    rows = functionals(rows_at(axis, when, place, count), forward.dtype)
    return Reading(operator, rows, count)


def as_points(at: ArrayLike) -> Float[np.ndarray, "place dim"]:
    points = np.asarray(at, float)
    return points[:, None] if points.ndim == 1 else points

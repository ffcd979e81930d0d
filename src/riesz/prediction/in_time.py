"""Predictions in time: states at dates and places under the posterior, also under other stresses.

Each draw of the unknowns is marched along the time axis anew, since what was recorded for the data
is of their places alone.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.elements.space import Operator
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.solve import Newton
from riesz.fem.time.axis import TimeAxis
from riesz.fem.time.march import march
from riesz.fem.time.problem import TransientProblem
from riesz.observe.observables import rows_at
from riesz.posterior.posterior import Posterior, check_levels
from riesz.prediction.predict import drawn_chunks
from riesz.prediction.statistics import LEVELS, NUM_DRAWS, Prediction, check_thresholds, gathered
from riesz.problem.problem import InverseProblem


class Moments(eqx.Module):
    """Times between the ends of steps: the step, and how far along it."""

    step: Int[Array, " when"]
    share: Float[Array, " when"]

    def of(self, rows: Float[Array, "time place"]) -> Float[Array, "when place"]:
        share = self.share[:, None]
        return (1 - share) * rows[self.step] + share * rows[self.step + 1]


class StateAt(eqx.Module):
    """The state at a place, or at all nodes."""

    operator: Operator | None

    def __call__(self, state: Float[Array, " dof"], z: PyTree) -> Float[Array, " place"]:
        return state if self.operator is None else self.operator @ state


class Marched(eqx.Module):
    """A march of its own for each draw; `measured` with the noise of a new measurement."""

    transient: TransientProblem
    reader: StateAt
    moments: Moments
    solver: AbstractLinearSolver
    measured: bool = eqx.field(static=True)

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
    ) -> Float[Array, "when place"]:
        found = march(self.transient, z, self.solver, Newton(), self.reader)
        values = self.moments.of(jnp.where(jnp.all(found.solved), found.recorded, jnp.nan))
        if not self.measured:
            return values
        return jnp.asarray(problem.likelihood.new(values, z).sample(key), values.dtype)


def predict_in_time(
    posterior: Posterior,
    times: Any,
    at: ArrayLike | None = None,
    *,
    measured: bool = False,
    under: InverseProblem | None = None,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    quantiles: Sequence[float] = LEVELS,
    exceed: Sequence[float] = (),
    tolerance: float | None = None,
) -> Prediction:
    """Statistics of the state at times, a row each, at points or else at all nodes.

    `times` are numbers or dates on the axis, which may reach beyond the data: a forecast. With
    `measured` they are of new measurements there. `under` is a problem with the same unknowns and
    other stresses, wells or prescribed values: a scenario under this posterior.
    """
    check_levels(quantiles)
    check_thresholds(exceed)
    posed = posterior.problem if under is None else under
    if posed.time is None:
        raise RieszError("the equation is one of a steady state: use predict.")
    if under is not None:
        check_same_unknowns(posterior.problem, under)
    forward = posed.forward
    operator = None if at is None else rows_at(forward, as_points(at), tolerance)
    sampler = Marched(
        transient=posed.time.transient(forward),
        reader=StateAt(operator),
        moments=moments_at(posed.time.axis, times, forward.dtype),
        solver=posed.suited(),
        measured=measured,
    )
    chunks = drawn_chunks(posterior, sampler, num_draws, seed)
    return gathered(chunks, num_draws, quantiles, exceed)


def as_points(at: ArrayLike) -> Float[np.ndarray, "place dim"]:
    points = np.asarray(at, float)
    return points[:, None] if points.ndim == 1 else points


def moments_at(axis: TimeAxis, times: Any, dtype: np.dtype) -> Moments:
    numbers = np.atleast_1d(axis.numbers(times, "times of predictions"))
    step, share = axis.located(numbers, "times")
    return Moments(on_device(step, np.int32), on_device(share, dtype))


def check_same_unknowns(known: InverseProblem, other: InverseProblem) -> None:
    ours, theirs = (
        {name: one.num_coordinates for name, one in problem.latents.latents.items()}
        for problem in (known, other)
    )
    if ours != theirs:
        raise RieszError(
            f"a scenario has the unknowns {theirs or 'nothing'}, and the posterior {ours} (names "
            "and numbers of coordinates): they must be the same."
        )

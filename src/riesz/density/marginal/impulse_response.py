"""What sensors record of a system in time that does not change: one march backwards a place.

Where coefficients stay as they are and steps are equal, what a record at a time owes to a step
depends on how long ago that was, and on nothing else. The adjoint states of one reading, the last,
are then those of all earlier ones, moved in time; only a steady state to begin with is different.
Work grows with the number of places, not with that of readings.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from riesz.fem.assembly import dirichlet_values, free_residual, with_dirichlet
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.terms.series import TIME
from riesz.fem.time.fixed import Steps, has_fixed_matrix, solve_each, steps_of
from riesz.fem.time.problem import at_time
from riesz.fem.time.time_stepping import evaluate_initial_state
from riesz.problem.dependence import dependence
from riesz.problem.linearity import Parts, once_per_problem
from riesz.problem.observation_in_time import ObservationInTime
from riesz.problem.problem import InverseProblem

Own = Float[Array, " state"]


SOLVES = 3


"""Unknowns a place, from which on marches backwards, one a place, are the quicker ones."""


class StepSources(eqx.Module):
    """What unknowns are read by: the same side of all steps, the first state, prescribed values."""

    side: Float[Array, "*time free"]
    begun: Float[Array, "*time dof"]
    prescribed: Float[Array, "*time dof"]


def pays(problem: InverseProblem, num_unknowns: int) -> bool:
    """Whether this is the quicker way to the record, for so many unknowns; and a way at all."""
    time = problem.in_time
    is_fewer = num_unknowns > SOLVES * time.num_places
    return time.sensors.operator is not None and is_fewer and is_time_invariant(problem)


def is_time_invariant(problem: InverseProblem) -> bool:
    """Whether steps are equal, the matrix never changes, and time changes what no unknown does."""
    time = problem.in_time
    return time.axis.num_kinds == 1 and time_varying_unknowns(problem) == frozenset()


@once_per_problem
def time_varying_unknowns(problem: InverseProblem) -> frozenset[str] | None:
    """Unknowns whose part in right-hand sides changes in time; none is known where matrices do."""
    time = problem.in_time
    origin = problem.z(jnp.zeros(problem.num_coordinates, problem.forward.dtype))
    if not has_fixed_matrix(time.transient(problem.forward), origin):
        return None
    inputs = jax.eval_shape(lambda: at_time(origin, jnp.zeros(())))

    def needs(given: PyTree) -> tuple[Array, Array]:
        return sources_at(problem, given).side, dirichlet_values(problem.forward, given)

    meets = [pair for pair in dependence(needs, inputs).meets if TIME in pair]
    return frozenset(name for pair in meets for name in pair if name != TIME)


def steady_unknowns(problem: InverseProblem, parts: Parts) -> Bool[np.ndarray, " state"]:
    """Of unknowns in which the state is linear, those to which it responds alike at all times.

    So it does where it begins with a steady state, and what they do to the equation never changes.
    """
    time, changed = problem.in_time, time_varying_unknowns(problem)
    marked = np.zeros(problem.num_coordinates, bool)
    if time.initial is None and time.sensors.operator is not None and changed is not None:
        for name, part in problem.latents.slices().items():
            marked[part] = name not in changed
    return marked[np.asarray(parts.linear)[np.asarray(parts.in_state)]]


def sources_at(problem: InverseProblem, z: PyTree) -> StepSources:
    forward, time = problem.forward, problem.in_time
    prescribed = with_dirichlet(forward, jnp.zeros(forward.num_free, forward.dtype), z)
    begun = jnp.zeros_like(prescribed)
    if time.initial is not None:
        begun = evaluate_initial_state(forward, time.initial, z)
    return StepSources(-free_residual(forward, prescribed, z), begun, prescribed)


def impulse_response_table(
    problem: InverseProblem, parts: Parts, solver: AbstractLinearSolver
) -> Float[Array, "record state"]:
    """How the whole record responds to unknowns that are linear, and all there are."""
    time, forward = problem.in_time, problem.forward
    others = jnp.zeros(0, forward.dtype)
    origin = jnp.zeros(len(parts.linear), forward.dtype)

    def sides(own: Own) -> StepSources:
        z = parts.z(problem.latents, origin.at[parts.in_state].set(own), others)
        return sources_at(problem, time.first(z))

    steps = steps_of(time.transient(forward), parts.z(problem.latents, origin, others))
    _, pull = jax.vjp(sides, origin[parts.in_state])
    units = jnp.eye(time.num_places, dtype=forward.dtype)

    def of_place(unit: Float[Array, " place"]) -> Float[Array, "time state"]:
        cotangents = adjoint_sweep(
            steps, time.operator.transpose_product(unit), forward.free, solver, time
        )
        return jax.lax.map(lambda own: pull(own)[0], cotangents)

    rows = jax.lax.map(of_place, units)  # place, time, unknown
    return jnp.moveaxis(rows, 0, 1).reshape(-1, rows.shape[-1])


def adjoint_sweep(
    steps: Steps,
    reading: Float[Array, " dof"],
    free: Array,
    solver: AbstractLinearSolver,
    time: ObservationInTime,
) -> StepSources:
    """What a place's record at all times owes to sides, first state and prescribed values."""
    is_given, count, own = time.initial is not None, time.axis.num_steps, reading[free]
    first = 0 if is_given else 1  # the number of the first stage in time
    backwards = partial(solve_each, solver=solver, transposed=True)

    def further(side, _):
        """One step, from what is asked of its end to what that asks of its beginning."""
        later, total = (side, jnp.zeros_like(side)), jnp.zeros_like(side)
        for number in map(jnp.asarray, reversed(range(first, first + time.num_stages))):
            storage, _, weights = steps.row(number)
            result = backwards(steps.matrix(number), later[0][None])[0]
            back = storage.transpose_product(result)
            later = later[1] + weights.last * back, weights.before * back
            total = total + result
        return later[0], (later[0], total)

    _, (to_begun, totals) = jax.lax.scan(further, own, None, length=count)
    total = jnp.cumsum(totals, axis=0)
    whole = jnp.zeros((count + 1, len(reading)), reading.dtype)
    everywhere = jnp.broadcast_to(reading, whole.shape)
    if is_given:
        begun = whole.at[1:, free].set(to_begun).at[0].set(reading)
        at_first = jnp.zeros_like(own)[None]
        return StepSources(jnp.concatenate([at_first, total]), begun, everywhere.at[0].set(0.0))
    to_steady = jnp.concatenate([own[None], to_begun])
    of_steady = backwards(steps.matrix(jnp.asarray(0)), to_steady)
    return StepSources(of_steady.at[1:].add(total), whole, everywhere)

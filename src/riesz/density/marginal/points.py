r"""The state at points, as a function of what the equation and its boundary read.

Where the matrix of the equation depends on no unknown, as in $-\Delta u = f$, and the right-hand
side is affine in what `z` holds, the state at the points is affine in `z` and in the prescribed
values: a few matrices, for which one solve a point is enough, whatever the scales of the fields.

What sensors record of a system in time that does not change takes a march backwards for each place.
Where coefficients stay as they are and steps are equal, what a record at a time owes to a step
depends on how long ago that was, and on nothing else. The adjoint states of one reading, the last,
are then those of all earlier ones, moved in time; only a steady state to begin with is different.
Work grows with the number of places, not with that of readings.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from riesz.arrays import on_device
from riesz.fem.assembly import dirichlet_values, free_residual, jacobian, residual, with_dirichlet
from riesz.fem.elements.space import Operator
from riesz.fem.linear.host_lu import lu_solve
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.terms.series import TIME
from riesz.fem.time.fixed import Steps, has_fixed_matrix, solve_each, steps_of
from riesz.fem.time.problem import at_time
from riesz.fem.time.time_stepping import evaluate_initial_state, fits_all_at_once
from riesz.priors.fields import numbers_in
from riesz.priors.latent import ManyZ, Z
from riesz.problem.dependence import dependence
from riesz.problem.linearity import Parts, linear_parts, once_per_problem
from riesz.problem.observation_in_time import ObservationInTime
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import STATE

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
    time = problem.time
    if time is None or time.sensors.operator is None:
        return False
    return num_unknowns > SOLVES * time.num_places and is_time_invariant(problem)


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


NUMBERS_AT_ONCE = 500_000
"""In states that are solved for together; a gradient then takes some gigabytes."""

MARCHED_AT_ONCE = 1 << 22
"""In states at all times, where these are found together."""

Values = Float[Array, " point"]


class AbstractPointMap(eqx.Module):
    """How the state at some points is found."""

    @abstractmethod
    def linear_map(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
        """For all `z` that differ from this one in what enters linearly."""

    @abstractmethod
    def num_points(self) -> int: ...

    def tabulate(
        self, problem: InverseProblem, parts: Parts
    ) -> tuple[Values, Float[Array, "point state"]] | None:
        """At the origin, and how values respond to unknowns: where that is not by derivatives."""
        return None


class SteadyPoints(AbstractPointMap):
    """By a solve; the matrix is assembled once for values of the other unknowns."""

    operator: Operator
    solver: AbstractLinearSolver

    def linear_map(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
        forward = problem.forward
        zeros = jnp.zeros(forward.space.num_dofs, forward.dtype)
        matrix = jacobian(forward, zeros, z)

        def at_points(z: PyTree) -> Values:
            known = zeros.at[forward.fixed].set(dirichlet_values(forward, z))
            free = self.solver(matrix, -residual(forward, known, z)[forward.free])
            return self.operator @ known.at[forward.free].set(free)

        return at_points

    def num_points(self) -> int:
        return self.operator.num_rows


class TimePoints(AbstractPointMap):
    """By a march in time, of whose record these are rows, or all of it."""

    operator: Operator | None
    solver: AbstractLinearSolver
    num_rows: int = eqx.field(static=True)
    by_shifts: bool = eqx.field(static=True)
    steady: tuple[bool, ...] = eqx.field(static=True)  # responses that are alike at all times

    def linear_map(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
        time = problem.in_time
        return lambda z: self.read(time.solve(problem.forward, z, self.solver))

    def of_steady(self, problem: InverseProblem, z: PyTree) -> Values:
        """As if the steady state to begin with would never end."""
        time = problem.in_time
        return self.read(time.steady(problem.forward, z, self.solver))

    def num_together(self, problem: InverseProblem) -> int:
        """How many marches go together."""
        time, size = problem.in_time, problem.forward.space.num_dofs
        stages = time.num_stages * len(time.axis.times)
        if fits_all_at_once(self.solver, stages * size):
            return max(MARCHED_AT_ONCE // (stages * size), 1)
        return max(NUMBERS_AT_ONCE // size, 1)

    def read(self, record: Float[Array, " record"]) -> Values:
        return record if self.operator is None else self.operator @ record

    def num_points(self) -> int:
        return self.num_rows

    def tabulate(
        self, problem: InverseProblem, parts: Parts
    ) -> tuple[Values, Float[Array, "point state"]] | None:
        if not self.by_shifts:
            return None
        origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
        whole = impulse_response_table(problem, parts, self.solver)
        responses = jax.vmap(self.read, in_axes=1, out_axes=1)(whole)
        return self.read(problem.solve(origin, self.solver)), responses


class TabulatedPoints(AbstractPointMap):
    """By matrices that no unknown changes."""

    origin: Z  # a z
    offset: Values  # there, with prescribed values of zero
    by_prescribed: Float[Array, "point fixed"]
    by_value: dict[
        str, Float[Array, "point value"]
    ]  # of z, by the unknowns that the equation reads

    def linear_map(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
        def at_points(z: PyTree) -> Values:
            result = self.offset + self.by_prescribed @ dirichlet_values(problem.forward, z)
            for name, matrix in self.by_value.items():
                result = result + matrix @ (numbers_in(z[name]) - numbers_in(self.origin[name]))
            return result

        return at_points

    def num_points(self) -> int:
        return len(self.offset)


def at_points(
    problem: InverseProblem, operator: Operator, solver: AbstractLinearSolver
) -> AbstractPointMap:
    """Tabulated where that is exact."""
    if problem.time is not None:
        return time_points(problem, operator, solver)
    names = directly_read_unknowns(problem)
    if names is None:
        return SteadyPoints(operator, solver)
    origin = latent_origin(problem)
    return TabulatedPoints(origin, *tables(problem, origin, names, operator, solver))


def time_points(
    problem: InverseProblem, operator: Operator | None, solver: AbstractLinearSolver
) -> TimePoints:
    """Rows of the record, or all of it, in the way that takes fewer solves."""
    time, parts = problem.in_time, linear_parts(problem)
    count = time.num_recorded if operator is None else operator.num_rows
    is_linear = not len(parts.others)
    by_shifts = is_linear and count > time.num_places and pays(problem, len(parts.in_state))
    steady = tuple(steady_unknowns(problem, parts).tolist())
    return TimePoints(operator, solver, count, by_shifts, steady)


@once_per_problem
def point_map_at_sensors(problem: InverseProblem) -> AbstractPointMap:
    """At the places of the data, by LU: asked for by whoever compares models and by the engine."""
    return at_points(problem, problem.operator, SparseLU())


def latent_origin(problem: InverseProblem) -> Z:
    zeros = on_device(np.zeros(problem.num_coordinates), problem.forward.dtype)
    return eqx.filter_jit(type(problem.latents).z)(problem.latents, zeros)


def tables(
    problem: InverseProblem,
    origin: Z,
    names: tuple[str, ...],
    operator: Operator,
    solver: AbstractLinearSolver,
) -> tuple[Values, Float[Array, "point fixed"], dict[str, Float[Array, "point value"]]]:
    """The state at points and its derivatives by prescribed values and by `z`, by adjoints.

    The solves stand between two programs: a program that calls the host back cannot be kept for
    the next run.
    """
    forward = problem.forward
    matrix = jacobian(forward, on_device(np.zeros(forward.space.num_dofs), forward.dtype), origin)
    rows = operator.to_scipy().toarray().astype(forward.dtype)
    sides = rows[:, np.asarray(forward.free)]
    if isinstance(solver, SparseLU):
        pattern = matrix.pattern
        parts = (matrix.values, pattern.columns, pattern.row_starts, sides)
        adjoints = on_device(lu_solve(*parts, transposed=True), forward.dtype)
    else:
        adjoints = jax.vmap(lambda side: solver.raw_solve(matrix, side, transposed=True))(
            on_device(sides)
        )
    offset, by_state, by_z = pull_back(problem, origin, names, adjoints)
    by_prescribed = (np.asarray(by_state) + rows)[:, np.asarray(forward.fixed)]
    by_value = {name: jax.vmap(numbers_in)(one) for name, one in by_z.items()}
    return offset, on_device(by_prescribed), by_value


@eqx.filter_jit
def pull_back(
    problem: InverseProblem, origin: Z, names: tuple[str, ...], adjoints: Float[Array, "point free"]
) -> tuple[Values, Float[Array, "point dof"], ManyZ]:
    """What residuals do at the points: of the origin, and by the state and `z`."""
    forward = problem.forward
    zeros = jnp.zeros(forward.space.num_dofs, forward.dtype)

    def residuals(state: Float[Array, " dof"], own: PyTree) -> Float[Array, " free"]:
        return -residual(forward, state, origin | own)[forward.free]

    result, pull = jax.vjp(residuals, zeros, {name: origin[name] for name in names})
    if adjoints.shape[0] * len(zeros) <= NUMBERS_AT_ONCE:
        by_state, by_z = jax.vmap(pull)(adjoints)
    else:
        together = max(NUMBERS_AT_ONCE // len(zeros), 1)
        by_state, by_z = jax.lax.map(pull, adjoints, batch_size=together)
    return adjoints @ result, by_state, by_z


def map_unit_vectors(
    function: Callable[[Float[Array, " size"]], Any], size: int, state: Float[Array, " dof"]
) -> Any:
    """A linear function of each unit vector: all together, or some at a time.

    In the latter case what gradients need is computed again, not kept.
    """
    units = jnp.eye(size, dtype=state.dtype)
    if size * len(state) <= NUMBERS_AT_ONCE:
        return jax.vmap(function)(units)
    together = max(NUMBERS_AT_ONCE // len(state), 1)
    return jax.lax.map(jax.checkpoint(function), units, batch_size=together)


@once_per_problem
def directly_read_unknowns(problem: InverseProblem) -> tuple[str, ...] | None:
    """Unknowns that the equation reads, where it is affine in the state and all of them together.

    That is said of what `z` holds, such as a field at the nodes, not of how it came to be.
    """
    state = jax.ShapeDtypeStruct((problem.forward.space.num_dofs,), problem.forward.dtype)
    values = jax.eval_shape(
        lambda: problem.z(jnp.zeros(problem.num_coordinates, problem.forward.dtype))
    )

    def needs(given: dict[str, Any]) -> Any:
        return residual(problem.forward, given[STATE], given)

    result = dependence(needs, {STATE: state, **values})
    if result.meets:
        return None
    return tuple(name for name in problem.latents.names if name in result.reads)

r"""The state at points, as a function of what the equation and its boundary read.

Where the matrix of the equation depends on no unknown, as in $-\Delta u = f$, and the right-hand
side is affine in what `z` holds, the state at the points is affine in `z` and in the prescribed
values: a few matrices, for which one solve a point is enough, whatever the scales of the fields.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from riesz.arrays import on_device
from riesz.density.marginal.impulse_response import impulse_response_table, pays, steady_unknowns
from riesz.fem.assembly import dirichlet_values, jacobian, residual
from riesz.fem.elements.space import Operator
from riesz.fem.linear.host_lu import lu_solve
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.time.time_stepping import fits_all_at_once
from riesz.priors.fields import numbers_in
from riesz.priors.latent import ManyZ, Z
from riesz.problem.dependence import dependence
from riesz.problem.linearity import Parts, linear_parts, once_per_problem
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import STATE

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

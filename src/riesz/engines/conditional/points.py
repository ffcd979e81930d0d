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

from riesz.fem.assembly import dirichlet_values, jacobian, residual
from riesz.fem.elements.space import Operator
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.dependence import dependence
from riesz.problem.linearity import once_per_problem
from riesz.problem.problem import STATE, InverseProblem

NUMBERS_AT_ONCE = 500_000
"""In states that are solved for together; a gradient then takes some gigabytes."""

Values = Float[Array, " point"]


class AbstractAtPoints(eqx.Module):
    """How the state at some points is found."""

    @abstractmethod
    def given(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
        """For all `z` that differ from this one in what enters linearly."""

    @abstractmethod
    def num_points(self) -> int: ...


class Solved(AbstractAtPoints):
    """By a solve; the matrix is assembled once for values of the other unknowns."""

    operator: Operator
    solver: AbstractLinearSolver

    def given(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
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


class Tabulated(AbstractAtPoints):
    """By matrices that no unknown changes."""

    origin: dict[str, Array]  # a z
    offset: Values  # there, with prescribed values of zero
    by_prescribed: Float[Array, "point fixed"]
    by_value: dict[
        str, Float[Array, "point value"]
    ]  # of z, by the unknowns that the equation reads

    def given(self, problem: InverseProblem, z: PyTree) -> Callable[[PyTree], Values]:
        def at_points(z: PyTree) -> Values:
            found = self.offset + self.by_prescribed @ dirichlet_values(problem.forward, z)
            for name, matrix in self.by_value.items():
                found = found + matrix @ jnp.ravel(z[name] - self.origin[name])
            return found

        return at_points

    def num_points(self) -> int:
        return len(self.offset)


def at_points(
    problem: InverseProblem, operator: Operator, solver: AbstractLinearSolver
) -> AbstractAtPoints:
    """Tabulated where that is exact."""
    names = read_as_they_are(problem)
    if names is None:
        return Solved(operator, solver)
    origin = origin_of(problem)
    return Tabulated(origin, *tables(problem, origin, names, operator, solver))


def origin_of(problem: InverseProblem) -> dict[str, Array]:
    zeros = jnp.asarray(np.zeros(problem.num_coordinates, problem.forward.dtype))
    return eqx.filter_jit(type(problem.latents).z)(problem.latents, zeros)


@eqx.filter_jit
def tables(
    problem: InverseProblem,
    origin: dict[str, Array],
    names: tuple[str, ...],
    operator: Operator,
    solver: AbstractLinearSolver,
) -> tuple[Values, Float[Array, "point fixed"], dict[str, Float[Array, "point value"]]]:
    """The state at points and its derivatives by prescribed values and by `z`, by adjoints."""
    forward = problem.forward
    zeros = jnp.zeros(forward.space.num_dofs, forward.dtype)
    matrix = jacobian(forward, zeros, origin)

    def at_points(prescribed: Float[Array, " fixed"], own: PyTree) -> Values:
        known = zeros.at[forward.fixed].set(prescribed)
        free = solver(matrix, -residual(forward, known, origin | own)[forward.free])
        return operator @ known.at[forward.free].set(free)

    none = jnp.zeros(len(forward.fixed), forward.dtype)
    offset, pull = jax.vjp(at_points, none, {name: origin[name] for name in names})
    by_prescribed, by_z = some_at_once(pull, len(offset), zeros)
    count = len(offset)
    return offset, by_prescribed, {name: rows.reshape(count, -1) for name, rows in by_z.items()}


def some_at_once(
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
def read_as_they_are(problem: InverseProblem) -> tuple[str, ...] | None:
    """Unknowns that the equation reads, where it is affine in the state and all of them together.

    That is said of what `z` holds, such as a field at the nodes, not of how it came to be.
    """
    state = jax.ShapeDtypeStruct((problem.forward.space.num_dofs,), problem.forward.dtype)
    values = jax.eval_shape(
        lambda: problem.z(jnp.zeros(problem.num_coordinates, problem.forward.dtype))
    )

    def asked(given: dict[str, Any]) -> Any:
        return residual(problem.forward, given[STATE], given)

    found = dependence(asked, {STATE: state, **values})
    if found.meets:
        return None
    return tuple(name for name in problem.latents.names if name in found.reads)

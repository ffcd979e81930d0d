"""How the log-posterior of an equation in time bends, by derivatives through its march.

A direction goes forwards along the time axis, and what it changes in the data backwards. The whole
state of all times, as one vector with one matrix, would be too large to be treated like a steady
one; what stands in for it is the record that sensors make.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.problem.problem import Coordinates, InverseProblem

Record = Float[Array, " record"]


def misfit(problem: InverseProblem, coordinates: Coordinates, record: Record) -> Float[Array, ""]:
    """Minus the log-likelihood of a record."""
    return -problem.log_likelihood(coordinates, record)


def cost(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> Float[Array, ""]:
    return misfit(problem, coordinates, problem.solved(coordinates, solver))


def cost_and_slope(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> tuple[Float[Array, ""], Coordinates]:
    """Of minus the log-likelihood; a NaN cost where there is no solution."""

    return jax.value_and_grad(lambda own: cost(problem, own, solver))(coordinates)


def action_in_time(
    problem: InverseProblem,
    coordinates: Coordinates,
    solver: AbstractLinearSolver,
    second: Float[Array, ""],
) -> Callable[[Coordinates], Coordinates]:
    """The data's part of the Hessian; `second` derivatives of the record count if it is not zero.

    Without them it is never negative where noise is normal and known, as Gauss and Newton had it.
    """
    record, pushed = jax.linearize(lambda own: problem.solved(own, solver), coordinates)
    pushed_back = jax.linear_transpose(pushed, coordinates)
    _, turned = jax.linearize(
        jax.grad(lambda own, seen: misfit(problem, own, seen), argnums=(0, 1)), coordinates, record
    )

    def bent(direction: Coordinates) -> Coordinates:
        # Forwards within, backwards outside: a loop that was turned around once has forgotten
        # what the derivatives of its steps are.
        def along(own: Coordinates) -> Float[Array, ""]:
            return jax.jvp(lambda one: cost(problem, one, solver), (own,), (direction,))[1]

        return jax.grad(along)(coordinates)

    def gauss_newton(direction: Coordinates) -> Coordinates:
        by_unknowns, by_record = turned(direction, pushed(direction))
        return by_unknowns + pushed_back(by_record)[0]

    def action(direction: Coordinates) -> Coordinates:
        return jax.lax.cond(jnp.all(second > 0), bent, gauss_newton, direction)

    return action

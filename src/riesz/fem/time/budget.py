"""What goes where over a run in time: budgets of its steps, added up."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.assembly import Budget, budget, with_dirichlet
from riesz.fem.default_solver import choose_solver
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.time.problem import TransientProblem, at_time, with_history
from riesz.fem.time.scheme import SCHEMES, num_stages, stage_times, weights_of
from riesz.fem.time.time_stepping import root_from


def budget_in_time(
    problem: TransientProblem,
    states: Float[Array, "time dof"],
    z: Any = None,
    *,
    region: str | None = None,
) -> Budget:
    """Amounts over the whole run, of a region of cells or of all, where `states` are all of it.

    What `storage` gains is what is taken out of it: less than nothing where it fills up.
    """
    axis, scheme, shares = problem.axis, problem.scheme, SCHEMES[problem.scheme].shares
    times = stage_times(jnp.asarray(axis.times, problem.dtype), scheme)
    weights, total = weights_of(axis, scheme, problem.dtype), None
    every = stage_states(problem, states, z, choose_solver(problem.step))
    for number in range(len(times) - 1):
        own = jax.tree.map(lambda row, n=number: row[n], weights)
        past = own.last * every[number] + own.before * every[max(number - 1, 0)]
        stage = with_history(problem.step, own.now, past)
        result = budget(stage, every[number + 1], at_time(z, times[number + 1]), region=region)
        step, place = divmod(number, len(shares))
        length = shares[place] * axis.steps[step]
        result = jax.tree.map(lambda rate, length=length: length * rate, result)
        total = result if total is None else jax.tree.map(jnp.add, total, result)
    assert total is not None  # an axis has one step at least
    return total


@eqx.filter_jit
def stage_states(
    problem: TransientProblem,
    states: Float[Array, "time dof"],
    z: Any,
    solver: AbstractLinearSolver,
) -> Float[Array, "stage dof"]:
    """With what lies between the ends of steps: a first stage, which is a step of Euler's."""
    step, count = problem.step, num_stages(problem.scheme)
    if count == 1:
        return states
    times = stage_times(jnp.asarray(problem.axis.times, problem.dtype), problem.scheme)
    rates = weights_of(problem.axis, problem.scheme, problem.dtype).now

    def first(given):
        last, time, rate = given
        then, own = at_time(z, time), with_history(step, rate, rate * last)
        values, _ = root_from(own, then, solver, step.newton, last[step.free])
        return with_dirichlet(step, values, then)

    between = jax.lax.map(first, (states[:-1], times[1::count], rates[::count]))
    both = jnp.stack([between, states[1:]], axis=1).reshape(-1, states.shape[1])
    return jnp.concatenate([states[:1], both])

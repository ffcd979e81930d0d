"""What goes where over a run in time: budgets of its steps, added up."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.fem.flux import Budget, budget
from riesz.fem.time.problem import TransientProblem, at_time, weights_of, with_history


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
    times = jnp.asarray(problem.axis.times, problem.dtype)
    weights, total = weights_of(problem.axis, problem.scheme, problem.dtype), None
    for number, length in enumerate(problem.axis.steps):
        own = jax.tree.map(lambda row, n=number: row[n], weights)
        past = own.last * states[number] + own.before * states[max(number - 1, 0)]
        step = with_history(problem.step, own.now, past)
        then = at_time(z, times[number + 1])
        found = jax.tree.map(
            lambda rate, length=length: length * rate,
            budget(step, states[number + 1], then, region=region),
        )
        total = found if total is None else jax.tree.map(jnp.add, total, found)
    assert total is not None  # an axis has one step at least
    return total

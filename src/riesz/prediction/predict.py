"""Predictions: statistics of any quantity under the posterior, from draws in chunks."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.fem.places import Places, places, states_at
from riesz.mesh.grid import Grid
from riesz.observe.effects import design_elsewhere
from riesz.posterior.family import Draws
from riesz.posterior.posterior import Posterior, check_levels, representative
from riesz.prediction.quantity import Quantity, quantity_named
from riesz.prediction.statistics import (
    LEVELS,
    NUM_DRAWS,
    Prediction,
    check_thresholds,
    gathered,
)
from riesz.problem.dependence import dependence
from riesz.problem.problem import InverseProblem

CHUNK_NUMBERS = 4_000_000
"""States and predicted values that are held at once on the device, as numbers."""

Sampler = Callable[[PRNGKeyArray, InverseProblem, Float[Array, " node"], PyTree], Any]
"""A quantity that may also draw: `sampler(key, problem, state, z)`."""


class Plain(eqx.Module):
    """A quantity that draws nothing of its own."""

    quantity: Quantity

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> Any:
        return self.quantity(problem, state, z)


class Measured(eqx.Module):
    """A new measurement at each point, or at each sensor: the state with noise."""

    where: Places | None
    design: Float[Array, "point effect"] | None = None

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> Float[Array, " point"]:
        if self.where is None:
            return measured(key, problem, problem.predicted(state, z), z)
        there = states_at(problem.forward, self.where, state, z)
        likelihood = problem.likelihood
        there = likelihood.elsewhere(there, z, self.design)
        return jnp.asarray(likelihood.new(there, z).sample(key), there.dtype)


def measured(
    key: PRNGKeyArray, problem: InverseProblem, values: Float[Array, " point"], z: PyTree
) -> Float[Array, " point"]:
    """Values with noise of the likelihood's kind."""
    return problem.likelihood.sample(key, values, z)


def predict(
    posterior: Posterior,
    quantity: str | Quantity,
    at: ArrayLike | Grid | None = None,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    quantiles: Sequence[float] = LEVELS,
    exceed: Sequence[float] = (),
    tolerance: float | None = None,
) -> Prediction:
    """Statistics of a quantity: "u", an unknown's name, "flux", or a function (problem, state, z).

    `at` holds points, one a row, or a grid; without it the state and fields are given at the mesh
    nodes, fluxes on the cells, and numbers as they are. `exceed` lists values whose probability
    of being exceeded is wanted. Points may lie outside the domain by `tolerance`, a length.
    """
    where = located(posterior.problem, at, tolerance)
    if isinstance(quantity, str):
        quantity = quantity_named(posterior.problem, quantity, where)
    elif at is not None:
        raise RieszError("a function of (problem, state, z) knows its places: leave `at` out.")
    return statistics(posterior, Plain(quantity), at, num_draws, seed, quantiles, exceed)


def new_measurements(
    problem: InverseProblem,
    at: ArrayLike | Grid | None,
    design: ArrayLike | None = None,
    tolerance: float | None = None,
) -> Measured:
    """At points, a row of covariates each, or at the sensors."""
    where = located(problem, at, tolerance)
    if where is None:
        return Measured(None)
    points = at.points if isinstance(at, Grid) else np.atleast_2d(np.asarray(at, float))
    found = design_elsewhere(problem.likelihood, design, len(points))
    return Measured(where, None if found is None else jnp.asarray(found))


def quantity_draws(
    posterior: Posterior,
    sampler: Sampler,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    numbers: int | None = None,
) -> PyTree[np.ndarray]:
    """All draws of a small quantity, or of a dictionary of them: the first axis counts draws.

    Where a quantity reads the state and has so many numbers at most, it need not be traced to
    find that out.
    """
    chunks = list(drawn_chunks(posterior, sampler, num_draws, seed, numbers))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *chunks)


def located(
    problem: InverseProblem, at: ArrayLike | Grid | None, tolerance: float | None
) -> Places | None:
    if at is None:
        return None
    return places(problem.forward, at.points if isinstance(at, Grid) else at, tolerance=tolerance)


def statistics(
    posterior: Posterior,
    sampler: Sampler,
    at: ArrayLike | Grid | None,
    num_draws: int,
    seed: int,
    quantiles: Sequence[float],
    exceed: Sequence[float],
) -> Prediction:
    """Statistics over draws, on the grid where one was given."""
    check_levels(quantiles)
    check_thresholds(exceed)
    chunks = drawn_chunks(posterior, sampler, num_draws, seed)
    found = gathered(chunks, num_draws, quantiles, exceed)
    return jax.tree.map(at.filled, found) if isinstance(at, Grid) else found


def drawn_chunks(
    posterior: Posterior,
    sampler: Sampler,
    num_draws: int,
    seed: int,
    numbers: int | None = None,
) -> Iterator[PyTree[np.ndarray]]:
    """Draws of a quantity, a chunk at a time; all chunks have one shape, to compile once."""
    coordinate_key, state_key = jr.split(jr.key(seed))
    coordinates = representative(posterior, coordinate_key, num_draws)
    num_draws = len(coordinates)
    problem, states = posterior.problem, posterior.states
    wanted = True
    if numbers is None:
        numbers = num_numbers(problem, sampler, coordinates)
        wanted = reads_state(problem, sampler, coordinates)
    size = chunk_size(num_draws, numbers)
    for number, start in enumerate(range(0, num_draws, size)):
        rows = np.minimum(np.arange(start, start + size), num_draws - 1)
        key = jr.fold_in(state_key, number)
        own, now = coordinates[rows], jr.split(key)
        z = problem.latents.of_draws(own)
        found = states.from_outside(problem, now[0], own, z) if wanted else no_states(problem, size)
        values = of_chunk(problem, sampler, now[1], z, found)
        yield jax.tree.map(lambda leaf, left=num_draws - start: np.asarray(leaf)[:left], values)


def reads_state(problem: InverseProblem, sampler: Sampler, coordinates: Draws) -> bool:
    """Whether a quantity depends on the state: to solve for one that nobody reads takes minutes."""
    inputs = {
        "state": jax.ShapeDtypeStruct((num_values(problem),), problem.forward.dtype),
        "z": unknowns_like(problem, coordinates),
    }

    def of_draw(given: dict[str, Any]) -> Any:
        return jax.tree.map(jnp.asarray, sampler(jr.key(0), problem, given["state"], given["z"]))

    return "state" in dependence(of_draw, inputs).reads


def no_states(problem: InverseProblem, count: int) -> Float[Array, "draw node"]:
    return jnp.zeros((count, num_values(problem)), problem.forward.dtype)


def num_values(problem: InverseProblem) -> int:
    """Of the state, in all experiments; in time, of what was recorded."""
    if problem.time is not None:
        return problem.time.num_recorded
    return len(problem.forwards) * problem.forward.space.num_dofs


def unknowns_like(problem: InverseProblem, coordinates: Draws) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and types of what one draw stands for."""
    own = jax.ShapeDtypeStruct((coordinates.shape[1],), coordinates.dtype)
    # Not the bound method: JAX would compare the whole problem, array by array.
    return jax.eval_shape(lambda own: problem.z(own), own)  # noqa: PLW0108


@eqx.filter_jit
def of_chunk(
    problem: InverseProblem,
    sampler: Sampler,
    key: PRNGKeyArray,
    z: dict[str, Float[Array, " draw *value"]],
    states: Float[Array, "draw node"],
) -> PyTree[Array]:
    """The quantity for each of some draws."""
    keys = jr.split(key, len(states))

    def of_draw(own: PRNGKeyArray, z: PyTree, state: Float[Array, " node"]):
        return jax.tree.map(jnp.asarray, sampler(own, problem, state, z))

    # One after the other: several factorisations of many matrices at a time have been seen to wait
    # for each other forever, on two cores.
    return jax.lax.map(lambda own: of_draw(*own), (keys, z, states))


def num_numbers(problem: InverseProblem, sampler: Sampler, coordinates: Draws) -> int:
    """In one draw of a quantity, and of the state that it is of."""
    size = num_values(problem)
    state = jax.ShapeDtypeStruct((1, size), problem.forward.dtype)
    z = unknowns_like(problem, coordinates)
    z = {name: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype) for name, leaf in z.items()}
    one = eqx.filter_eval_shape(of_chunk, problem, sampler, jr.key(0), z, state)
    return max(size, sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(one)))


def chunk_size(num_draws: int, numbers: int) -> int:
    """As many draws as fit at once, in chunks of nearly equal size."""
    fitting = max(CHUNK_NUMBERS // numbers, 1)
    return math.ceil(num_draws / math.ceil(num_draws / fitting))

"""Draws of any quantity under the posterior, in chunks.

In time, states at dates and places, also under other stresses, take a march of each draw of the
unknowns along the time axis: what was recorded for the data is of their places alone.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.fem.elements.space import Functionals, Operator, functionals
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.mesh.grids import Grid
from riesz.observe.effects import WithEffects
from riesz.observe.observables import rows_at as operator_at
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AbstractStateMap, Posterior, representative_draws
from riesz.prediction.quantity import Quantity
from riesz.prediction.statistics import NUM_DRAWS
from riesz.priors.latent import Z
from riesz.problem.dependence import dependence
from riesz.problem.observation_in_time import time_rows
from riesz.problem.problem import InverseProblem
from riesz.progress import progress_bar

CHUNK_NUMBERS = 4_000_000
"""States and predicted values that are held at once on the device, as numbers."""

MOST_TOGETHER = 32
"""Draws that are marched together."""

Sampler = Callable[[PRNGKeyArray, InverseProblem, Float[Array, " node"], PyTree], Any]
"""A quantity that may also draw: `sampler(key, problem, state, z)`."""


def without_key(quantity: Quantity, key: PRNGKeyArray, *given: Any) -> Any:
    """A quantity that draws nothing of its own."""
    return quantity(*given)


class Corrected(eqx.Module):
    """A state, and what the mesh misses of it: the same at all draws, but for a share."""

    state: Sampler
    added: Float[np.ndarray, " row"]
    unknown: float  # the sd of that share

    def __call__(self, key: PRNGKeyArray, *given: Any) -> Float[Array, " row"]:
        there, share = self.state(key, *given), 1 + self.unknown * jr.normal(jr.fold_in(key, 2))
        return there + (share * self.added).astype(there.dtype)


class NewMeasurement(eqx.Module):
    """A new measurement wherever the state is told: with effects of covariates, and with noise."""

    state: Sampler
    design: Float[np.ndarray, "point effect"] | None

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> Float[Array, " point"]:
        likelihood, there = problem.likelihood, self.state(key, problem, state, z)
        effects = likelihood.main
        if isinstance(effects, WithEffects) and effects.local is not None:
            raise RieszError(
                "what neighbours share is drawn elsewhere for noise that says how it scatters on "
                f"the host: give {type(effects.base).__name__} a property "
                "`observation_distribution`."
            )
        if isinstance(effects, WithEffects) and self.design is not None:
            there = there + jnp.asarray(self.design, there.dtype) @ z[effects.name]
        return jnp.asarray(likelihood.new(there, z).sample(key), there.dtype)


def measure_at_sensors(
    key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
) -> Float[Array, " sensor"]:
    return problem.likelihood.sample(key, problem.predict(state, z), z)


def quantity_draws(
    posterior: Posterior,
    sampler: Sampler,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    numbers: int | None = None,
    progress: bool = False,
) -> PyTree[np.ndarray]:
    """All draws of a small quantity, or of a dictionary of them: the first axis counts draws.

    Where a quantity reads the state, in time what it marches to itself, and has so many numbers at
    most, it need not be traced to find that out.
    """
    with progress_bar(progress) as shown:
        task, chunks = shown.add_task("draws", total=num_draws, terms=""), []
        for chunk in draw_chunks(posterior, sampler, num_draws, seed, numbers):
            chunks.append(chunk)
            shown.update(task, advance=len(jax.tree.leaves(chunk)[0]))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *chunks)


def draw_chunks(
    posterior: Posterior,
    sampler: Sampler,
    num_draws: int,
    seed: int,
    numbers: int | None = None,
) -> Iterator[PyTree[np.ndarray]]:
    """Draws of a quantity, a chunk at a time; all chunks have one shape, to compile once."""
    coordinate_key, state_key = jr.split(jr.key(seed))
    coordinates = representative_draws(posterior, coordinate_key, num_draws)
    num_draws = len(coordinates)
    problem, states = posterior.problem, posterior.states
    wanted = problem.time is None
    if numbers is None:
        numbers, wanted = trace_sampler(problem, sampler, coordinates)
    together = num_sharing(problem, coordinates)
    size = together * chunk_size(num_draws // together, together * numbers)
    nothing = jnp.zeros((size, problem.record.num_recorded), problem.forward.dtype)
    for number, start in enumerate(range(0, num_draws, size)):
        rows = np.minimum(np.arange(start, start + size), num_draws - 1)
        key = jr.fold_in(state_key, number)
        own, now = coordinates[rows], jr.split(key)
        z = problem.latents.entries(problem.latents.of_draws(own))
        result = states.from_outside(problem, now[0], own, z) if wanted else nothing
        shared, own = split_shared(z, together)
        keys = jr.split(now[1], size).reshape(-1, together)
        values = of_chunk(problem, sampler, keys, shared, own, result)
        yield jax.tree.map(lambda leaf, left=num_draws - start: np.asarray(leaf)[:left], values)


def trace_sampler(
    problem: InverseProblem, sampler: Sampler, coordinates: Draws
) -> tuple[int, bool]:
    """Numbers in one draw of a quantity, and of the state that it is of; and whether it depends on
    the state: to solve for one that nobody reads takes minutes."""
    size = problem.record.num_recorded
    own = jax.ShapeDtypeStruct((coordinates.shape[1],), coordinates.dtype)
    # Not the bound method: JAX would compare the whole problem, array by array.
    z = jax.eval_shape(lambda own: problem.z(own), own)  # noqa: PLW0108
    inputs = {"state": jax.ShapeDtypeStruct((size,), problem.forward.dtype), "z": z}

    def of_draw(given: dict[str, Any]) -> Any:
        return jax.tree.map(jnp.asarray, sampler(jr.key(0), problem, given["state"], given["z"]))

    shapes = jax.tree.leaves(jax.eval_shape(of_draw, inputs))
    numbers = sum(math.prod(one.shape) for one in shapes)
    return max(size, numbers), "state" in dependence(of_draw, inputs).reads


def num_sharing(problem: InverseProblem, coordinates: Draws) -> int:
    """How many draws in a row differ in some unknowns alone: in time they are marched together.

    So are those on the density `marginal` for values of the unknowns that are not integrated out.
    """
    if problem.time is None:
        return 1
    rows = np.asarray(coordinates)
    count = len(rows)
    changes = (rows[1:] != rows[:-1]).sum(axis=0)
    seldom = changes < count - 1
    if not seldom.any() or seldom.all():
        return 1
    starts = np.flatnonzero((rows[1:, seldom] != rows[:-1, seldom]).any(axis=1)) + 1
    result = int(np.gcd.reduce(np.append(starts, count)))
    return max(size for size in range(1, MOST_TOGETHER + 1) if result % size == 0)


def split_shared(z: Z, together: int) -> tuple[Z, Z]:
    """What so many draws in a row share, once for each block of them; and the rest, by blocks."""
    shared, own = {}, {}
    for name, entry in z.items():
        blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, together, *leaf.shape[1:]), entry)
        first = jax.tree.map(lambda leaf: leaf[:, 0], blocks)
        alike = jax.tree.map(lambda leaf: bool(jnp.all(leaf == leaf[:, :1])), blocks)
        is_shared = together > 1 and all(jax.tree.leaves(alike))
        (shared if is_shared else own)[name] = first if is_shared else blocks
    return shared, own


@eqx.filter_jit
def of_chunk(
    problem: InverseProblem,
    sampler: Sampler,
    keys: Key[Array, "block together"],
    shared: Z,
    own: Z,
    states: Float[Array, "draw node"],
) -> PyTree[Array]:
    """The quantity for each of some draws, blocks of which have some unknowns in common."""

    def of_draw(key: PRNGKeyArray, own: PyTree, state: Float[Array, " node"], shared: PyTree):
        return jax.tree.map(jnp.asarray, sampler(key, problem, state, shared | own))

    def of_block(given: Any) -> PyTree[Array]:
        keys, shared, own, states = given
        if len(keys) == 1:
            key, own, state = jax.tree.map(lambda leaf: leaf[0], (keys, own, states))
            return jax.tree.map(lambda leaf: leaf[None], of_draw(key, own, state, shared))
        return jax.vmap(of_draw, in_axes=(0, 0, 0, None))(keys, own, states, shared)

    # One after the other: several factorisations of many matrices at a time have been seen to wait
    # for each other forever, on two cores. A block has one.
    blocks = states.reshape(*keys.shape, -1)
    result = jax.lax.map(of_block, (keys, shared, own, blocks))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), result)


def chunk_size(num_draws: int, numbers: int) -> int:
    """As many draws as fit at once, in chunks of nearly equal size."""
    fitting = max(CHUNK_NUMBERS // numbers, 1)
    return math.ceil(num_draws / math.ceil(num_draws / fitting))


class Reading(eqx.Module):
    """Rows of what is recorded at some places, or at all nodes, at all times."""

    operator: Operator | None  # from a state to places; none: the nodes
    points: Float[np.ndarray, "place dim"] | None
    rows: Functionals
    num_places: int = eqx.field(static=True)

    def at_places(self, state: Float[Array, " dof"]) -> Float[Array, " place"]:
        return state[: self.num_places] if self.operator is None else self.operator @ state

    def of(self, recorded: Float[Array, "time place"]) -> Float[Array, " row"]:
        return self.rows @ recorded.ravel()

    def of_shift(self, added: Float[np.ndarray, "time place"]) -> Float[np.ndarray, " row"]:
        """What is read of something that is added to states at the places."""
        return np.asarray(self.rows.to_scipy() @ added.ravel())

    def of_states(self, states: Float[Array, "time dof"]) -> Float[Array, " row"]:
        return self.of(jax.vmap(self.at_places)(states))


def reading(
    problem: InverseProblem,
    times: Any,
    at: ArrayLike | Grid | None = None,
    *,
    paired: bool = False,
    tolerance: float | None = None,
) -> Reading:
    """Of all places at each time, time by time; or `paired`, of each place at a time of its own."""
    forward, axis = problem.forward, problem.in_time.axis
    mesh = forward.space.mesh
    points = None if at is None else point_rows(at, mesh.dim)
    operator = None if points is None else operator_at(forward, points, tolerance)
    count = mesh.num_nodes if points is None else len(points)
    when = np.atleast_1d(axis.numbers(times, "times of predictions"))
    axis.locate_times(when, "times")  # raises where they are on no axis, as what they are
    place = np.arange(count)
    if not paired:
        when, place = np.repeat(when, count), np.tile(place, len(when))
    rows = functionals(time_rows(axis, when, place, count), forward.dtype)
    return Reading(operator, points, rows, count)


def point_rows(at: ArrayLike | Grid, dim: int) -> Float[np.ndarray, "place dim"]:
    """One a row, also where a point is one number or only one was given."""
    points = np.asarray(at.points if isinstance(at, Grid) else at, float)
    return points[:, None] if points.ndim == dim == 1 else np.atleast_2d(points)


class TransientDraw(eqx.Module):
    """The states that are read of a draw, which has a march of its own."""

    under: InverseProblem
    states: AbstractStateMap
    reading: Reading
    solver: AbstractLinearSolver

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
    ) -> Float[Array, " row"]:
        how = (self.under, self.reading.at_places, self.solver)
        return self.reading.of(self.states.record_in_time(problem, jr.fold_in(key, 1), z, *how))

"""Can functions of place make the states at all? Tried on exact ones before a long training.

Of states at draws of the prior those that fit the data best are as rough as those of the posterior.
Their best approximation in the energy norm is what no fit of the functions can better.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.emulate.least_squares import LARGEST, factorised, fitting_split, splits
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian
from riesz.fem.choice import expected_seconds
from riesz.posterior.family import Draws
from riesz.posterior.posterior import ExactStates
from riesz.problem.linearity import once_per_problem
from riesz.problem.problem import InverseProblem
from riesz.surrogate.networks import with_more_features
from riesz.surrogate.surrogate import Surrogate

NUM_DRAWS, NUM_KEPT = 256, 32

BUDGET = 60.0
"""Seconds of solving beyond which fewer draws are made; without twice those kept, no test is."""

LARGEST_GAP = 0.5
"""Standard deviations of the noise by which the best approximation of most states may be off."""

RIDGE = 1e-12


@once_per_problem
def passed(problem: InverseProblem) -> set[tuple[int, ...]]:
    """Sizes that could make the states of a problem: they need not be tried for each seed."""
    return set()


def check_capacity(
    problem: InverseProblem, surrogate: Surrogate, num_bends: int, key: PRNGKeyArray
) -> None:
    """Raise where as many functions as there can be do not make the states."""
    draw_key, feature_key = jr.split(key)
    seconds = expected_seconds(problem.forward, problem.suited())
    count = min(NUM_DRAWS, int(BUDGET / seconds))
    if count < 2 * NUM_KEPT:
        return
    draws = jr.normal(draw_key, (count, problem.num_coordinates), problem.forward.dtype)
    states = ExactStates().in_parts(problem, draws)
    fits = np.asarray(log_likelihoods(problem, draws, jnp.asarray(states)))
    best = np.argsort(np.where(np.isfinite(fits), -fits, np.inf))[:NUM_KEPT]
    best = best[np.isfinite(fits[best])]
    if not len(best):  # what is wrong with the equation, its own solves will tell
        return
    largest = grown_most(surrogate, num_bends, feature_key)
    gaps = best_gaps(problem, largest, draws[best], states[best])
    gap = float(np.median(gaps))
    if gap > LARGEST_GAP:
        count = factorised(largest).readout.shape[1]
        raise RieszError(
            f"emulate cannot make the states of this problem: {count} functions of place, all "
            f"there is room for with {problem.num_coordinates} unknowns, leave {gap:.2g} standard "
            f"deviations of the noise at the sensors, at their best, of exact states that fit the "
            f"data; more than {LARGEST_GAP:g} is too much. Use laplace, or sample."
        )


@eqx.filter_jit
def log_likelihoods(
    problem: InverseProblem, draws: Draws, states: Float[Array, "draw node"]
) -> Float[Array, " draw"]:
    return jax.lax.map(lambda pair: problem.log_likelihood(*pair), (draws, states))


def grown_most(surrogate: Surrogate, num_bends: int, key: PRNGKeyArray) -> Surrogate:
    """With as many functions of place as rounds may end with: twice as many while there is room."""
    network = factorised(surrogate)
    candidates = splits(np.asarray(network.linear), np.asarray(network.others), num_bends)
    count = network.readout.shape[1]
    while 2 * count * fitting_split(candidates, count).num_hidden <= LARGEST:
        count *= 2
    return dataclasses.replace(surrogate, network=with_more_features(network, count, key))


def best_gaps(
    problem: InverseProblem,
    surrogate: Surrogate,
    draws: Draws,
    states: Float[np.ndarray, "draw node"],
) -> Float[np.ndarray, " draw"]:
    """Root mean squares at the sensors, by noise, of what the functions leave of each state."""
    forward, free = problem.forward, np.asarray(problem.forward.free)
    functions, lifted = (np.asarray(one) for one in at_nodes(problem, surrogate, draws))
    z = problem.z(draws[0])
    matrix = jacobian(forward, jnp.asarray(states[0]), z).to_scipy()
    wanted, basis = (states - lifted)[:, free], functions[free]
    images = (matrix + matrix.T) @ basis
    normal = basis.T @ images
    normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) / len(normal)
    left = wanted - np.linalg.solve(normal, images.T @ wanted.T).T @ basis.T
    seen = problem.operator.to_scipy()[:, free] @ left.T
    white = jax.vmap(lambda gap, one: problem.whitened(gap, problem.z(one)))
    return np.sqrt(np.mean(np.asarray(white(jnp.asarray(seen.T), draws)) ** 2, axis=1))


@eqx.filter_jit
def at_nodes(
    problem: InverseProblem, surrogate: Surrogate, draws: Draws
) -> tuple[Float[Array, "node feature"], Float[Array, "draw node"]]:
    """The functions of place, times the boundary factor, and the lifting of each draw."""
    network, boundary = factorised(surrogate), surrogate.boundary
    nodes = problem.forward.cells.domain.nodes.T
    features = jax.vmap(lambda x: network.features(surrogate.frame.inside(x)))(nodes)
    columns = boundary.functions.values
    lifted = columns[None, :, 1] + draws[:, boundary.moving] @ columns[:, 2:].T
    return columns[:, :1] * features, lifted

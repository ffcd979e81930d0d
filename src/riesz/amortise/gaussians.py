r"""Gaussian posteriors of many data sets at once, with one model that is right over the prior.

The best full-rank Gaussian has $\Sigma^{-1} = I - E_q[\nabla^2 \log p(y \mid \xi)]$ and a mean at
which $E_q[\nabla \log p(y \mid \xi)] = m$ (Opper & Archambeau 2009). Steps of Newton's method on
these equations, all data sets side by side; as in rounds of a surrogate the first steps give the
data a part of their weight, so that q shrinks from the prior in steps that it can follow.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from riesz.amortise.simulate import Coordinates, SensorData, Simulator
from riesz.density.reduced_basis import ReducedSensors
from riesz.density.surrogate.variational import match_normals
from riesz.devices import num_at_once
from riesz.posterior.family import Draws, FullRank, full_rank_of

NUM_DRAWS = 16
"""Of q in a step; matched in mean and covariance, so that quadratic log-likelihoods are exact. Few
will do, as weights follow."""

NUM_STEPS = 30
STILL = 1e-4
"""Standard deviations of q: where a step is no longer than this, there are no more."""

FIRST_EXPONENT, EXPONENT_GROWTH = 10.0, 4.0
"""At first the best informed direction shrinks about to 1 / sqrt(1 + 10) of the prior."""

REACH = 2.0
"""Standard deviations of q that a step may go."""

GOES_ROUND, SLOWEST = 0.7, 0.125
"""Where a step is longer than this part of the last one, the next ones go half as far, but no
less than an eighth: on bent posteriors whole steps may go to and fro for ever."""

SURROGATE_NUMBERS = 10_000
"""What a surrogate holds of one draw at the sensors, roughly."""


class GaussianSearch(eqx.Module):
    """What all data sets have in common."""

    simulator: Simulator
    normals: Draws
    width: int = eqx.field(static=True)  # data sets that a device works on together
    together: int = eqx.field(static=True)  # and draws, at once


def gaussian_search(simulator: Simulator, seed: int) -> GaussianSearch:
    """From sizes and a seed alone."""
    size, dtype = simulator.problem.num_coordinates, simulator.problem.forward.dtype
    numbers = hessian_numbers(simulator)
    width = num_at_once(NUM_DRAWS * numbers)
    together = num_at_once(width * numbers, NUM_DRAWS)
    normals = match_normals(jr.key(seed), NUM_DRAWS, size, dtype)
    return GaussianSearch(simulator, normals, width, together)


def hessian_numbers(simulator: Simulator) -> int:
    """What a device holds for the curvature at one draw, roughly."""
    own, size = simulator.surrogate, simulator.problem.num_coordinates
    if isinstance(own, ReducedSensors):
        return own.num_modes * (own.num_modes + 4 * size)
    return SURROGATE_NUMBERS * size


def fit_by_newton(sought: GaussianSearch, observed: SensorData, start: Coordinates) -> FullRank:
    """Newton's method for one data set, until it stands still."""
    simulator, normals = sought.simulator, sought.normals

    def derivatives_at(draws: Draws):
        return expected_derivatives(simulator, observed, draws, sought.together)

    identity = jnp.eye(len(start), dtype=start.dtype)
    most = jnp.linalg.eigvalsh(derivatives_at(start[None, :] + normals)[1])[-1]
    first = jnp.minimum(1.0, FIRST_EXPONENT / most)

    def share_of(number):
        return jnp.minimum(1.0, first * EXPONENT_GROWTH**number)

    def goes_on(state):
        _, _, number, length, _ = state
        is_still = (length <= STILL) & (share_of(number - 1) >= 1)
        return (number < NUM_STEPS) & ~is_still

    def step(state):
        mean, factor, number, before, pace = state
        share = share_of(number)
        slope, information = derivatives_at(mean[None, :] + normals @ factor.T)
        precision = identity + share * information
        change = jnp.linalg.solve(precision, share * slope - mean)
        length = jnp.linalg.norm(solve_triangular(factor, change, lower=True))
        was_whole = (share_of(number - 1) >= 1) & (before <= REACH)
        is_going_round = was_whole & (length > GOES_ROUND * before)
        pace = jnp.where(is_going_round, jnp.maximum(pace / 2, SLOWEST), pace)
        mean = mean + change * jnp.minimum(pace, REACH / length)
        # In between, precisions are mixed, not covariances: q is to shrink as its mean moves.
        there = jnp.linalg.inv(factor @ factor.T)
        covariance = jnp.linalg.inv(pace * precision + (1 - pace) * there)
        return mean, jnp.linalg.cholesky(covariance), number + 1, length, pace

    zero, far = jnp.zeros((), start.dtype), jnp.full((), jnp.inf, start.dtype)
    first_state = (start, identity, zero, far, jnp.ones((), start.dtype))
    mean, factor, *_ = jax.lax.while_loop(goes_on, step, first_state)
    return full_rank_of(mean, factor)


def expected_derivatives(
    simulator: Simulator, observed: SensorData, draws: Draws, together: int
) -> tuple[Coordinates, Float[Array, "n n"]]:
    """The expected slope of the log-likelihood, and its expected curvature, never below zero."""

    def one(draw: Coordinates):
        return gradient_and_curvature(simulator, observed, draw)

    if together >= len(draws):
        slopes, curvatures = jax.vmap(one)(draws)
    else:
        slopes, curvatures = jax.lax.map(one, draws, batch_size=together)
    slope, curvature = jnp.mean(slopes, axis=0), -jnp.mean(curvatures, axis=0)
    values, axes = jnp.linalg.eigh((curvature + curvature.T) / 2)
    return slope, (axes * jnp.maximum(values, 0.0)[None, :]) @ axes.T


def gradient_and_curvature(
    simulator: Simulator, observed: SensorData, place: Coordinates
) -> tuple[Coordinates, Float[Array, "n n"]]:
    """Of the log-likelihood. By a reduced equation, second derivatives of what sensors see are
    left out (as Gauss and Newton did): weights make up for that, and they would cost the most."""
    if not isinstance(simulator.surrogate, ReducedSensors):

        def twice(place: Coordinates):
            slope = jax.grad(simulator.log_likelihood, argnums=1)(observed, place)
            return slope, slope

        curvature, slope = jax.jacfwd(twice, has_aux=True)(place)
        return slope, curvature
    problem = simulator.problem
    seen, slopes = simulator.surrogate.with_slopes(problem, place)

    def log_likelihood(both: Float[Array, " sensor_and_coordinate"]) -> Float[Array, ""]:
        predicted, own = both[: len(seen)], both[len(seen) :]
        return observed.log_prob(problem.likelihood, predicted, problem.z(own))

    chain = jnp.concatenate([slopes, jnp.eye(len(place), dtype=place.dtype)])
    both = jnp.concatenate([seen, place])
    curvature = jax.hessian(log_likelihood)(both)
    return jax.grad(log_likelihood)(both) @ chain, chain.T @ curvature @ chain

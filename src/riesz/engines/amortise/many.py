r"""Gaussian posteriors of many data sets at once, with one surrogate that is right over the prior.

The best full-rank Gaussian has $\Sigma^{-1} = I - E_q[\nabla^2 \log p(y \mid \xi)]$ and a mean at
which $E_q[\nabla \log p(y \mid \xi)] = m$ (Opper & Archambeau 2009). Steps of Newton's method on
these equations, all data sets side by side; as in `emulate` the first steps give the data a part
of their weight, so that q shrinks from the prior in steps that it can follow.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from riesz.engines.amortise.simulate import Coordinates, DataSets, Observed, Simulator
from riesz.engines.emulate.variational import matched_normals
from riesz.posterior.family import Draws, FullRank, full_rank_of

NUM_DRAWS = 64
"""Of q in a step; matched in mean and covariance, so that quadratic log-likelihoods are exact."""

NUM_STEPS = 30
FIRST_SHARE, SHARE_GROWTH = 10.0, 4.0
"""At first the best informed direction shrinks about to 1 / sqrt(1 + 10) of the prior."""

REACH = 2.0
"""Standard deviations of q that a step may go."""

AT_ONCE = 50
"""Data sets side by side: more would only take more memory."""


class ManyFits(eqx.Module):
    """A Gaussian for each data set, and how far its mean moved in the last step."""

    families: FullRank  # with a leading axis
    moved: Float[Array, "*data"]  # standard deviations


@eqx.filter_jit
def fits_to_many(
    simulator: Simulator, observed: DataSets, starts: Float[Array, "data coordinate"], seed: int
) -> ManyFits:
    """The posteriors of data sets, each sought from its own start."""
    size, dtype = simulator.problem.num_coordinates, simulator.problem.forward.dtype
    normals = matched_normals(jr.key(seed), NUM_DRAWS, size, dtype)

    def one(pair: tuple[Observed, Coordinates]) -> ManyFits:
        return fitted(simulator, *pair, normals)

    return jax.lax.map(one, (observed, starts), batch_size=AT_ONCE)


def fitted(
    simulator: Simulator, observed: Observed, start: Coordinates, normals: Draws
) -> ManyFits:
    def log_likelihood(coordinates: Coordinates) -> Float[Array, ""]:
        return simulator.log_likelihood(observed, coordinates)

    identity = jnp.eye(len(start), dtype=start.dtype)
    most = jnp.linalg.eigvalsh(moments(log_likelihood, start[None, :] + normals)[1])[-1]
    first = jnp.minimum(1.0, FIRST_SHARE / most)

    def step(state, number):
        mean, factor = state
        share = jnp.minimum(1.0, first * SHARE_GROWTH**number)
        slope, information = moments(log_likelihood, mean[None, :] + normals @ factor.T)
        covariance = jnp.linalg.inv(identity + share * information)
        change = covariance @ (share * slope - mean)
        length = jnp.linalg.norm(solve_triangular(factor, change, lower=True))
        mean = mean + change * jnp.minimum(1.0, REACH / length)
        return (mean, jnp.linalg.cholesky(covariance)), length

    (mean, factor), lengths = jax.lax.scan(
        step, (start, identity), jnp.arange(NUM_STEPS, dtype=start.dtype)
    )
    return ManyFits(full_rank_of(mean, factor), lengths[-1])


def moments(log_likelihood, draws: Draws) -> tuple[Coordinates, Float[Array, "n n"]]:
    """The expected slope of the log-likelihood, and its expected curvature, never below zero."""
    slope = jnp.mean(jax.vmap(jax.grad(log_likelihood))(draws), axis=0)
    curvature = -jnp.mean(jax.vmap(jax.hessian(log_likelihood))(draws), axis=0)
    values, axes = jnp.linalg.eigh((curvature + curvature.T) / 2)
    return slope, (axes * jnp.maximum(values, 0.0)[None, :]) @ axes.T

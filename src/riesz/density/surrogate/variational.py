r"""The variational distribution for a surrogate that no longer changes, without sampling noise.

The expectation in the evidence bound is an average over one fixed set of normal draws; what is left
is a smooth function of a few parameters, for a quasi-Newton method. Data that inform some unknowns
a hundred times better than others would slow it down: a full-rank Gaussian is therefore sought in
coordinates that the expected information of the data makes round. (The ELBO by reparameterised
draws, Kingma & Welling 2014, as a sample-average approximation; information is that of Fisher.)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.method.training import minimise
from riesz.posterior.density import AbstractRecordDensity
from riesz.posterior.family import Draws, FullRank, antithetic, full_rank_of

INFORMATION_DRAWS = 32


def match_normals(key: PRNGKeyArray, num_draws: int, num_coordinates: int, dtype) -> Draws:
    """Normal draws whose sample mean is zero and whose sample covariance is the unit matrix.

    A quadratic log-likelihood is then averaged exactly, and q has the right spread whatever the
    draws; plain ones would miss it by several per cent.
    """
    draws = antithetic(key, num_draws, num_coordinates, dtype)
    if num_draws <= 2 * num_coordinates:
        return draws
    factor = jnp.linalg.cholesky(draws.T @ draws / num_draws)
    return jax.scipy.linalg.solve_triangular(factor, draws.T, lower=True).T


def maximise_elbo(
    density: AbstractRecordDensity,
    family: FullRank,
    normals: Draws,
    share: float = 1.0,
) -> FullRank:
    """The family's member that maximises the evidence bound on fixed draws.

    `share` is that of the data's weight: less than one widens q, as if noise were larger.
    """
    weight = jnp.asarray(share, normals.dtype)
    result = data_information(density, family, normals[:INFORMATION_DRAWS])
    precision = jnp.eye(len(result), dtype=result.dtype) + weight * result
    frame = full_rank_of(family.mean, jnp.linalg.cholesky(jnp.linalg.inv(precision)))
    own = full_rank_of(
        jnp.zeros_like(family.mean), solve_triangular(frame.factor(), family.factor(), lower=True)
    )
    own = minimise(own, negative_elbo, frame, density, normals, weight)
    return gaussian_in_frame(own, frame)


def gaussian_in_frame(own: FullRank, frame: FullRank) -> FullRank:
    """A Gaussian given in the coordinates of a frame, in those of the unknowns."""
    factor = frame.factor()
    return full_rank_of(frame.mean + factor @ own.mean, factor @ own.factor())


@eqx.filter_jit
def data_information(
    density: AbstractRecordDensity, family: FullRank, normals: Draws
) -> Float[Array, "coordinate coordinate"]:
    """What the data tell of the unknowns under q: the squares of the sensors' slopes, by noise."""

    def one(coordinates):
        slopes = jax.jacfwd(density.record)(coordinates)
        scaled = density.problem.whiten(slopes, density.problem.z(coordinates))
        return scaled.T @ scaled

    return jnp.mean(jax.lax.map(one, family.transform(normals)), axis=0)


@eqx.filter_jit
@eqx.filter_value_and_grad
def negative_elbo(
    own: FullRank,
    frame: FullRank,
    density: AbstractRecordDensity,
    normals: Draws,
    share: Float[Array, ""],
) -> Float[Array, ""]:
    """Minus the evidence lower bound of a family, given in the coordinates of a frame."""
    family = gaussian_in_frame(own, frame)
    fits = jax.vmap(density.log_likelihood)(family.transform(normals))
    return family.kl_to_prior() - share * jnp.mean(fits)

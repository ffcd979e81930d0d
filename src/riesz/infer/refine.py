"""The variational distribution for a surrogate that no longer changes, without sampling noise.

The expectation in the evidence bound is an average over one fixed set of normal draws; what is left
is a smooth function of a few parameters, for a quasi-Newton method.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.infer.family import AbstractFamily, Draws, antithetic
from riesz.infer.problem import InverseProblem
from riesz.infer.setup import log_likelihoods
from riesz.surrogate.surrogate import Surrogate

MAX_STEPS = 200


def matched_normals(key: PRNGKeyArray, num_draws: int, num_coordinates: int, dtype) -> Draws:
    """Normal draws whose sample mean is zero and whose sample covariance is the unit matrix.

    A quadratic log-likelihood is then averaged exactly, and q has the right spread whatever the
    draws; plain ones would miss it by several per cent.
    """
    draws = antithetic(key, num_draws, num_coordinates, dtype)
    if num_draws <= 2 * num_coordinates:
        return draws
    factor = jnp.linalg.cholesky(draws.T @ draws / num_draws)
    return jax.scipy.linalg.solve_triangular(factor, draws.T, lower=True).T


Family = TypeVar("Family", bound=AbstractFamily)


def refined(
    problem: InverseProblem, surrogate: Surrogate, family: Family, normals: Draws
) -> Family:
    """The family's member that maximises the evidence bound on fixed draws."""
    start, rebuild = ravel_pytree(family)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        member = rebuild(jnp.asarray(flat, start.dtype))
        value, slope = negative_bound(member, problem, surrogate, normals)
        slope, _ = ravel_pytree(slope)
        return float(value), np.asarray(slope, dtype=float)

    found = scipy.optimize.minimize(
        objective,
        np.asarray(start, dtype=float),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS},
    )
    return rebuild(jnp.asarray(found.x, start.dtype))


@eqx.filter_jit
@eqx.filter_value_and_grad
def negative_bound(
    family: AbstractFamily, problem: InverseProblem, surrogate: Surrogate, normals: Draws
) -> Float[Array, ""]:
    """Minus the evidence lower bound."""
    draws = family.transformed(normals)
    return family.kl_to_prior() - jnp.mean(log_likelihoods(problem, surrogate, draws))

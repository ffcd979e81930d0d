r"""The relaxed objective, eq. (13) of Tait & Damoulas (2020), for networks and nodal surrogates.

$F_\epsilon = E_q[-\log p(y \mid \mu)] + \mathrm{KL}(q \mid p)
+ E_q[r^\top A^{-1} r] / (2\epsilon^2)$, by draws of the unknowns and of mini-patches.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.engines.emulate.start import equation_inputs, log_likelihoods
from riesz.penalty.penalty import AbstractPenalty
from riesz.posterior.family import AbstractFamily, Draws
from riesz.problem.problem import InverseProblem
from riesz.surrogate.nodal import NodalSurrogate
from riesz.surrogate.surrogate import Surrogate

AnySurrogate = Surrogate | NodalSurrogate


class Terms(eqx.Module):
    """The three parts of the objective, kept apart so that a fit can be read."""

    misfit: Float[Array, ""]
    kl: Float[Array, ""]
    penalty: Float[Array, ""]

    def total(self) -> Float[Array, ""]:
        return self.misfit + self.kl + self.penalty


def relaxed_terms(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    family: AbstractFamily,
    key: PRNGKeyArray,
    normals: Draws,
    epsilon: Float[Array, ""],
) -> Terms:
    """The objective on given normal draws and a key for the patches."""
    draws = family.transformed(normals)
    fits, square = fits_and_square(problem, penalty, surrogate, key, draws)
    return Terms(-jnp.mean(fits), family.kl_to_prior(normals), square / (2 * epsilon**2))


def fits_and_square(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    key: PRNGKeyArray,
    draws: Draws,
) -> tuple[Float[Array, " draw"], Float[Array, ""]]:
    """Log-likelihoods, and the mean over draws of the squared norm of the residual."""
    zs = equation_inputs(problem, draws)
    if not isinstance(surrogate, NodalSurrogate):
        return log_likelihoods(problem, surrogate, draws), penalty(key, surrogate, zs)
    states = jax.vmap(lambda one: surrogate.state(problem.forward, problem.latents, one))(draws)
    return jax.vmap(problem.log_likelihood)(draws, states), penalty.nodal(key, states, zs)


def trained_part(surrogate: AnySurrogate) -> PyTree:
    """What training moves."""
    return surrogate.weights if isinstance(surrogate, NodalSurrogate) else surrogate.network


def with_part(surrogate: AnySurrogate, part: PyTree) -> AnySurrogate:
    """The surrogate with its trained part replaced."""
    return eqx.tree_at(trained_part, surrogate, part)

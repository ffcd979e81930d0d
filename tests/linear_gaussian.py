"""A problem whose posterior is known: sources of known shape with normal strengths."""

import dataclasses
from functools import lru_cache

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.notes import text_note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.family import FullRank
from riesz.posterior.posterior import AbstractStateMap, ExactStates, Posterior
from riesz.problem.posing import inverse_problem

NOISE = 0.25
TRUTH = np.array([1.0, -0.5, 2.0])
PRIOR_MEAN, PRIOR_SD = 0.5, 1.5


def strength(x, z):
    shapes = (1.0, 2 * jnp.cos(jnp.pi * x[0]), jnp.cos(jnp.pi * x[1]))
    return 10 * sum(weight * shape for weight, shape in zip(z["w"], shapes, strict=True))


@lru_cache
def linear_problem():
    rng = np.random.default_rng(3)
    points = rng.uniform(0.1, 0.9, (12, 2))
    problem = inverse_problem(
        rectangle((8, 8)),
        diffusion(1.0) - source(strength),
        latents={"w": dist.Normal(PRIOR_MEAN * jnp.ones(3), PRIOR_SD)},
        observations=observations(points, np.zeros(12)),
        likelihood=Gaussian(NOISE),
        dirichlet={"left": 0.0, "right": 1.0},
    )
    exact = problem.operator @ problem.state(jnp.asarray((TRUTH - PRIOR_MEAN) / PRIOR_SD))
    values = np.asarray(exact) + NOISE * rng.normal(size=12)
    return dataclasses.replace(
        problem, observed=jnp.asarray(values), observations=observations(points, values)
    )


class AffineStates(AbstractStateMap):
    """The exact states of the linear problem without a solve."""

    origin: Float[Array, " node"]
    slopes: Float[Array, "node coordinate"]

    def __call__(self, problem, key, coordinates):
        return self.origin[None, :] + coordinates @ self.slopes.T


@lru_cache
def affine_states():
    problem = linear_problem()
    states = ExactStates()(problem, jr.key(0), jnp.concatenate([jnp.zeros((1, 3)), jnp.eye(3)]))
    return AffineStates(states[0], (states[1:] - states[0][None, :]).T)


@lru_cache
def response():
    """The affine map from the coordinates to the sensors: matrix and value at the origin."""
    sensors = linear_problem().operator.to_scipy()
    return sensors @ np.asarray(affine_states().slopes), sensors @ np.asarray(
        affine_states().origin
    )


@lru_cache
def known_posterior():
    """Mean and covariance of the coordinates by the formulas of linear regression."""
    matrix, offset = response()
    covariance = np.linalg.inv(np.eye(3) + matrix.T @ matrix / NOISE**2)
    return covariance @ matrix.T @ (np.asarray(linear_problem().observed) - offset) / NOISE**2, (
        covariance
    )


@lru_cache
def exact_posterior(states=None):
    """The known posterior as an engine would return it."""
    mean, covariance = known_posterior()
    factor = jnp.linalg.cholesky(jnp.asarray(covariance))
    family = FullRank(jnp.asarray(mean), jnp.log(jnp.diagonal(factor)), jnp.tril(factor, -1))
    history = {"misfit": jnp.linspace(3.0, 1.0, 20), "kl": jnp.linspace(0.0, 1.0, 20)}
    return Posterior(
        linear_problem(),
        family,
        states or affine_states(),
        history,
        "formula",
        5,
        (text_note("made by hand"),),
    )

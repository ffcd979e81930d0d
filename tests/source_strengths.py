"""Strengths of known sources, on a hierarchy of meshes and in any units: a linear problem whose
posterior is known, for an equation that is trusted and for one with errors of any scale."""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.special
import scipy.stats

from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.penalty.gram import dual_norm
from riesz.problem.posing import inverse_problem, with_observations

NOISE = 0.1
TRUTH = np.array([0.8, -0.6])  # in coordinates
POINTS = np.random.default_rng(1).uniform(0.1, 0.9, (14, 2))


@lru_cache
def without_data(length, value):
    """Lengths and values are multiples of the first units. One problem for all data: it compiles
    once."""

    def strength(x, z):
        shape = jnp.stack([jnp.ones(()), 2 * jnp.cos(jnp.pi * x[0] / length)])
        return 10 * value / length**2 * (z["w"] @ shape)

    return inverse_problem(
        hierarchy(rectangle((4, 4), upper=(length, length)), 2),
        diffusion(1.0) - source(strength),
        latents={"w": dist.Normal(0.5 * jnp.ones(2), 1.5)},
        observations=observations(length * POINTS, np.zeros(len(POINTS))),
        likelihood=Gaussian(NOISE * value),
        dirichlet={"left": 0.0, "right": value},
    )


@lru_cache
def source_problem(length=1.0, value=1.0, *, model_error=0.0, seed=0):
    """`model_error` is the `epsilon_rel` of the errors of the equation that the data are made
    with."""
    problem, rng = without_data(length, value), np.random.default_rng(seed)
    matrix, offset = response(problem)
    scatter = np.linalg.cholesky(relaxed_covariance(problem, model_error))
    values = offset + matrix @ TRUTH + scatter @ rng.normal(size=len(POINTS))
    return with_observations(problem, observations(length * POINTS, values), problem.likelihood)


@lru_cache
def response(problem):
    """The affine map from the coordinates to the sensors: matrix and value at the origin."""
    places = jnp.concatenate([jnp.zeros((1, 2)), jnp.eye(2)])
    at = np.stack([np.asarray(problem.operator @ problem.state(one)) for one in places])
    return (at[1:] - at[:1]).T, at[0]


@lru_cache
def discrepancy(problem):
    """K = H L^-1 A L^-T H^T by dense matrices; here L and A are both the Poisson matrix."""
    stiffness = dual_norm(problem.forward).gram.to_scipy().toarray()
    sensors = problem.operator.to_scipy().toarray()[:, np.asarray(problem.forward.free)]
    return sensors @ np.linalg.solve(stiffness, sensors.T)


def relaxed_covariance(problem, epsilon_rel):
    """Of the data about the exact solution: the noise, and errors of the equation."""
    errors, variance = discrepancy(problem), problem.likelihood.sd**2
    scale = epsilon_rel**2 * variance / np.diag(errors).mean()
    return variance * np.eye(len(errors)) + scale * errors


def known_posterior(problem, epsilon_rel=0.0):
    """Mean and standard deviations of the coordinates by the formulas of linear regression."""
    matrix, offset = response(problem)
    precision = np.linalg.inv(relaxed_covariance(problem, epsilon_rel))
    covariance = np.linalg.inv(np.eye(2) + matrix.T @ precision @ matrix)
    mean = covariance @ matrix.T @ precision @ (np.asarray(problem.observed) - offset)
    return mean, np.sqrt(np.diag(covariance))


def log_evidence(problem, epsilon_rel):
    """Of the data, the strengths integrated out."""
    matrix, offset = response(problem)
    covariance = relaxed_covariance(problem, epsilon_rel) + matrix @ matrix.T
    return scipy.stats.multivariate_normal(offset, covariance).logpdf(np.asarray(problem.observed))


def most_likely(problem):
    """The `epsilon_rel` at the maximum of the exact marginal likelihood, by trying many."""
    tried = np.exp(np.linspace(np.log(0.05), np.log(100), 400))
    return tried[np.argmax([log_evidence(problem, one) for one in tried])]


def averaged_posterior(problem, scales):
    """Mean and standard deviations where `epsilon_rel` has values with prior weights."""
    logs = np.array([log_evidence(problem, one) for one in scales.values]) + scales.log_weights
    weights = scipy.special.softmax(logs)[:, None]
    each = np.array([known_posterior(problem, one) for one in scales.values])
    means, sds = each[:, 0], each[:, 1]
    mean = np.sum(weights * means, axis=0)
    return mean, np.sqrt(np.sum(weights * (sds**2 + (means - mean) ** 2), axis=0))


def errors(posterior, epsilon_rel=0.0):
    """How far a posterior is from the known one: means in standard deviations, and their ratios."""
    mean, sd = known_posterior(posterior.problem, epsilon_rel)
    found = np.sqrt(np.diag(posterior.coordinate_covariance()))
    return (np.asarray(posterior.coordinate_mean()) - mean) / sd, found / sd

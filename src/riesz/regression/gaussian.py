r"""A Gaussian model of measurements: effects that add up, and independent noise.

All effects are integrated out exactly. Their scales maximise the marginal likelihood times weak
priors: $\log N(y;\,0,\,K_\theta + \sigma^2 I) + \log p(\theta)$.
"""

import dataclasses
from collections.abc import Mapping
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy as jsp
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.infer.minimise import minimised
from riesz.regression.effects import PRIOR_SPREAD, AbstractEffect, Parameters
from riesz.regression.sites import Matrix, Sites, Variances

INITIAL_NOISE = 0.5
JITTER = 1e-8

Responses = Float[Array, " place"]
Scales = Mapping[str, Parameters]


class GaussianModel(eqx.Module):
    """Named effects with their scales; measurements are their sum and noise."""

    effects: dict[str, AbstractEffect]
    scales: dict[str, Parameters]
    log_noise: Float[Array, ""]

    def covariance(self, sites: Sites, others: Sites) -> Matrix:
        each = [e.covariance(self.scales[n], sites, others) for n, e in self.effects.items()]
        return reduce(jnp.add, each)

    def variances(self, sites: Sites) -> Variances:
        each = [e.variances(self.scales[n], sites) for n, e in self.effects.items()]
        return reduce(jnp.add, each)

    def factor(self, sites: Sites) -> Float[Array, "place place"]:
        noise = jnp.exp(2 * self.log_noise) + JITTER
        return jnp.linalg.cholesky(self.covariance(sites, sites) + noise * jnp.eye(len(sites)))


class Conditioned(eqx.Module):
    """A model that has seen measurements."""

    model: GaussianModel
    sites: Sites
    factor: Float[Array, "place place"]
    weights: Responses  # inverse covariance of the measurements, times them

    @eqx.filter_jit
    def at(self, sites: Sites) -> tuple[Responses, Responses]:
        """Mean and variance of the sum of all effects, without noise."""
        return self.moments(self.model.covariance(self.sites, sites), self.model.variances(sites))

    @eqx.filter_jit
    def effect_at(self, name: str, sites: Sites) -> tuple[Responses, Responses]:
        """Mean and variance of one effect."""
        effect, scales = self.model.effects[name], self.model.scales[name]
        return self.moments(
            effect.covariance(scales, self.sites, sites), effect.variances(scales, sites)
        )

    def moments(
        self, covariance: Matrix, prior: Float[Array, " other"]
    ) -> tuple[Float[Array, " other"], Float[Array, " other"]]:
        white = jsp.linalg.solve_triangular(self.factor, covariance, lower=True)
        return covariance.T @ self.weights, prior - jnp.sum(white**2, axis=0)

    def noise_variance(self) -> Float[Array, ""]:
        return jnp.exp(2 * self.model.log_noise)


def gaussian_model(effects: dict[str, AbstractEffect], sites: Sites) -> GaussianModel:
    """With all scales at the centres of their priors."""
    scales = {name: effect.initial(sites) for name, effect in effects.items()}
    return GaussianModel(effects, scales, jnp.log(INITIAL_NOISE))


def conditioned(model: GaussianModel, sites: Sites, measured: Responses) -> Conditioned:
    factor = model.factor(sites)
    return Conditioned(model, sites, factor, jsp.linalg.cho_solve((factor, True), measured))


def fitted(
    model: GaussianModel, sites: Sites, measured: Responses, key: PRNGKeyArray | None = None
) -> Conditioned:
    """The model at its most probable scales, given measurements.

    With a key the search starts from scales that are drawn near the priors' centres.
    """
    centre = trained_part(model)
    start = centre if key is None else jittered(centre, key)
    found = minimised(start, cost, model, centre, sites, measured)
    return conditioned(with_trained(model, found), sites, measured)


def trained_part(model: GaussianModel) -> tuple[dict[str, Parameters], Float[Array, ""]]:
    return model.scales, model.log_noise


def with_trained(model: GaussianModel, found) -> GaussianModel:
    scales, log_noise = found
    return dataclasses.replace(model, scales=scales, log_noise=log_noise)


def jittered(tree, key: PRNGKeyArray):
    leaves, structure = jax.tree.flatten(tree)
    keys = jr.split(key, len(leaves))
    moved = [
        leaf + 0.5 * PRIOR_SPREAD * jr.normal(one, leaf.shape, leaf.dtype)
        for leaf, one in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


@eqx.filter_jit
@eqx.filter_value_and_grad
def cost(found, model: GaussianModel, centre, sites: Sites, measured: Responses):
    """The negative log of marginal likelihood and priors, up to a constant."""
    factor = with_trained(model, found).factor(sites)
    white = jsp.linalg.solve_triangular(factor, measured, lower=True)
    likelihood = 0.5 * white @ white + jnp.sum(jnp.log(jnp.diag(factor)))
    away = jax.tree.map(lambda a, b: jnp.sum(((a - b) / PRIOR_SPREAD) ** 2), found, centre)
    return likelihood + 0.5 * reduce(jnp.add, jax.tree.leaves(away))

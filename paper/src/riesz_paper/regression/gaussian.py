r"""A Gaussian model of measurements: effects that add up, and independent noise.

All effects are integrated out exactly. Their scales maximise the marginal likelihood times weak
priors: $\log N(y;\,0,\,K_\theta + \sigma^2 W^{-1}) + \log p(\theta)$. For normal noise $W = I$;
noise with heavy tails, Student's $t$ with $\nu$ degrees of freedom, is a mixture of normals whose
expected precisions $w_i = (\nu + 1) / (\nu + E[r_i^2] / \sigma^2)$ are found in turns with the
scales (variational EM; Tipping & Lawrence 2005).
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

from riesz.method.training import minimise
from riesz_paper.regression.effects import PRIOR_SPREAD, AbstractEffect, Parameters
from riesz_paper.regression.sites import Matrix, Sites, Variances

INITIAL_NOISE = 0.5
JITTER = 1e-8
NUM_TURNS = 5

Responses = Float[Array, " place"]
Scales = Mapping[str, Parameters]


class GaussianModel(eqx.Module):
    """Named effects with their scales; measurements are their sum and noise."""

    effects: dict[str, AbstractEffect]
    scales: dict[str, Parameters]
    log_noise: Float[Array, ""]

    def covariance(self, sites: Sites, others: Sites) -> Matrix:
        each = [e.covariance(self.scales[n], sites, others) for n, e in self.effects.items()]
        return sum(each, jnp.zeros((len(sites), len(others))))

    def variances(self, sites: Sites) -> Variances:
        each = [e.variances(self.scales[n], sites) for n, e in self.effects.items()]
        return sum(each, jnp.zeros(len(sites)))

    def part(self, *, reads_numbers: bool) -> "GaussianModel":
        """Only those effects that read numbers, or only those that do not."""
        kept = {n: e for n, e in self.effects.items() if e.reads_numbers is reads_numbers}
        return GaussianModel(kept, {n: self.scales[n] for n in kept}, self.log_noise)

    def factor(self, sites: Sites, precisions: Responses) -> Float[Array, "place place"]:
        """Of the measurements' covariance; the precisions are relative to the noise's."""
        noise = jnp.exp(2 * self.log_noise) / precisions + JITTER
        return jnp.linalg.cholesky(self.covariance(sites, sites) + jnp.diag(noise))


class Conditioned(eqx.Module):
    """A model that has seen measurements."""

    model: GaussianModel
    sites: Sites
    factor: Float[Array, "place place"]
    weights: Responses  # inverse covariance of the measurements, times them
    precisions: Responses  # of the noise of each, relative to its scale

    @eqx.filter_jit
    def at(self, sites: Sites) -> tuple[Responses, Responses]:
        """Mean and variance of the sum of all effects, without noise."""
        return self.moments(self.model.covariance(self.sites, sites), self.model.variances(sites))

    @eqx.filter_jit
    def at_draws(
        self, sites: Sites, numbers: Float[Array, "draw place number"]
    ) -> tuple[Float[Array, "draw place"], Float[Array, "draw place"]]:
        """The same for many draws of the numbers at the same places.

        Effects that do not read numbers, the field among them, are evaluated once.
        """
        fixed, moving = (self.model.part(reads_numbers=reads) for reads in (False, True))
        covariance, prior = fixed.covariance(self.sites, sites), fixed.variances(sites)

        def of_draw(own):
            drawn = dataclasses.replace(sites, numbers=own)
            return self.moments(
                covariance + moving.covariance(self.sites, drawn), prior + moving.variances(drawn)
            )

        return jax.lax.map(of_draw, numbers)

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


def gaussian_model(effects: dict[str, AbstractEffect], sites: Sites) -> GaussianModel:
    """With all scales at the centres of their priors."""
    scales = {name: effect.initial(sites) for name, effect in effects.items()}
    return GaussianModel(effects, scales, jnp.log(INITIAL_NOISE))


def conditioned(
    model: GaussianModel, sites: Sites, measured: Responses, precisions: Responses
) -> Conditioned:
    factor = model.factor(sites, precisions)
    return Conditioned(
        model, sites, factor, jsp.linalg.cho_solve((factor, True), measured), precisions
    )


def fitted(
    model: GaussianModel,
    sites: Sites,
    measured: Responses,
    *,
    key: PRNGKeyArray | None = None,
    freedom: float | None = None,
) -> Conditioned:
    """The model at its most probable scales, given measurements.

    With a key the search starts from scales that are drawn near the priors' centres; `freedom` are
    the degrees of freedom of noise with heavy tails.
    """
    centre = trained_part(model)
    found = centre if key is None else jittered(centre, key)
    precisions = jnp.ones(len(sites))
    for _ in range(1 if freedom is None else NUM_TURNS):
        found = minimise(found, cost, model, centre, sites, measured, precisions)
        now = with_trained(model, found)
        if freedom is not None:
            precisions = expected_precisions(now, sites, measured, precisions, freedom)
    return conditioned(with_trained(model, found), sites, measured, precisions)


@eqx.filter_jit
def expected_precisions(
    model: GaussianModel,
    sites: Sites,
    measured: Responses,
    precisions: Responses,
    freedom: float,
) -> Responses:
    mean, variance = conditioned(model, sites, measured, precisions).at(sites)
    squares = ((measured - mean) ** 2 + variance) / jnp.exp(2 * model.log_noise)
    return (freedom + 1) / (freedom + squares)


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
def cost(
    found,
    model: GaussianModel,
    centre,
    sites: Sites,
    measured: Responses,
    precisions: Responses,
):
    """The negative log of marginal likelihood and priors, up to a constant."""
    factor = with_trained(model, found).factor(sites, precisions)
    white = jsp.linalg.solve_triangular(factor, measured, lower=True)
    likelihood = 0.5 * white @ white + jnp.sum(jnp.log(jnp.diag(factor)))
    away = jax.tree.map(lambda a, b: jnp.sum(((a - b) / PRIOR_SPREAD) ** 2), found, centre)
    return likelihood + 0.5 * reduce(jnp.add, jax.tree.leaves(away))

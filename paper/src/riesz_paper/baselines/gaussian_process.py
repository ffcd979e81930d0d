"""Gaussian processes without physics: of places alone, and of places and other quantities."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from riesz.priors.kernels import AbstractKernel, Matern32
from riesz_paper.baselines.standard import Standard, standard_of
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.effects import AbstractEffect, Level, Parameters, squared_distances
from riesz_paper.regression.gaussian import Conditioned, fitted, gaussian_model
from riesz_paper.regression.method import Draws, Method, Values
from riesz_paper.regression.model import Structure, field_regression
from riesz_paper.regression.sites import Matrix, Sites, Variances, encoding_of

LENGTH_SHARE = 0.2
"""Where searches for lengths start, as a share of the extent along each axis."""


class CoordinateField(AbstractEffect):
    """A field of the coordinates, with a length along each axis or one for both."""

    reads_numbers: ClassVar[bool] = False
    kernel: AbstractKernel  # its profile; scales are parameters
    one_length: bool = eqx.field(static=True)

    def initial(self, sites: Sites) -> Parameters:
        extent = jnp.ptp(sites.points, axis=0)
        length = LENGTH_SHARE * (jnp.mean(extent, keepdims=True) if self.one_length else extent)
        return {"log_sd": jnp.log(0.8), "log_length": jnp.log(length)}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        length = jnp.exp(parameters["log_length"])[None, :]
        squared = squared_distances(sites.points / length, others.points / length)
        return jnp.exp(2 * parameters["log_sd"]) * self.kernel.profile(squared, jnp)

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.full(len(sites), jnp.exp(2 * parameters["log_sd"]))


class Slopes(AbstractEffect):
    """Proportional to each coordinate, in standard deviations of those of training."""

    reads_numbers: ClassVar[bool] = False
    centre: Float[Array, " 2"]
    spread: Float[Array, " 2"]
    sd: float = 3.0  # of data that are scaled to sd 1: hardly a prior at all

    def initial(self, sites: Sites) -> Parameters:
        return {}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        return self.sd**2 * self.scaled(sites) @ self.scaled(others).T

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return self.sd**2 * jnp.sum(self.scaled(sites) ** 2, axis=1)

    def scaled(self, sites: Sites) -> Float[Array, "place 2"]:
        return (sites.points - self.centre[None, :]) / self.spread[None, :]


@dataclass(frozen=True, eq=False)
class OnCoordinates:
    """A trained process of places."""

    conditioned: Conditioned
    standard: Standard

    def __call__(self, at: Covariates) -> Draws:
        mean, variance = self.conditioned.at(sites_of(at))
        noise = jnp.exp(2 * self.conditioned.model.log_noise)
        return self.standard.draws(mean, variance + noise)


Trend = Literal["zero", "level", "linear"]


def gp_on_coordinates(
    kernel: AbstractKernel | None = None,
    *,
    trend: Trend = "level",
    one_length: bool = False,
) -> Method:
    """A Gaussian process of places, for a quantity in its own units.

    Its mean is that of the training data ("zero"), an unknown level, or a level and slopes
    ("linear"); what is unknown of it is integrated out under a wide normal prior. The kernel is
    Matern 3/2 unless another is given, whose scales are found anyway.
    """
    shape = Matern32() if kernel is None else kernel

    def train(training: Covariates, target: Values, *, seed: int) -> OnCoordinates:
        check_target(training, target)
        sites, standard = sites_of(training), standard_of(target)
        effects = trend_effects(trend, sites) | {"field": CoordinateField(shape, one_length)}
        model = gaussian_model(effects, sites)
        key = None if seed == 0 else jr.key(seed)
        return OnCoordinates(fitted(model, sites, standard.scaled(target), key=key), standard)

    return train


def trend_effects(trend: Trend, sites: Sites) -> dict[str, AbstractEffect]:
    """The effects that make up the mean."""
    match trend:
        case "zero":
            return {}
        case "level":
            return {"level": Level()}
        case "linear":
            spread = jnp.std(sites.points, axis=0)
            slopes = Slopes(jnp.mean(sites.points, axis=0), jnp.where(spread > 0, spread, 1.0))
            return {"level": Level(), "slopes": slopes}


def additive_log_gp() -> Method:
    """Logarithms: a field in space plus a smooth effect of each number, and of categories."""
    return field_regression(Structure("smooth", categories=True, field="stationary", local=False))


def sites_of(at: Covariates) -> Sites:
    """Places, and nothing else of what is known there."""
    places = Covariates(at.points, {}, {})
    return encoding_of(places)(places)

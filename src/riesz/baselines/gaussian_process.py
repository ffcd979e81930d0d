"""Gaussian processes without physics: of places alone, and of places and other quantities."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import jax.random as jr

from riesz.baselines.standard import Standard, standard_of
from riesz.latent.kernels import Matern32
from riesz.regression.covariates import Covariates, check_target
from riesz.regression.effects import AbstractEffect, Level, Parameters, squared_distances
from riesz.regression.gaussian import Conditioned, fitted, gaussian_model
from riesz.regression.method import Draws, Method, Values
from riesz.regression.model import Structure, field_regression
from riesz.regression.sites import Matrix, Sites, Variances, encoding_of

LENGTH_SHARE = 0.2
"""Where searches for lengths start, as a share of the extent along each axis."""


class StretchedField(AbstractEffect):
    """A Matern 3/2 field of the coordinates, with a length along each axis."""

    reads_numbers: ClassVar[bool] = False

    def initial(self, sites: Sites) -> Parameters:
        extent = jnp.ptp(sites.points, axis=0)
        return {"log_sd": jnp.log(0.8), "log_length": jnp.log(LENGTH_SHARE * extent)}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        length = jnp.exp(parameters["log_length"])[None, :]
        squared = squared_distances(sites.points / length, others.points / length)
        return jnp.exp(2 * parameters["log_sd"]) * Matern32().profile(squared, jnp)

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.full(len(sites), jnp.exp(2 * parameters["log_sd"]))


@dataclass(frozen=True, eq=False)
class OnCoordinates:
    """A trained process of places."""

    conditioned: Conditioned
    standard: Standard

    def __call__(self, at: Covariates) -> Draws:
        mean, variance = self.conditioned.at(sites_of(at))
        noise = jnp.exp(2 * self.conditioned.model.log_noise)
        return self.standard.draws(mean, variance + noise)


def gp_on_coordinates() -> Method:
    """A Gaussian process of places, for a quantity in its own units."""

    def train(training: Covariates, target: Values, *, seed: int) -> OnCoordinates:
        check_target(training, target)
        sites, standard = sites_of(training), standard_of(target)
        model = gaussian_model({"level": Level(), "field": StretchedField()}, sites)
        key = None if seed == 0 else jr.key(seed)
        return OnCoordinates(fitted(model, sites, standard.scaled(target), key=key), standard)

    return train


def additive_log_gp() -> Method:
    """Logarithms: a field in space plus a smooth effect of each number, and of categories."""
    return field_regression(Structure("smooth", categories=True, field="stationary", local=False))


def sites_of(at: Covariates) -> Sites:
    """Places, and nothing else of what is known there."""
    places = Covariates(at.points, {}, {})
    return encoding_of(places)(places)

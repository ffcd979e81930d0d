r"""Effects that add up to a Gaussian model: each is a prior covariance between places.

An effect holds its structure; its parameters are a separate tree of unconstrained numbers, which
is what is fitted. Scales enter as logarithms, with normal priors around the initial values.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from riesz.priors.kernels import Matern32, Matern52
from riesz_paper.regression.sites import Matrix, Sites, Variances

Parameters = Mapping[str, Float[Array, "..."]]

PRIOR_SPREAD = 1.0
"""The sd of each parameter around its initial value: a factor of 2.7 for scales."""


class AbstractEffect(eqx.Module):
    """A Gaussian function of a place."""

    reads_numbers: ClassVar[bool]

    @abstractmethod
    def initial(self, sites: Sites) -> Parameters:
        """Parameters to start from: the centres of their priors."""

    @abstractmethod
    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        """Between the effect at places and at others."""

    @abstractmethod
    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        """The diagonal of the covariance."""


class Level(AbstractEffect):
    """One unknown number, the same everywhere."""

    reads_numbers: ClassVar[bool] = False
    sd: float = 3.0  # of data that are scaled to sd 1: hardly a prior at all

    def initial(self, sites: Sites) -> Parameters:
        return {}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        return jnp.full((len(sites), len(others)), self.sd**2)

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.full(len(sites), self.sd**2)


class Linear(AbstractEffect):
    """Proportional to each number, with unknown slopes."""

    reads_numbers: ClassVar[bool] = True

    def initial(self, sites: Sites) -> Parameters:
        return {"log_slope": jnp.full(sites.numbers.shape[1], jnp.log(0.3))}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        weights = jnp.exp(2 * parameters["log_slope"])
        return (sites.numbers * weights[None, :]) @ others.numbers.T

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return sites.numbers**2 @ jnp.exp(2 * parameters["log_slope"])


class Smooth(AbstractEffect):
    """A smooth function of each number, all of them added."""

    reads_numbers: ClassVar[bool] = True

    def initial(self, sites: Sites) -> Parameters:
        count = sites.numbers.shape[1]
        return {"log_sd": jnp.full(count, jnp.log(0.5)), "log_length": jnp.full(count, jnp.log(2))}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        def of_one(number, other, log_sd, log_length):
            squared = ((number[:, None] - other[None, :]) / jnp.exp(log_length)) ** 2
            return jnp.exp(2 * log_sd) * profile(squared)

        each = jax.vmap(of_one, (1, 1, 0, 0))(
            sites.numbers, others.numbers, parameters["log_sd"], parameters["log_length"]
        )
        return jnp.sum(each, axis=0)

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.full(len(sites), jnp.sum(jnp.exp(2 * parameters["log_sd"])))


class Joint(AbstractEffect):
    """A smooth function of all numbers together: they may act upon each other."""

    reads_numbers: ClassVar[bool] = True

    def initial(self, sites: Sites) -> Parameters:
        count = sites.numbers.shape[1]
        return {"log_sd": jnp.log(0.5), "log_length": jnp.full(count, jnp.log(2.0))}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        length = jnp.exp(parameters["log_length"])[None, :]
        squared = squared_distances(sites.numbers / length, others.numbers / length)
        return jnp.exp(2 * parameters["log_sd"]) * profile(squared)

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.full(len(sites), jnp.exp(2 * parameters["log_sd"]))


class Grouped(AbstractEffect):
    """A number for each level of each category."""

    reads_numbers: ClassVar[bool] = False

    def initial(self, sites: Sites) -> Parameters:
        return {"log_sd": jnp.full(len(sites.groups), jnp.log(0.3))}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        total = jnp.zeros((len(sites), len(others)))
        for log_sd, own, other in zip(
            parameters["log_sd"], sites.groups, others.groups, strict=True
        ):
            total = total + jnp.exp(2 * log_sd) * own @ other.T
        return total

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        total = jnp.zeros(len(sites))
        for log_sd, own in zip(parameters["log_sd"], sites.groups, strict=True):
            total = total + jnp.exp(2 * log_sd) * jnp.sum(own, axis=1)
        return total


class Stationary(AbstractEffect):
    """A field in space without any physics: a Matern 3/2 kernel of the coordinates."""

    reads_numbers: ClassVar[bool] = False
    length: Float[Array, ""]  # in the coordinates' unit, where the search starts

    def initial(self, sites: Sites) -> Parameters:
        return {"log_sd": jnp.log(0.5), "log_length": jnp.log(self.length)}

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        length = jnp.exp(parameters["log_length"])
        squared = squared_distances(sites.points / length, others.points / length)
        return jnp.exp(2 * parameters["log_sd"]) * Matern32().profile(squared, jnp)

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.full(len(sites), jnp.exp(2 * parameters["log_sd"]))


def profile(squared: Matrix) -> Matrix:
    return Matern52().profile(squared, jnp)


def squared_distances(own: Float[Array, "place dim"], other: Float[Array, "other dim"]) -> Matrix:
    return jnp.sum((own[:, None, :] - other[None, :, :]) ** 2, axis=-1)

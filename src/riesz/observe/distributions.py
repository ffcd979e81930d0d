"""Observation distributions: measurements given what the state says, on the host.

New measurements come from quantiles, so that one probability may serve many points. Parameters are
those of the likelihood, one row a draw. For measurements that were made, tails give their place in
the distribution, by its location and sd.
"""

from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy import special

from riesz.arrays import AnyArray, numpy_of

Values = Float[np.ndarray, "draw point"]
Probabilities = Float[np.ndarray, "draw #point"]
Parameters = Mapping[str, Float[np.ndarray, "draw 1"]]

LOG, LOGIT, IDENTITY = "log", "logit", "identity"


def inverse_link(link: str, state: AnyArray) -> AnyArray:
    """From what the state says to what is expected: a median, a rate or a share."""
    xp = numpy_of(state)
    if link == IDENTITY:
        return state
    return xp.exp(state if link == LOG else -xp.logaddexp(0.0, -state))


SLOPES = {
    IDENTITY: np.ones_like,
    LOG: np.exp,
    LOGIT: lambda eta: special.expit(eta) * special.expit(-eta),
}
"""The derivatives of inverse links."""


def discrete(name: str) -> Any:
    """A distribution of SciPy's, which takes half a second to import: few need one."""
    return getattr(import_module("scipy.stats"), name)


class Tails(NamedTuple):
    """Logarithms: of the probability of less, of the density or probability of what was measured,
    and of the probability of more."""

    below: Values
    at: Values
    above: Values


def normal_tails(white: Values, log_sd: Values) -> Tails:
    density = -0.5 * white**2 - log_sd - 0.5 * np.log(2 * np.pi)
    return Tails(special.log_ndtr(white), density, special.log_ndtr(-white))


def tails_from_probabilities(below: Values, at: Values, above: Values) -> Tails:
    """From probabilities and the logarithm of a density; those that are too small are zero."""
    with np.errstate(divide="ignore"):
        return Tails(np.log(below), at, np.log(above))


class AbstractObservationDistribution(eqx.Module):
    """A new measurement, given the linear predictor `eta`, what the state says there."""

    is_discrete = False

    def location(self, eta: Values, parameters: Parameters) -> Values:
        """The centre of the distribution, in the unit of measurements: mean or median."""
        return eta

    @abstractmethod
    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        """What is not exceeded by a measurement with this probability."""

    @abstractmethod
    def equivalent_sd(self, eta: Values, parameters: Parameters) -> Values:
        """The sd of normal noise on what the state says that would tell as much of it: by Fisher's
        information, which is that of one measurement."""

    def tails(
        self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values
    ) -> Tails | None:
        """Tail probabilities of measurements, by location and sd; None where a user's class does
        not define them."""
        return None


class AbstractNormalDistribution(AbstractObservationDistribution):
    """By the standard deviation of what is added."""

    @abstractmethod
    def sd(self, parameters: Parameters) -> Float[np.ndarray, "draw 1"]:
        """Of all errors together."""

    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        return eta + self.sd(parameters) * special.ndtri(probability)

    def equivalent_sd(self, eta: Values, parameters: Parameters) -> Values:
        return np.broadcast_to(self.sd(parameters), eta.shape)

    def tails(self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values) -> Tails:
        return normal_tails((measured - expected) / sd, np.log(sd))


class NormalDistribution(AbstractNormalDistribution):
    """By a standard deviation."""

    def sd(self, parameters: Parameters) -> Float[np.ndarray, "draw 1"]:
        return parameters["sd"]


class NormalSumDistribution(AbstractNormalDistribution):
    """By several standard deviations, of errors that are added."""

    names: tuple[str, ...]

    def sd(self, parameters: Parameters) -> Float[np.ndarray, "draw 1"]:
        return np.sqrt(sum(parameters[name] ** 2 for name in self.names))


class StudentDistribution(AbstractObservationDistribution):
    """With heavy tails, by a scale."""

    degrees_of_freedom: float

    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        return eta + parameters["sd"] * special.stdtrit(self.degrees_of_freedom, probability)

    def equivalent_sd(self, eta: Values, parameters: Parameters) -> Values:
        tails = (self.degrees_of_freedom + 3) / (self.degrees_of_freedom + 1)
        return np.broadcast_to(np.sqrt(tails) * parameters["sd"], eta.shape)

    def tails(self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values) -> Tails:
        degrees = self.degrees_of_freedom
        scale = sd * np.sqrt((degrees - 2) / degrees) if degrees > 2 else sd
        white = (measured - expected) / scale
        height = -special.betaln(degrees / 2, 0.5) - 0.5 * np.log(degrees) - np.log(scale)
        density = height - (degrees + 1) / 2 * np.log1p(white**2 / degrees)
        return tails_from_probabilities(
            special.stdtr(degrees, white), density, special.stdtr(degrees, -white)
        )


class AbstractLinkedDistribution(AbstractObservationDistribution):
    """About a median, a rate or a share to which the state is linked."""

    link: str

    def location(self, eta: Values, parameters: Parameters) -> Values:
        return parameters.get("exposure", 1.0) * inverse_link(self.link, eta)

    @abstractmethod
    def spread(self, location: Values, parameters: Parameters) -> Values:
        """The sd of a measurement, by Fisher's information of its location."""

    def equivalent_sd(self, eta: Values, parameters: Parameters) -> Values:
        slope = parameters.get("exposure", 1.0) * SLOPES[self.link](eta)
        return self.spread(self.location(eta, parameters), parameters) / slope


class LogNormalDistribution(AbstractLinkedDistribution):
    """By a factor, about a median."""

    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        return self.location(eta, parameters) * np.exp(
            parameters["sd"] * special.ndtri(probability)
        )

    def spread(self, location: Values, parameters: Parameters) -> Values:
        return parameters["sd"] * np.abs(location)

    def tails(self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values) -> Tails:
        # Of a logarithm's variance v, that of the value is (e^v - 1) e^v times the median squared.
        log_sd = np.sqrt(np.log((1 + np.sqrt(1 + 4 * (sd / expected) ** 2)) / 2))
        white = np.log(measured / expected) / log_sd
        return normal_tails(white, np.log(log_sd * measured))


class PoissonDistribution(AbstractLinkedDistribution):
    """Counts."""

    is_discrete = True

    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        return discrete("poisson").ppf(probability, self.location(eta, parameters))

    def spread(self, location: Values, parameters: Parameters) -> Values:
        return np.sqrt(location)

    def tails(self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values) -> Tails:
        count = np.round(measured)
        at = special.xlogy(count, expected) - expected - special.gammaln(count + 1)
        below = np.where(count > 0, special.pdtr(np.maximum(count - 1, 0), expected), 0.0)
        return tails_from_probabilities(below, at, special.pdtrc(count, expected))


class NegativeBinomialDistribution(AbstractLinkedDistribution):
    """Counts that vary more."""

    is_discrete = True

    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        size = parameters["concentration"]
        share = size / (size + self.location(eta, parameters))
        return discrete("nbinom").ppf(probability, size, share)

    def spread(self, location: Values, parameters: Parameters) -> Values:
        return np.sqrt(location + location**2 / parameters["concentration"])

    def tails(self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values) -> Tails:
        count, size = np.round(measured), expected**2 / np.maximum(sd**2 - expected, 1e-9 * sd**2)
        share = size / (size + expected)
        ways = special.gammaln(count + size) - special.gammaln(size) - special.gammaln(count + 1)
        at = ways + special.xlogy(size, share) + special.xlog1py(count, -share)
        below = np.where(count > 0, special.betainc(size, np.maximum(count, 1.0), share), 0.0)
        return tails_from_probabilities(below, at, special.betainc(count + 1, size, 1 - share))


class BinomialDistribution(AbstractLinkedDistribution):
    """Shares of trials."""

    is_discrete = True

    def quantile(self, probability: Probabilities, eta: Values, parameters: Parameters) -> Values:
        trials = np.round(parameters["trials"])
        return discrete("binom").ppf(probability, trials, self.location(eta, parameters)) / trials

    def spread(self, location: Values, parameters: Parameters) -> Values:
        return np.sqrt(location * (1 - location) / parameters["trials"])

    def tails(self, measured: Float[np.ndarray, " point"], expected: Values, sd: Values) -> Tails:
        share = np.clip(expected, 1e-12, 1 - 1e-12)
        trials = np.round(share * (1 - share) / sd**2)
        count = np.round(measured * trials)
        left = trials - count
        at = -special.betaln(left + 1, count + 1) - np.log(trials + 1)
        at = at + special.xlogy(count, share) + special.xlog1py(left, -share)
        below = np.where(
            count > 0, special.betainc(left + 1, np.maximum(count, 1.0), 1 - share), 0.0
        )
        above = np.where(left > 0, special.betainc(count + 1, np.maximum(left, 1.0), share), 0.0)
        return tails_from_probabilities(below, at, above)

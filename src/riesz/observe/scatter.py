"""How new measurements scatter about what the state says, on the host, where nothing is compiled.

By quantiles, so that one probability may serve many places. Parameters are those of the
likelihood, one row a draw.
"""

from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import expit, ndtri, stdtrit

Values = Float[np.ndarray, "draw point"]
Probabilities = Float[np.ndarray, "draw #point"]
Parameters = Mapping[str, Float[np.ndarray, "draw 1"]]

LINKS = {"identity": np.asarray, "log": np.exp, "logit": expit}
"""From what the state says to a rate or a share."""

SLOPES = {
    "identity": np.ones_like,
    "log": np.exp,
    "logit": lambda said: expit(said) * expit(-said),
}
"""Their derivatives."""


def discrete(name: str) -> Any:
    """A distribution of SciPy's, which takes half a second to import: few need one."""
    return getattr(import_module("scipy.stats"), name)


class AbstractScatter(eqx.Module):
    """A new measurement, given what the state says there."""

    @abstractmethod
    def expected(self, said: Values, parameters: Parameters) -> Values:
        """What measurements scatter about, in their unit."""

    @abstractmethod
    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        """What is not exceeded by a measurement with this probability."""

    @abstractmethod
    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        """The sd of normal noise on what the state says that would tell as much of it: by Fisher's
        information, which is that of one measurement."""


class NormalScatter(AbstractScatter):
    """By a standard deviation."""

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return said

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        return said + parameters["sd"] * ndtri(probability)

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        return np.broadcast_to(parameters["sd"], said.shape)


class SummedScatter(AbstractScatter):
    """By several standard deviations, of errors that are added."""

    names: tuple[str, ...]

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return said

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        variance = sum(parameters[name] ** 2 for name in self.names)
        return said + np.sqrt(variance) * ndtri(probability)

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        variance = sum(parameters[name] ** 2 for name in self.names)
        return np.broadcast_to(np.sqrt(variance), said.shape)


class StudentScatter(AbstractScatter):
    """With heavy tails, by a scale."""

    degrees_of_freedom: float

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return said

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        return said + parameters["sd"] * stdtrit(self.degrees_of_freedom, probability)

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        tails = (self.degrees_of_freedom + 3) / (self.degrees_of_freedom + 1)
        return np.broadcast_to(np.sqrt(tails) * parameters["sd"], said.shape)


class LogNormalScatter(AbstractScatter):
    """By a factor, about a median."""

    link: str

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return LINKS[self.link](said)

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        return self.expected(said, parameters) * np.exp(parameters["sd"] * ndtri(probability))

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        return parameters["sd"] * np.abs(LINKS[self.link](said)) / SLOPES[self.link](said)


class PoissonScatter(AbstractScatter):
    """Counts."""

    link: str

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return parameters["exposure"] * LINKS[self.link](said)

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        return discrete("poisson").ppf(probability, self.expected(said, parameters))

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        rate = self.expected(said, parameters)
        return np.sqrt(rate) / (parameters["exposure"] * SLOPES[self.link](said))


class NegativeBinomialScatter(AbstractScatter):
    """Counts that vary more."""

    link: str

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return parameters["exposure"] * LINKS[self.link](said)

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        size = parameters["concentration"]
        share = size / (size + self.expected(said, parameters))
        return discrete("nbinom").ppf(probability, size, share)

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        rate = self.expected(said, parameters)
        sd = np.sqrt(rate + rate**2 / parameters["concentration"])
        return sd / (parameters["exposure"] * SLOPES[self.link](said))


class BinomialScatter(AbstractScatter):
    """Shares of trials."""

    link: str

    def expected(self, said: Values, parameters: Parameters) -> Values:
        return LINKS[self.link](said)

    def quantile(self, probability: Probabilities, said: Values, parameters: Parameters) -> Values:
        trials = np.round(parameters["trials"])
        return discrete("binom").ppf(probability, trials, self.expected(said, parameters)) / trials

    def equivalent_sd(self, said: Values, parameters: Parameters) -> Values:
        share = self.expected(said, parameters)
        sd = np.sqrt(share * (1 - share) / parameters["trials"])
        return sd / SLOPES[self.link](said)

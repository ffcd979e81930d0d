r"""Data that are normal, and linear unknowns given them: the algebra on the host.

The data have the covariance $S = R R^\top + \operatorname{diag}\sigma^2$, with the columns $R$ of
unknowns that have standard normal coordinates.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
from jaxtyping import Float

Columns = Float[np.ndarray, "sensor column"]


@dataclass(frozen=True, eq=False)
class AbstractDataSystem(ABC):
    """The data's distribution for given scales and noise."""

    responses: Columns
    misfit: Float[np.ndarray, " sensor"]
    noise_sd: Float[np.ndarray, " sensor"]

    @cached_property
    @abstractmethod
    def weights(self) -> Float[np.ndarray, " sensor"]:
        r"""$S^{-1}$ times the misfit, with the covariance $S$ of the data."""

    @abstractmethod
    def precise(self, columns: Columns) -> Columns:
        r"""$S^{-1}$ times columns."""

    @cached_property
    @abstractmethod
    def own_precisions(self) -> Float[np.ndarray, " sensor"]:
        r"""The diagonal of $S^{-1}$."""

    @property
    @abstractmethod
    def square(self) -> float:
        r"""$m^\top S^{-1} m$ of the misfit $m$."""

    @property
    @abstractmethod
    def log_volume(self) -> float:
        r"""$\frac12 \log|S|$."""

    @abstractmethod
    def draws(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "draw linear"]:
        """Of the linear unknowns, given the data."""

    def log_likelihood(self) -> float:
        size = len(self.misfit) * np.log(2 * np.pi)
        return -0.5 * (self.square + size) - self.log_volume

    def left_out(self) -> tuple[Float[np.ndarray, " sensor"], Float[np.ndarray, " sensor"]]:
        r"""Each datum less what all others say of it, and the sd that they leave it.

        With $Q = S^{-1}$ these are $(Q m)_i / Q_{ii}$ and $Q_{ii}^{-1/2}$ (Dubrule 1983).
        """
        own = self.own_precisions
        return self.weights / own, 1 / np.sqrt(own)


class ByData(AbstractDataSystem):
    """By a factor of the data's covariance: where there are more unknowns than data."""

    @cached_property
    def factor(self) -> tuple[Float[np.ndarray, "sensor sensor"], bool]:
        covariance = self.responses @ self.responses.T + np.diag(self.noise_sd**2)
        return sla.cho_factor(covariance, lower=True)

    @cached_property
    def weights(self) -> Float[np.ndarray, " sensor"]:
        return sla.cho_solve(self.factor, self.misfit)

    @cached_property
    def precision(self) -> Float[np.ndarray, "sensor sensor"]:
        return sla.cho_solve(self.factor, np.eye(len(self.misfit)))

    def precise(self, columns: Columns) -> Columns:
        return self.precision @ columns

    @cached_property
    def own_precisions(self) -> Float[np.ndarray, " sensor"]:
        return np.diag(self.precision)

    @property
    def square(self) -> float:
        return float(self.misfit @ self.weights)

    @property
    def log_volume(self) -> float:
        return float(np.sum(np.log(np.diag(self.factor[0]))))

    def draws(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "draw linear"]:
        """Draws of the prior, corrected by the data (Matheron's rule)."""
        prior = rng.standard_normal((count, self.responses.shape[1]))
        noise = self.noise_sd * rng.standard_normal((count, len(self.misfit)))
        left = self.misfit - prior @ self.responses.T - noise
        return prior + sla.cho_solve(self.factor, left.T).T @ self.responses


class ByUnknowns(AbstractDataSystem):
    """By a factor of the unknowns' precision, of which there are fewer: linear in the data."""

    @cached_property
    def factor(self) -> tuple[Float[np.ndarray, "column column"], bool]:
        scaled = self.responses / self.noise_sd[:, None]
        return sla.cho_factor(scaled.T @ scaled + np.eye(scaled.shape[1]), lower=True)

    @cached_property
    def mean(self) -> Float[np.ndarray, " column"]:
        return sla.cho_solve(self.factor, self.responses.T @ (self.misfit / self.noise_sd**2))

    @cached_property
    def weights(self) -> Float[np.ndarray, " sensor"]:
        return (self.misfit - self.responses @ self.mean) / self.noise_sd**2

    @cached_property
    def halves(self) -> Columns:
        r"""What is taken from the noise's own precision is these times their transpose."""
        known = self.responses / self.noise_sd[:, None] ** 2
        return sla.solve_triangular(self.factor[0], known.T, lower=True).T

    def precise(self, columns: Columns) -> Columns:
        return columns / self.noise_sd[:, None] ** 2 - self.halves @ (self.halves.T @ columns)

    @cached_property
    def own_precisions(self) -> Float[np.ndarray, " sensor"]:
        return self.noise_sd**-2 - np.sum(self.halves**2, axis=1)

    @property
    def square(self) -> float:
        """As a sum of squares: a difference of what is large would leave nothing of small noise."""
        left = (self.misfit - self.responses @ self.mean) / self.noise_sd
        return float(left @ left + self.mean @ self.mean)

    @property
    def log_volume(self) -> float:
        return float(np.sum(np.log(np.diag(self.factor[0]))) + np.sum(np.log(self.noise_sd)))

    def draws(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "draw linear"]:
        white = rng.standard_normal((self.responses.shape[1], count))
        away = sla.solve_triangular(self.factor[0], white, lower=True, trans=1)
        return self.mean + away.T

r"""Data that are normal, and linear unknowns given them: the algebra on the host.

The data have the covariance $S = R R^\top + \operatorname{diag}\sigma^2$, with the columns $R$ of
unknowns that have standard normal coordinates.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
from jaxtyping import Float, Int

Columns = Float[np.ndarray, "sensor column"]
PerSensor = Float[np.ndarray, " sensor"]
Rows = Int[np.ndarray, " row"]

Groups = Sequence[Int[np.ndarray, " _"]]
"""Which observations are left out together, group by group."""


class LeftOut(NamedTuple):
    """What all others say of the data, group by group; in rows where scales have many values."""

    logs: Float[np.ndarray, "..."]  # log-densities of whole groups
    gaps: Float[np.ndarray, "..."]  # observed less expected
    sds: Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class AbstractDataSystem(ABC):
    """The data's distribution for given scales and noise."""

    responses: Columns
    misfit: PerSensor
    noise_sd: PerSensor

    @cached_property
    @abstractmethod
    def weights(self) -> PerSensor:
        r"""$S^{-1}$ times the misfit, with the covariance $S$ of the data."""

    @cached_property
    @abstractmethod
    def own_precisions(self) -> PerSensor:
        r"""The diagonal of $S^{-1}$."""

    @abstractmethod
    def precision_among(self, rows: Rows) -> Float[np.ndarray, "row row"]:
        r"""Some rows of $S^{-1}$, and the same columns."""

    def leave_out(self, groups: Groups) -> LeftOut:
        r"""Each group less what all others say of it, and the sds that they leave it.

        With $Q = S^{-1}$ a group $B$ differs by $Q_{BB}^{-1} (Q m)_B$, with the covariance
        $Q_{BB}^{-1}$ (Dubrule 1983).
        """
        own = self.own_precisions
        gaps, sds = self.weights / own, 1 / np.sqrt(own)
        if all(len(rows) == 1 for rows in groups):
            logs = 0.5 * (np.log(own / (2 * np.pi)) - own * gaps**2)
            return LeftOut(logs[np.concatenate(groups)], gaps, sds)
        logs = np.zeros(len(groups))
        for number, rows in enumerate(groups):
            factor = sla.cho_factor(self.precision_among(rows), lower=True)
            covariance = sla.cho_solve(factor, np.eye(len(rows)))
            gap = covariance @ self.weights[rows]
            gaps[rows], sds[rows] = gap, np.sqrt(np.diag(covariance))
            square = gap @ self.weights[rows] + len(rows) * np.log(2 * np.pi)
            logs[number] = np.sum(np.log(np.diag(factor[0]))) - 0.5 * square
        return LeftOut(logs, gaps, sds)

    @abstractmethod
    def precise(self, columns: Columns) -> Columns:
        r"""$S^{-1}$ times columns."""

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


class HostDataSpace(AbstractDataSystem):
    """By a factor of the data's covariance: where there are more unknowns than data."""

    @cached_property
    def factor(self) -> Float[np.ndarray, "sensor sensor"]:
        covariance = self.responses @ self.responses.T + np.diag(self.noise_sd**2)
        return sla.cholesky(covariance, lower=True)

    @cached_property
    def weights(self) -> PerSensor:
        return sla.cho_solve((self.factor, True), self.misfit)

    @cached_property
    def precision(self) -> Float[np.ndarray, "sensor sensor"]:
        return sla.cho_solve((self.factor, True), np.eye(len(self.misfit)))

    def precise(self, columns: Columns) -> Columns:
        return self.precision @ columns

    @cached_property
    def own_precisions(self) -> PerSensor:
        return np.diag(self.precision)

    def precision_among(self, rows: Rows) -> Float[np.ndarray, "row row"]:
        return self.precision[np.ix_(rows, rows)]

    @property
    def square(self) -> float:
        return float(self.misfit @ self.weights)

    @property
    def log_volume(self) -> float:
        return float(np.sum(np.log(np.diag(self.factor))))

    def draws(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "draw linear"]:
        """Draws of the prior, corrected by the data (Matheron's rule)."""
        prior = rng.standard_normal((count, self.responses.shape[1]))
        noise = self.noise_sd * rng.standard_normal((count, len(self.misfit)))
        left = self.misfit - prior @ self.responses.T - noise
        return prior + sla.cho_solve((self.factor, True), left.T).T @ self.responses


class HostParameterSpace(AbstractDataSystem):
    """By a factor of the unknowns' precision, of which there are fewer: linear in the data."""

    @cached_property
    def factor(self) -> Float[np.ndarray, "column column"]:
        scaled = self.responses / self.noise_sd[:, None]
        return sla.cholesky(scaled.T @ scaled + np.eye(scaled.shape[1]), lower=True)

    @cached_property
    def mean(self) -> Float[np.ndarray, " column"]:
        return sla.cho_solve(
            (self.factor, True), self.responses.T @ (self.misfit / self.noise_sd**2)
        )

    @cached_property
    def weights(self) -> PerSensor:
        return (self.misfit - self.responses @ self.mean) / self.noise_sd**2

    @cached_property
    def halves(self) -> Columns:
        r"""What is taken from the noise's own precision is these times their transpose."""
        known = self.responses / self.noise_sd[:, None] ** 2
        return sla.solve_triangular(self.factor, known.T, lower=True).T

    def precise(self, columns: Columns) -> Columns:
        return columns / self.noise_sd[:, None] ** 2 - self.halves @ (self.halves.T @ columns)

    @cached_property
    def own_precisions(self) -> PerSensor:
        return self.noise_sd**-2 - np.sum(self.halves**2, axis=1)

    def precision_among(self, rows: Rows) -> Float[np.ndarray, "row row"]:
        return np.diag(self.noise_sd[rows] ** -2) - self.halves[rows] @ self.halves[rows].T

    @property
    def square(self) -> float:
        """As a sum of squares: a difference of what is large would leave nothing of small noise."""
        left = (self.misfit - self.responses @ self.mean) / self.noise_sd
        return float(left @ left + self.mean @ self.mean)

    @property
    def log_volume(self) -> float:
        return float(np.sum(np.log(np.diag(self.factor))) + np.sum(np.log(self.noise_sd)))

    def draws(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "draw linear"]:
        white = rng.standard_normal((self.responses.shape[1], count))
        away = sla.solve_triangular(self.factor, white, lower=True, trans=1)
        return self.mean + away.T

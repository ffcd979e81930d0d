r"""Data that are normal, and linear unknowns given them: Gaussian algebra.

The data have the covariance $S = R R^\top + \operatorname{diag}\sigma^2$, with the columns $R$ of
unknowns that have standard normal coordinates. A factor of $S$, or of the unknowns' precision where
they are fewer than the data, gives the rest: for NumPy's arrays nothing is compiled, and with JAX's
all but what leaves data out can be traced and differentiated. (Rasmussen & Williams 2006, ch. 2.)
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import scipy.linalg as sla
from jaxtyping import Float, Int

from riesz.arrays import AnyArray, linalg_of, numpy_of

Columns = Float[AnyArray, "sensor column"]
PerSensor = Float[AnyArray, " sensor"]
Linear = Float[AnyArray, " linear"]
Rows = Int[np.ndarray, " row"]

Groups = Sequence[Int[np.ndarray, " _"]]
"""Which observations are left out together, group by group."""

Normals = Callable[[tuple[int, int]], Any]
"""Standard normal numbers in a shape, other ones at each call."""


class LeftOut(NamedTuple):
    """What all others say of the data, group by group; in rows where scales have many values."""

    logs: Float[np.ndarray, "..."]  # log-densities of whole groups
    gaps: Float[np.ndarray, "..."]  # observed less expected
    sds: Float[np.ndarray, "..."]


class AbstractDataSystem(eqx.Module):
    """The data's distribution for given scales and noise."""

    responses: Columns
    misfit: PerSensor  # the data without what is expected of them
    noise_sd: PerSensor
    unit: Any = 0.0  # the logarithm of their volume, where data are in other units than their own

    @property
    def xp(self) -> ModuleType:
        return numpy_of(self.responses)

    @cached_property
    @abstractmethod
    def factor(self) -> Columns:
        """The lower Cholesky factor of what is smaller."""

    @cached_property
    @abstractmethod
    def weights(self) -> PerSensor:
        r"""$S^{-1}$ times the misfit, with the covariance $S$ of the data."""

    @cached_property
    @abstractmethod
    def mean(self) -> Linear:
        """Of the linear unknowns, given the data."""

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

    def information(self, columns: Columns) -> Float[AnyArray, "column column"]:
        r"""$C^\top S^{-1} C$: what data tell of multiples of columns."""
        return columns.T @ self.precise(columns)

    @abstractmethod
    def variances(self, responses: Float[AnyArray, "point linear"]) -> Float[AnyArray, " point"]:
        """Given the data, of what responds so to the linear unknowns."""

    @property
    @abstractmethod
    def square(self) -> Any:
        r"""$m^\top S^{-1} m$ of the misfit $m$."""

    @property
    def log_volume(self) -> Any:
        r"""$\frac12 \log|S|$."""
        return self.xp.sum(self.xp.log(self.xp.diag(self.factor))) + self.unit

    @abstractmethod
    def draws(self, normals: Normals, count: int) -> Float[AnyArray, "draw linear"]:
        """Of the linear unknowns, given the data."""

    def on_host(self) -> "AbstractDataSystem":
        """With NumPy's arrays: what follows is not compiled."""
        return jax.tree.map(lambda leaf: np.asarray(leaf, float), self)

    def log_likelihood(self) -> Any:
        """The linear unknowns are integrated out."""
        size = len(self.misfit) * np.log(2 * np.pi)
        return -0.5 * (self.square + size) - self.log_volume

    def solve(self, columns: AnyArray) -> AnyArray:
        return linalg_of(columns).cho_solve((self.factor, True), columns)

    def whiten(self, columns: AnyArray) -> AnyArray:
        """By the factor."""
        return linalg_of(columns).solve_triangular(self.factor, columns, lower=True)


class DataSpace(AbstractDataSystem):
    """By a factor of the data's covariance: where there are more unknowns than data."""

    @cached_property
    def factor(self) -> Columns:
        covariance = self.responses @ self.responses.T + self.xp.diag(self.noise_sd**2)
        return linalg_of(covariance).cholesky(covariance, lower=True)

    @cached_property
    def weights(self) -> PerSensor:
        return self.solve(self.misfit)

    @cached_property
    def mean(self) -> Linear:
        return self.responses.T @ self.weights

    @cached_property
    def precision(self) -> Float[AnyArray, "sensor sensor"]:
        return self.solve(self.xp.eye(len(self.misfit), dtype=self.misfit.dtype))

    def precise(self, columns: Columns) -> Columns:
        return self.precision @ columns

    @cached_property
    def own_precisions(self) -> PerSensor:
        return self.xp.diag(self.precision)

    def precision_among(self, rows: Rows) -> Float[np.ndarray, "row row"]:
        return self.precision[np.ix_(rows, rows)]

    def variances(self, responses: Float[AnyArray, "point linear"]) -> Float[AnyArray, " point"]:
        white = self.whiten(self.responses @ responses.T)
        return (responses**2).sum(axis=1) - (white**2).sum(axis=0)

    @property
    def square(self) -> Any:
        return self.misfit @ self.weights

    def draws(self, normals: Normals, count: int) -> Float[AnyArray, "draw linear"]:
        """Draws of the prior, corrected by the data (Matheron's rule)."""
        prior = normals((count, self.responses.shape[1]))
        noise = self.noise_sd[None] * normals((count, len(self.misfit)))
        left = self.misfit[None] - prior @ self.responses.T - noise
        return prior + self.solve(left.T).T @ self.responses


class ParameterSpace(AbstractDataSystem):
    r"""By a factor of the precision $I + R^\top \operatorname{diag}\sigma^{-2} R$ of the unknowns,
    of which there are fewer.

    The work is linear in the number of data, and noise may be as small as it likes: nothing is
    subtracted from anything of its size.
    """

    @cached_property
    def factor(self) -> Columns:
        scaled = self.responses / self.noise_sd[:, None]
        precision = scaled.T @ scaled + self.xp.eye(scaled.shape[1], dtype=scaled.dtype)
        return linalg_of(precision).cholesky(precision, lower=True)

    @cached_property
    def mean(self) -> Linear:
        return self.solve(self.responses.T @ (self.misfit / self.noise_sd**2))

    @cached_property
    def weights(self) -> PerSensor:
        return (self.misfit - self.responses @ self.mean) / self.noise_sd**2

    @cached_property
    def halves(self) -> Columns:
        r"""What is taken from the noise's own precision is these times their transpose."""
        return self.whiten((self.responses / self.noise_sd[:, None] ** 2).T).T

    def update(self, responses: Columns, misfit: PerSensor) -> "ParameterSpace":
        """With further data, whose noise is independent of the other's and of sd one."""
        more = responses, misfit, self.xp.ones_like(misfit)
        pairs = zip((self.responses, self.misfit, self.noise_sd), more, strict=True)
        every, left, noise = map(self.xp.concatenate, pairs)
        return ParameterSpace(every, left, noise, self.unit)

    def precise(self, columns: Columns) -> Columns:
        return columns / self.noise_sd[:, None] ** 2 - self.halves @ (self.halves.T @ columns)

    @cached_property
    def own_precisions(self) -> PerSensor:
        return self.noise_sd**-2 - (self.halves**2).sum(axis=1)

    def precision_among(self, rows: Rows) -> Float[np.ndarray, "row row"]:
        return np.diag(self.noise_sd[rows] ** -2) - self.halves[rows] @ self.halves[rows].T

    def variances(self, responses: Float[AnyArray, "point linear"]) -> Float[AnyArray, " point"]:
        return (self.whiten(responses.T) ** 2).sum(axis=0)

    @property
    def square(self) -> Any:
        """As a sum of squares: a difference of what is large would leave nothing of small noise."""
        left = (self.misfit - self.responses @ self.mean) / self.noise_sd
        return left @ left + self.mean @ self.mean

    @property
    def log_volume(self) -> Any:
        return super().log_volume + self.xp.sum(self.xp.log(self.noise_sd))

    def draws(self, normals: Normals, count: int) -> Float[AnyArray, "draw linear"]:
        white, triangular = normals((self.responses.shape[1], count)), linalg_of(self.factor)
        away = triangular.solve_triangular(self.factor, white, lower=True, trans=1)
        return self.mean[None] + away.T


def data_system(
    responses: Columns, misfit: PerSensor, noise_sd: PerSensor, unit: Any = 0.0
) -> AbstractDataSystem:
    """By what is smaller."""
    form = ParameterSpace if responses.shape[1] < len(misfit) else DataSpace
    return form(responses, misfit, noise_sd, unit)

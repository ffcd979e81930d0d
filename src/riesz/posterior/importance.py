"""Importance sampling: draws with smoothed weights, and draws that are kept by these.

The one place where weighted draws of a proposal become draws of the target: their weights are
Pareto-smoothed, the tail's shape says whether they can be relied on, and systematic resampling
keeps each draw as often as its weight says (Kitagawa 1996).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from riesz.notes import Note
from riesz.posterior.checks import K_HAT
from riesz.posterior.psis import smoothed_weights


class ImportanceSample(NamedTuple):
    """Draws of a proposal, and what their weights say: they sum to one, and their tail has a shape.

    Logarithms are of the weights as they came, minus infinity for draws that are impossible.
    """

    draws: Float[np.ndarray, " draw *shape"]
    log_weights: Float[np.ndarray, " draw"]
    weights: Float[np.ndarray, " draw"]
    k_hat: float

    @property
    def effective_draws(self) -> float:
        """Draws from the target that would tell as much."""
        return float(1 / np.sum(self.weights**2))

    @property
    def log_integral(self) -> float:
        """Of the target over the proposal: the log-evidence, where the target is the joint one."""
        return float(logsumexp(self.log_weights) - np.log(len(self.log_weights)))

    def resample(
        self, count: int, start: float = 0.5, order: Int[np.ndarray, " draw"] | None = None
    ) -> Float[np.ndarray, " count *shape"]:
        """So many draws of the target."""
        return self.draws[systematic_resample(self.weights, count, start, order)]

    def notes(self, code: str) -> tuple[Note, ...]:
        """A note with this code where the weights are not to be trusted."""
        is_heavy = not self.k_hat <= K_HAT.bad
        return (Note(code, value=self.k_hat, limit=K_HAT.bad),) if is_heavy else ()


def weight_draws(
    draws: Float[np.ndarray, " draw *shape"], log_weights: Float[np.ndarray, " draw"]
) -> ImportanceSample:
    """By the logarithms of their weights; what is not finite has none."""
    logs = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    smoothed = smoothed_weights(logs)
    return ImportanceSample(draws, logs, smoothed.weights, smoothed.k_hat)


def systematic_resample(
    weights: Float[np.ndarray, " draw"],
    count: int,
    start: float = 0.5,
    order: Int[np.ndarray, " draw"] | None = None,
) -> Int[np.ndarray, " count"]:
    """Numbers of so many draws, each as often as its weight says.

    Draws are gone through in an `order`, in which neighbours should be alike: they stand in for
    each other.
    """
    ends = np.cumsum(weights if order is None else weights[order])
    levels = (np.arange(count) + start) / count
    chosen = np.minimum(np.searchsorted(ends / ends[-1], levels), len(ends) - 1)
    return chosen if order is None else order[chosen]

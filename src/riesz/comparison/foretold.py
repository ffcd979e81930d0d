"""What a model foretells of data that it was not given, and scores of that."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from riesz.diagnose.leave_one_out import UNRELIABLE

EXACT, WEIGHTS, REFIT, DOUBTFUL = "closed form", "weights", "refit", "weights that fail"
"""How a block was left out."""

LEVEL = 0.95

PerSensor = Float[np.ndarray, " sensor"]


@dataclass(frozen=True, eq=False)
class Foretold:
    """Of each observation: its log-density given those outside its block, and draws of it.

    `k_hat` is of the weights of each block, zero where there were none; `how` says how it was left
    out. Draws count alike; they are NaN where observations are only known to lie below a limit.
    """

    log_densities: PerSensor
    draws: Float[np.ndarray, "draw sensor"]
    k_hat: Float[np.ndarray, " block"]
    how: tuple[str, ...]

    @property
    def doubtful(self) -> Bool[np.ndarray, " block"]:
        return np.array([one == DOUBTFUL for one in self.how])

    @property
    def total(self) -> float:
        """The expected log predictive density (elpd)."""
        return float(self.log_densities.sum())


def way(k_hat: float, num_weights: int) -> str:
    """How a block was left out by so many weights with such a tail."""
    if num_weights == 1:
        return EXACT
    return WEIGHTS if k_hat <= UNRELIABLE else DOUBTFUL


@dataclass(frozen=True, eq=False)
class Scores:
    """Of each observation; less is better but for the log-density."""

    log_density: PerSensor
    crps: PerSensor
    error: PerSensor  # of the median
    held: PerSensor  # one where the central interval holds the observation

    def means(self) -> dict[str, float | None]:
        """Over all observations; None where none has the score."""
        named = {
            "log_density": self.log_density,
            "crps": self.crps,
            "mae": self.error,
            "coverage95": self.held,
        }
        return {
            name: float(np.nanmean(one)) if np.isfinite(one).any() else None
            for name, one in named.items()
        }


def scores(found: Foretold, observed: PerSensor) -> Scores:
    """In the unit of draws and observations."""
    draws = np.sort(found.draws, axis=0)
    count = len(draws)
    near = np.mean(np.abs(draws - observed), axis=0)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    apart = ranks @ draws / count**2  # half the mean distance between two draws
    low, median, high = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
    held = np.where(np.isnan(low), np.nan, (low <= observed) & (observed <= high))
    return Scores(found.log_densities, near - apart, np.abs(median - observed), held)

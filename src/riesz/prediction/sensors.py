"""What draws say of the observations, and how well these are met."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

ENDS = (0.025, 0.975)
"""Of the predictive intervals, which hold 95 %."""


class AtSensors(eqx.Module):
    """What one draw, or each of many, says of the observations."""

    predicted: Float[Any, "*draw sensor"]  # what they scatter about
    noise: Float[Any, "*draw sensor"]  # by this standard deviation
    measured: Float[Any, "*draw sensor"]  # new ones


@dataclass(frozen=True)
class DataFit:
    """Residuals and coverage of the values that are exact; None where there are no such values.

    `residual_rms` is the root mean square of (observed - posterior mean) / noise sd, `coverage` the
    share of values inside their 95 % posterior-predictive interval. A value that is only known to
    lie below a limit has neither.
    """

    num_observations: int
    num_censored: int
    residual_rms: float | None
    coverage: float | None


def fit_to_data(
    observed: Float[np.ndarray, " sensor"], censored: Bool[np.ndarray, " sensor"], drawn: AtSensors
) -> DataFit:
    """From draws of the posterior."""
    exact = ~censored
    num_censored = int((~exact).sum())
    if not exact.any():
        return DataFit(len(observed), num_censored, None, None)
    residuals = observed - drawn.predicted.mean(axis=0)
    residuals = residuals / np.sqrt(np.mean(drawn.noise**2, axis=0))
    inside = in_interval(observed, drawn.measured, ENDS)
    return DataFit(
        num_observations=len(observed),
        num_censored=num_censored,
        residual_rms=float(np.sqrt(np.mean(residuals[exact] ** 2))),
        coverage=float(np.mean(inside[exact])),
    )


def in_interval(
    observed: Float[np.ndarray, " sensor"],
    measured: Float[np.ndarray, "draw sensor"],
    ends: tuple[float, float],
) -> Bool[np.ndarray, " sensor"]:
    """Whether values lie in intervals of what was predicted for them.

    By the share of draws below, and half of those that are the same: counts and shares come again,
    and their whole intervals would hold too many (the mid-p of Lancaster 1961).
    """
    below = np.mean(measured < observed, axis=0) + np.mean(measured == observed, axis=0) / 2
    return (below >= ends[0]) & (below <= ends[1])

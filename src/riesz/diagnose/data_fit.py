"""How well a posterior meets the data, by draws of what it predicts for them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from riesz.problem.problem import InverseProblem

ENDS = (0.025, 0.975)
"""Of the predictive intervals, which hold 95 %."""


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

    @property
    def num_exact(self) -> int:
        return self.num_observations - self.num_censored


def fit_to_data(
    problem: InverseProblem,
    predicted: Float[np.ndarray, "draw sensor"],
    noise: Float[np.ndarray, "draw sensor"],
    measured: Float[np.ndarray, "draw sensor"],
) -> DataFit:
    """From draws of the mean of each observation, of the noise sd, and of new measurements."""
    observed, exact = np.asarray(problem.observed), ~problem.censored
    num_censored = int((~exact).sum())
    if not exact.any():
        return DataFit(len(observed), num_censored, None, None)
    residuals = (observed - predicted.mean(axis=0)) / np.sqrt(np.mean(noise**2, axis=0))
    low, high = np.quantile(measured, ENDS, axis=0)
    inside = (observed >= low) & (observed <= high)
    return DataFit(
        num_observations=len(observed),
        num_censored=num_censored,
        residual_rms=float(np.sqrt(np.mean(residuals[exact] ** 2))),
        coverage=float(np.mean(inside[exact])),
    )

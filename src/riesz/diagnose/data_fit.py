"""How well a posterior meets the data, by draws of what it predicts for them."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.prediction.predict import measured
from riesz.problem.problem import InverseProblem

ENDS = (0.025, 0.975)
"""Of the predictive intervals, which hold 95 %."""


class AtSensors(eqx.Module):
    """What one draw, or each of many, says of the observations."""

    predicted: Float[Any, "*draw sensor"]  # what they scatter about
    noise: Float[Any, "*draw sensor"]  # by this standard deviation
    measured: Float[Any, "*draw sensor"]  # new ones


def at_sensors(
    key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
) -> AtSensors:
    """Of one draw, for `quantity_draws` to gather."""
    predicted = problem.operator @ state
    mean = problem.likelihood.mean(predicted, z)
    return AtSensors(mean, problem.noise_sd(z), measured(key, problem, predicted, z))


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


def fit_to_data(problem: InverseProblem, drawn: AtSensors) -> DataFit:
    """From draws of the posterior."""
    observed, exact = np.asarray(problem.observed), ~problem.censored
    num_censored = int((~exact).sum())
    if not exact.any():
        return DataFit(len(observed), num_censored, None, None)
    residuals = observed - drawn.predicted.mean(axis=0)
    residuals = residuals / np.sqrt(np.mean(drawn.noise**2, axis=0))
    low, high = np.quantile(drawn.measured, ENDS, axis=0)
    inside = (observed >= low) & (observed <= high)
    return DataFit(
        num_observations=len(observed),
        num_censored=num_censored,
        residual_rms=float(np.sqrt(np.mean(residuals[exact] ** 2))),
        coverage=float(np.mean(inside[exact])),
    )

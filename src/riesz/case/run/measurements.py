"""Measurements beside what was predicted for them, in the unit of the measurements."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from riesz.case.run.measured import Measured
from riesz.diagnose.data_fit import ENDS
from riesz.io.maps.geopackage import Table, geopackage_modules
from riesz.posterior.posterior import Posterior
from riesz.prediction.predict import measured, quantity_draws
from riesz.problem.problem import InverseProblem


@dataclass(frozen=True, eq=False)
class Wells:
    """Measurements in their unit, and what was predicted for them."""

    points: Float[np.ndarray, "sensor 2"]
    measured: Float[np.ndarray, " sensor"]
    predicted: Float[np.ndarray, " sensor"]
    sd: Float[np.ndarray, " sensor"]  # of the prediction, without noise
    low: Float[np.ndarray, " sensor"]  # ends of the interval of a new measurement
    high: Float[np.ndarray, " sensor"]
    censored: Bool[np.ndarray, " sensor"]  # known only to lie below what was measured

    @property
    def residuals(self) -> Float[np.ndarray, " sensor"]:
        """Measured less predicted; NaN where the measured value is a limit."""
        return np.where(self.censored, np.nan, self.measured - self.predicted)


class AtSensors(eqx.Module):
    """What measurements scatter about at the sensors, and new ones."""

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> dict[str, Float[Array, " sensor"]]:
        predicted = problem.operator @ state
        return {
            "predicted": problem.likelihood.mean(predicted, z),
            "measured": measured(key, problem, predicted, z),
        }


def predicted_wells(posterior: Posterior, of: Measured, *, num_draws: int, seed: int) -> Wells:
    """Draw from the posterior at the sensors."""
    drawn = quantity_draws(posterior, AtSensors(), num_draws=num_draws, seed=seed)
    return wells_of(posterior.problem, of, drawn["predicted"], drawn["measured"])


def wells_of(
    problem: InverseProblem,
    of: Measured,
    predicted: Float[np.ndarray, "draw sensor"],
    again: Float[np.ndarray, "draw sensor"],
) -> Wells:
    """From draws of what measurements scatter about, and of new ones."""
    values = np.asarray(of.of(predicted))
    low, high = np.quantile(of.of(again), ENDS, axis=0)
    return Wells(
        points=problem.observations.points,
        measured=np.asarray(of.of(np.asarray(problem.observed))),
        predicted=values.mean(axis=0),
        sd=values.std(axis=0, ddof=1),
        low=low,
        high=high,
        censored=problem.censored,
    )


def wells_layer(wells: Wells, unit: str | None) -> tuple[Table, list[Any]]:
    """Measurements with what was predicted there."""
    _, shapely = geopackage_modules()
    table: Table = {
        "measured": wells.measured.tolist(),
        "predicted": wells.predicted.tolist(),
        "residual": wells.residuals.tolist(),
        "sd": wells.sd.tolist(),
        "low_95": wells.low.tolist(),
        "high_95": wells.high.tolist(),
        "censored": wells.censored.tolist(),
        "unit": [unit or ""] * len(wells.measured),
    }
    return table, list(shapely.points(wells.points))

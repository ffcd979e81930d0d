r"""A plane through the measurements, by least squares.

With $n$ places and the three columns of $X$, the prediction at $x$ is Student's t with $n - 3$
degrees of freedom about $x^\top\hat\beta$, of scale $s \sqrt{1 + x^\top (X^\top X)^{-1} x}$ and
$s^2 = |y - X\hat\beta|^2 / (n - 3)$: exact for normal errors, and under the flat prior.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats
from jaxtyping import Float

from riesz.errors import RieszError
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import NUM_DRAWS, Draws, Method, Values

NUM_COEFFICIENTS = 3


@dataclass(frozen=True, eq=False)
class LinearTrend:
    """A fitted plane, in coordinates that are scaled to mean 0 and sd 1."""

    centre: Float[np.ndarray, " 2"]
    spread: Float[np.ndarray, " 2"]
    coefficients: Float[np.ndarray, " 3"]
    triangle: Float[np.ndarray, "3 3"]  # R of X = Q R
    scale: float  # of the errors
    freedom: int

    def __call__(self, at: Covariates) -> Draws:
        columns = columns_at(at, self.centre, self.spread)
        away = scipy.linalg.solve_triangular(self.triangle.T, columns.T, lower=True)
        scales = self.scale * np.sqrt(1 + np.sum(away**2, axis=0))
        levels = (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
        quantiles = scipy.stats.t.ppf(levels, self.freedom)
        return columns @ self.coefficients + scales[None, :] * quantiles[:, None]


def linear_trend() -> Method:
    """A level and two slopes, for a quantity in its own units."""

    def train(training: Covariates, target: Values, *, seed: int) -> LinearTrend:
        del seed
        check_target(training, target)
        freedom = len(target) - NUM_COEFFICIENTS
        centre, spread = training.points.mean(axis=0), training.points.std(axis=0)
        if freedom < 1 or not spread.all():
            raise RieszError(
                f"a plane needs more than {NUM_COEFFICIENTS} places that are not on one line: "
                f"there are {len(target)}, with spreads {spread.tolist()}."
            )
        columns = columns_at(training, centre, spread)
        orthogonal, triangle = np.linalg.qr(columns)
        coefficients = scipy.linalg.solve_triangular(triangle, orthogonal.T @ target)
        scale = float(np.linalg.norm(target - columns @ coefficients) / np.sqrt(freedom))
        return LinearTrend(centre, spread, coefficients, triangle, scale, freedom)

    return train


def columns_at(
    at: Covariates, centre: Float[np.ndarray, " 2"], spread: Float[np.ndarray, " 2"]
) -> Float[np.ndarray, "place 3"]:
    """Ones and scaled coordinates."""
    return np.column_stack([np.ones(len(at)), (at.points - centre) / spread])

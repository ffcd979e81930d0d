"""What people have already: nearest neighbour, kriging and a Gaussian process, in a few lines.

Each takes places and values, and gives the mean and the sd of a new measurement at other places.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.distance import cdist, pdist

NUM_LAGS = 12
SHAPES = {
    "exponential": lambda h: 1 - np.exp(-3 * h),
    "spherical": lambda h: np.where(h < 1, 1.5 * h - 0.5 * h**3, 1.0),
}
"""Variograms that reach their sill at a distance of one."""


class Predicted(NamedTuple):
    mean: np.ndarray
    sd: np.ndarray


def nearest(points, values, at) -> Predicted:
    """The value of the nearest; its spread is that of the nearest among the values themselves."""
    own = cdist(points, points)
    np.fill_diagonal(own, np.inf)
    misses = values - values[own.argmin(axis=1)]
    found = values[cdist(at, points).argmin(axis=1)]
    return Predicted(found, np.full(len(at), np.sqrt(np.mean(misses**2))))


class Variogram(NamedTuple):
    """A nugget, and a structure that reaches its sill at a range."""

    nugget: float
    sill: float
    reach: float
    shape: str

    def covariance(self, distance):
        return self.sill * (1 - SHAPES[self.shape](distance / self.reach))


def fitted_variogram(points, values) -> Variogram:
    """By weighted least squares on the empirical one, as textbooks have it (Cressie 1985)."""
    distance, half = pdist(points), 0.5 * pdist(values[:, None], "sqeuclidean")
    edges = np.linspace(0, 0.5 * distance.max(), NUM_LAGS + 1)
    bins = np.digitize(distance, edges)
    rows = [bins == number for number in range(1, NUM_LAGS + 1)]
    rows = [one for one in rows if one.sum() >= 5]
    lags, gamma, counts = (
        np.array([of(one) for one in rows])
        for of in (lambda r: distance[r].mean(), lambda r: half[r].mean(), lambda r: r.sum())
    )
    variance, best = values.var(), None
    for shape, of in SHAPES.items():

        def misfit(log, of=of):
            nugget, sill, reach = np.exp(log)
            model = nugget + sill * of(lags / reach)
            return np.sqrt(counts) * (gamma - model) / model

        for share in (0.1, 0.3, 0.6):
            start = np.log([0.1 * variance, variance, share * edges[-1]])
            found = least_squares(misfit, start, bounds=(start - 12, start + 4))
            if best is None or found.cost < best[0]:
                best = (found.cost, Variogram(*np.exp(found.x), shape))
    return best[1]


def kriging(points, values, at, *, slopes: bool) -> Predicted:
    """Ordinary kriging or, with slopes, universal kriging with a linear trend.

    The variogram of the latter is that of what a trend by least squares leaves.
    """
    centre, scale = points.mean(axis=0), points.std()
    basis = lambda x: np.hstack([np.ones((len(x), 1)), *([(x - centre) / scale] * slopes)])  # noqa: E731
    trend = basis(points)
    left = values - trend @ np.linalg.lstsq(trend, values, rcond=None)[0]
    variogram = fitted_variogram(points, left)
    own = variogram.covariance(cdist(points, points))
    own[np.diag_indices(len(points))] += variogram.nugget
    size = trend.shape[1]
    system = np.block([[own, trend], [trend.T, np.zeros((size, size))]])
    near = np.vstack([variogram.covariance(cdist(points, at)), basis(at).T])
    weights = np.linalg.solve(system, near)
    variance = variogram.sill + variogram.nugget - np.sum(weights * near, axis=0)
    mean = values @ weights[: len(points)]
    return Predicted(mean, np.sqrt(np.maximum(variance, variogram.nugget)))


def gaussian_process(points, values, at) -> Predicted:
    """Matern 3/2 with its scales and the noise learned, by scikit-learn."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    scale = points.std()
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(0.5, (1e-3, 1e2), nu=1.5) + WhiteKernel(
        0.1, (1e-6, 10.0)
    )
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=4, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(points / scale, values)
    return Predicted(*model.predict(at / scale, return_std=True))


METHODS = {
    "nearest neighbour": nearest,
    "ordinary kriging": lambda *given: kriging(*given, slopes=False),
    "universal kriging": lambda *given: kriging(*given, slopes=True),
    "Gaussian process": gaussian_process,
}

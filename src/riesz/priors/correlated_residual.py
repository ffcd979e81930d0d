r"""What neighbours share beyond what the equation and covariates tell of them.

A process $v$ of short range is added to the state, exact at the sensors: $v \sim N(0, K)$ with a
Matern 3/2 kernel whose sd and range are learned, and at another place $x$ normal about
$k(x, P)\,K^{-1} v$ with the variance $k(x, x) - k(x, P)\,K^{-1} k(P, x)$. It is the discrepancy of
Kennedy & O'Hagan (2001), or the short structure of a nested variogram.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Float

from riesz.arrays import on_device
from riesz.priors import kernels

if TYPE_CHECKING:
    from riesz.priors.gaussian_process import GP

SPREAD = kernels.LearnedScales(sd=1.0, length=1.0)
MOST_LENGTHS = 8
"""Of draws, for which a matrix between the sensors is factorised: what follows from it changes
little from one to the next."""


class LocalMoments(NamedTuple):
    """Of the local effect at points, given it at the sensors: normal, one row a draw."""

    mean: Float[np.ndarray, "draw point"]
    sd: Float[np.ndarray, "draw point"]


class LocalEffect(eqx.Module):
    """A process of short range at sensors; `sd` and `length_scale` are medians of learned ones.

    It takes part in a problem twice: `prior` among the latents, itself in the likelihood.
    """

    kernel: kernels.AbstractKernel
    points: Float[Array, "sensor dim"]
    places: Float[Array, "place dim"]  # the points, each once

    def __init__(self, points: Any, sd: float, length_scale: float):
        self.kernel = kernels.Matern32(length_scale, sd)
        self.points = on_device(points, float)
        self.places = on_device(np.unique(np.asarray(points, float), axis=0))

    def prior(self) -> "GP":
        # Imported when asked for: predictions from kept draws do without priors.
        module = import_module("riesz.priors.gaussian_process")
        return module.GP(self.kernel, np.asarray(self.places), learned=SPREAD)

    def split(
        self, weights: Float[Array, " weight"]
    ) -> tuple[kernels.AbstractKernel, Float[Array, " place"]]:
        """The kernel with its learned scales, and the weights of the places."""
        count = kernels.num_scales(self.kernel)
        return kernels.with_scales(self.kernel, weights[:count]), weights[count:]

    def at_sensors(self, weights: Float[Array, " weight"]) -> Float[Array, " sensor"]:
        kernel, own = self.split(weights)
        return kernel.matrix(self.points.astype(own.dtype), self.places.astype(own.dtype)) @ own

    def moments_at(
        self, points: Float[np.ndarray, "point dim"], weights: Float[np.ndarray, "draw weight"]
    ) -> LocalMoments:
        """Of it at other points for draws of its weights, on the host, where nothing is compiled.

        Lengths share factorisations: where there are many, what follows from them is interpolated
        between a few. A draw at a point is the mean plus the sd times a normal number;
        `LocalEffect` itself is at the sensors.
        """
        places = np.asarray(self.places, float)
        sd, lengths, own = np.split(np.asarray(weights, float), [1, 2], axis=1)
        values = np.empty(own.shape)  # at the places
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            matrix = kernels.with_scales(self.kernel, np.array([1.0, length])).matrix(
                places, places
            )
            matrix += kernels.JITTER * np.eye(len(places))
            values[rows] = sd[rows] ** 2 * own[rows] @ matrix
        mean, left = np.zeros((2, len(weights), len(points)))
        for length, share in zip(*shares_of(lengths[:, 0]), strict=True):
            rows = np.flatnonzero(share)
            kernel = kernels.with_scales(self.kernel, np.array([1.0, length]))
            factor, near = kernels.covariance_factor(kernel, places), kernel.matrix(places, points)
            white = sla.solve_triangular(factor, near, lower=True)
            solved = sla.solve_triangular(factor, values[rows].T, lower=True).T
            mean[rows] += share[rows, None] * (solved @ white)
            left[rows] += share[rows, None] * (1 - np.einsum("ij,ij->j", white, white))
        return LocalMoments(mean, sd * np.sqrt(np.maximum(left, 0.0)))

    def describe(self) -> str:
        sd, length = float(self.kernel.sd), float(kernels.length_scale_of(self.kernel)[0])
        return f"what neighbours share: sd about {sd:.4g}, range about {length:.4g}, both learned"


def shares_of(
    lengths: Float[np.ndarray, " draw"],
) -> tuple[Float[np.ndarray, " knot"], Float[np.ndarray, "knot draw"]]:
    """Lengths to compute at, and how much each tells of every draw: linear in the logarithm."""
    logs = np.log(lengths)
    knots = np.unique(logs)
    if len(knots) > MOST_LENGTHS:
        knots = np.linspace(knots[0], knots[-1], MOST_LENGTHS)
    return np.exp(knots), np.array([np.interp(logs, knots, one) for one in np.eye(len(knots))])

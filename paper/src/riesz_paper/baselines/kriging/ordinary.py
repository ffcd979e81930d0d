r"""Ordinary kriging: a stationary field around an unknown constant, and nothing but places known.

The covariance is $c\,\rho(h/a)$ and a nugget where $h = 0$; sill, range and nugget maximise the
restricted likelihood. Source: Cressie (1993), Statistics for Spatial Data, chapters 2 and 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError, any_of, nearest
from riesz.method.training import minimise
from riesz.priors.kernels import TINY
from riesz_paper.baselines.kriging.unbiased import best_unbiased, restricted_cost
from riesz_paper.baselines.standard import Standard, standard_of
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.effects import squared_distances
from riesz_paper.regression.gaussian import jittered
from riesz_paper.regression.method import Draws, Method, Values

JITTER = 1e-8
RANGE_SHARE = 0.15
"""Where the search for the range starts, as a share of the extent of the places."""

Matrix = Float[Array, "place other"]
Points = Float[Array, "place 2"]
Moments = tuple[Float[Array, " other"], Float[Array, " other"]]


def exponential(distance: Matrix) -> Matrix:
    return jnp.exp(-distance)


def spherical(distance: Matrix) -> Matrix:
    return jnp.where(distance < 1, 1 - 1.5 * distance + 0.5 * distance**3, 0.0)


SHAPES: Mapping[str, Callable[[Matrix], Matrix]] = {
    "exponential": exponential,
    "spherical": spherical,
}


class Variogram(eqx.Module):
    """Logarithms of what a stationary covariance has; what is fitted."""

    log_sill: Float[Array, ""]  # variance of the field, without the nugget
    log_range: Float[Array, ""]
    log_nugget: Float[Array, ""]

    def covariance(self, shape: str, points: Points, others: Float[Array, "other 2"]) -> Matrix:
        """Of the field between places; the nugget is no part of it."""
        distance = jnp.sqrt(squared_distances(points, others) + TINY)
        return jnp.exp(self.log_sill) * SHAPES[shape](distance / jnp.exp(self.log_range))

    def measured(self, shape: str, points: Points) -> Float[Array, "place place"]:
        """Of measurements, each with a nugget of its own."""
        nugget = jnp.exp(self.log_nugget) + JITTER
        return self.covariance(shape, points, points) + nugget * jnp.eye(len(points))


@dataclass(frozen=True, eq=False)
class Kriging:
    """A trained variogram with its measurements."""

    shape: str
    variogram: Variogram
    points: Points
    values: Float[Array, " place"]
    standard: Standard

    def __call__(self, at: Covariates) -> Draws:
        moments = kriged(
            self.variogram, self.shape, self.points, self.values, jnp.asarray(at.points)
        )
        return self.standard.draws(*moments)


def kriging(shape: str = "exponential") -> Method:
    """Ordinary kriging of a quantity in its own units; other numbers are not looked at.

    The likelihood of a spherical covariance may have several maxima: seeds may end in different
    ones.
    """
    if shape not in SHAPES:
        raise RieszError(
            f"the shape is {shape!r}: {nearest(shape, tuple(SHAPES))}it is {any_of(tuple(SHAPES))}."
        )

    def train(training: Covariates, target: Values, *, seed: int) -> Kriging:
        check_target(training, target)
        points, standard = jnp.asarray(training.points), standard_of(target)
        extent = float(np.ptp(training.points, axis=0).max())
        centre = Variogram(jnp.log(0.7), jnp.log(RANGE_SHARE * extent), jnp.log(0.3))
        start = centre if seed == 0 else jittered(centre, jr.key(seed))
        values = standard.scaled(target)
        found = minimise(start, cost, shape, points, values)
        return Kriging(shape, found, points, values, standard)

    return train


def ordinary_kriging(
    covariance: Float[Array, "place place"],
    values: Float[Array, " place"],
    cross: Matrix,
    variances: Float[Array, " other"],
) -> Moments:
    """Mean and kriging variance at other places; weights of the values sum to one."""
    one = jnp.ones((len(values), 1))
    return best_unbiased(covariance, one, values, cross, jnp.ones((len(variances), 1)), variances)


@eqx.filter_jit
def kriged(
    variogram: Variogram,
    shape: str,
    points: Points,
    values: Float[Array, " place"],
    others: Float[Array, "other 2"],
) -> Moments:
    """Moments of new measurements."""
    sill = jnp.exp(variogram.log_sill) + jnp.exp(variogram.log_nugget)
    return ordinary_kriging(
        variogram.measured(shape, points),
        values,
        variogram.covariance(shape, points, others),
        jnp.full(len(others), sill),
    )


@eqx.filter_jit
@eqx.filter_value_and_grad
def cost(variogram: Variogram, shape: str, points: Points, values: Float[Array, " place"]):
    covariance = variogram.measured(shape, points)
    return restricted_cost(covariance, jnp.ones((len(values), 1)), values)

"""The one interface of methods that predict a positive quantity from covariates.

A method is trained on places where the quantity is known, and gives a predictor: draws of the
quantity at other places, in its own units. Scores need nothing else.
"""

from typing import Protocol, runtime_checkable

import numpy as np
import scipy.special
from jaxtyping import Float

from riesz_paper.regression.covariates import Covariates

NUM_DRAWS = 1000

Values = Float[np.ndarray, " place"]
Draws = Float[np.ndarray, "draw place"]


@runtime_checkable
class Predictor(Protocol):
    """A trained method."""

    def __call__(self, at: Covariates) -> Draws:
        """Draws of the quantity as it would be measured, noise included."""
        ...


@runtime_checkable
class Method(Protocol):
    """How a predictor is trained; the same seed gives the same one."""

    def __call__(self, training: Covariates, target: Values, *, seed: int) -> Predictor: ...


def normal_draws(mean: Values, sd: Values, num_draws: int = NUM_DRAWS) -> Draws:
    """Quantiles of normal distributions at evenly spread levels: draws without their noise."""
    levels = (np.arange(num_draws) + 0.5) / num_draws
    return mean[None, :] + sd[None, :] * scipy.special.ndtri(levels)[:, None]


def noisy_draws(mean: Values, sd: Values, noise: float, freedom: float | None) -> Draws:
    """Of a normal quantity with noise, normal or by Student's t; their median is the mean."""
    if freedom is None:
        return normal_draws(mean, np.hypot(sd, noise))
    rng = np.random.default_rng(0)
    shape = (NUM_DRAWS // 2, 1)
    away = sd * rng.standard_normal(shape) + noise * rng.standard_t(freedom, shape)
    return mean + np.concatenate([away, -away])

"""Numbers on a scale where their mean is 0 and their sd 1, and back."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz_paper.regression.method import Draws, Values, normal_draws


@dataclass(frozen=True)
class Standard:
    """The scale of one quantity."""

    centre: float
    spread: float

    def scaled(self, values: Values) -> Float[Array, " place"]:
        return jnp.asarray((values - self.centre) / self.spread)

    def draws(self, mean: Float[Array, " place"], variance: Float[Array, " place"]) -> Draws:
        """Normal draws in the quantity's own units, from moments on this scale."""
        sd = np.sqrt(np.maximum(np.asarray(variance), 0.0))
        return normal_draws(self.centre + self.spread * np.asarray(mean), self.spread * sd)


def standard_of(values: Values) -> Standard:
    """A quantity that does not vary keeps its unit."""
    return Standard(float(values.mean()), float(values.std()) or 1.0)

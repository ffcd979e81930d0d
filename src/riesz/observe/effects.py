"""Covariates beside the state: what was measured is the state plus effects of them, plus noise."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PyTree

from riesz.observe.likelihood import AbstractLikelihood, Scale


class WithEffects(AbstractLikelihood):
    r"""$y = u(x) + C\,\beta$ + noise, with the covariates in the rows of $C$.

    The effects $\beta$ are an unknown of the problem, `name`; the noise is that of `base`.
    """

    sd: Scale
    base: AbstractLikelihood
    design: Float[Array, "sensor effect"]
    labels: tuple[str, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(
        self,
        base: AbstractLikelihood,
        design: Any,
        labels: tuple[str, ...] = (),
        name: str = "effects",
    ):
        self.sd, self.base = base.sd, base
        self.design, self.labels, self.name = jnp.asarray(design), labels, name

    @property
    def is_normal(self) -> bool:
        return self.base.is_normal

    @property
    def censored(self) -> Bool[Array, " sensor"] | None:
        return self.base.censored

    @property
    def shifts(self) -> bool:
        return True

    def mean(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        return predicted + self.design.astype(predicted.dtype) @ z[self.name]

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return self.base.distribution(self.mean(predicted, z), z)

    def describe(self) -> str:
        return f"{self.base.describe()}; values are shifted by {self.design.shape[1]} effects"

"""Covariates beside the state: what was measured is the state plus effects of them, plus noise."""

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from riesz.observe.likelihood import AbstractLikelihood, Scale


class WithEffects(AbstractLikelihood):
    r"""$y = u(x) + C\,\beta$ + noise, with the covariates in the rows of $C$.

    The effects $\beta$ are an unknown of the problem, `name`; the noise is that of `base`.
    """

    base: AbstractLikelihood
    design: Float[Array, "sensor effect"] = eqx.field(converter=jnp.asarray)
    labels: tuple[str, ...] = eqx.field(static=True, default=())
    name: str = eqx.field(static=True, default="effects")

    @property
    def sd(self) -> Scale:
        return self.base.sd

    @property
    def is_normal(self) -> bool:
        return self.base.is_normal

    @property
    def shifts(self) -> bool:
        return True

    def mean(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        return predicted + self.design.astype(predicted.dtype) @ z[self.name]

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return self.base.distribution(self.mean(predicted, z), z)

    def describe(self) -> str:
        return f"{self.base.describe()}; values are shifted by {self.design.shape[1]} effects"

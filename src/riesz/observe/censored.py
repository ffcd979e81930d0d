"""Normal noise where some values are only known to lie below a detection limit."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Bool, Float, PyTree

from riesz.observe.likelihood import AbstractLikelihood, Scale, as_scale, scale_text


class CensoredNormal(dist.Normal):
    r"""A normal distribution of which some outcomes are told as "below this value" only.

    For those the log-probability is $\log\Phi((l - \mu)/\sigma)$ with the limit $l$ (Tobin 1958);
    draws are of the measurement itself, limit or not.
    """

    def __init__(self, loc: Float[Array, " point"], scale: Float[Array, " point"], below: Any):
        self.below = below
        super().__init__(loc, scale)

    def log_prob(self, value: Any, intermediates: list[Any] | None = None) -> Float[Array, "..."]:
        scale = jnp.asarray(self.scale)
        white = (value - self.loc) / scale
        density = -0.5 * white**2 - jnp.log(scale * jnp.sqrt(2 * jnp.pi))
        # Where the other branch is taken its slope must still be finite, or gradients are lost.
        share = log_ndtr(jnp.where(self.below, white, 0.0))
        return jnp.where(self.below, share, density)


class Censored(AbstractLikelihood):
    """Independent normal noise; of observations `below`, the value is a limit they lie under."""

    sd: Scale = eqx.field(converter=as_scale)
    below: Bool[Array, " sensor"] = eqx.field(converter=jnp.asarray)

    @property
    def censored(self) -> Bool[Array, " sensor"]:
        return self.below

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return CensoredNormal(predicted, self.noise_sd(predicted, z), self.below)

    def describe(self) -> str:
        count = int(self.below.sum())
        return (
            f"normal, {scale_text(self.sd)}; {count} of {self.below.size} values are upper limits"
        )

"""How observed values scatter about the state; some are only known to lie below a limit."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError

Scale = float | Float[Array, " sensor"] | str | Callable[[PyTree], Any]
"""A known standard deviation, one for all or one each; the name of a latent that is to be learned;
or a function of the latents."""


def as_scale(value: Any) -> Scale:
    if isinstance(value, str) or callable(value):
        return value
    try:
        values = np.asarray(value, float)
    except (TypeError, ValueError):
        raise RieszError(
            f"the noise sd is {value!r}: give a number, one for each observation, the name of a "
            "latent, or a function of the latents."
        ) from None
    bad = np.argwhere(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        first = tuple(bad[0].tolist())
        where = f" for observation {first[0]}" if first else ""
        raise RieszError(f"the noise sd is {values[first]}{where}: it must be positive and finite.")
    return float(values) if values.ndim == 0 else jnp.asarray(values)


class AbstractLikelihood(eqx.Module):
    """The density of observations around predicted values."""

    sd: eqx.AbstractVar[Scale]

    @abstractmethod
    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        """The distribution of the observations, given the state at the sensors."""

    @abstractmethod
    def describe(self) -> str:
        """The noise in a few words."""

    def scale(self, z: PyTree) -> Float[Array, "..."]:
        """The scale of the noise as it was given: one for all, or one for each observation."""
        if isinstance(self.sd, str):
            return z[self.sd]
        return jnp.asarray(self.sd(z) if callable(self.sd) else self.sd)

    def noise_sd(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """One for each predicted value, in its precision."""
        return jnp.broadcast_to(self.scale(z).astype(predicted.dtype), predicted.shape)

    def mean(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """What observations scatter about: the state at the sensors, unless unknowns shift it."""
        return predicted

    def elsewhere(
        self,
        key: PRNGKeyArray,
        predicted: Float[Array, " point"],
        z: PyTree,
        points: Float[Array, "point dim"],
        design: Float[Array, "point effect"] | None = None,
    ) -> Float[Array, " point"]:
        """What new measurements at other places scatter about; `design` holds covariates there.

        Without it covariates are taken to be those of the state itself, where effects are zero.
        """
        return predicted

    @property
    def noise(self) -> "AbstractLikelihood":
        """How observations scatter about their mean."""
        return self

    @property
    def is_normal(self) -> bool:
        """Whether all observations scatter normally about their mean."""
        return False

    @property
    def censored(self) -> Bool[Array, " sensor"] | None:
        """Which observations are only known to lie below their value; None where all are exact."""
        return None

    def shifts(self, z: PyTree) -> dict[str, Float[Array, "sensor value"]]:
        """What shifts the mean beside the state: by unknown, the matrix of its values.

        Where an unknown has scales, those of `z` are in the matrix, and its other values are meant.
        """
        return {}

    def log_prob(
        self, observed: Float[Array, " sensor"], predicted: Float[Array, " sensor"], z: PyTree
    ) -> Float[Array, ""]:
        """The log-density of all observations."""
        return jnp.sum(self.distribution(predicted, z).log_prob(observed))


class Gaussian(AbstractLikelihood):
    """Independent normal noise.

    `sd` is a number, or one for each observation; the name of an unknown, if it is to be learned;
    or a function of the unknowns.
    """

    sd: Scale = eqx.field(converter=as_scale)

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return dist.Normal(predicted, self.noise_sd(predicted, z))

    @property
    def is_normal(self) -> bool:
        return True

    def describe(self) -> str:
        return f"normal, {scale_text(self.sd)}"


class StudentT(AbstractLikelihood):
    """Independent noise with heavy tails: some observations may be far off."""

    sd: Scale = eqx.field(converter=as_scale)
    degrees_of_freedom: float = 4.0

    def __check_init__(self):
        if not self.degrees_of_freedom > 0:
            raise RieszError(
                f"degrees_of_freedom is {self.degrees_of_freedom}: it must be positive."
            )

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        degrees = jnp.asarray(self.degrees_of_freedom, predicted.dtype)
        return dist.StudentT(degrees, predicted, self.noise_sd(predicted, z))

    def describe(self) -> str:
        return (
            f"Student-t with {self.degrees_of_freedom:g} degrees of freedom, {scale_text(self.sd)}"
        )


def scale_text(scale: Scale) -> str:
    if isinstance(scale, str):
        return f"sd {scale!r} learned"
    if callable(scale):
        return "sd a function of the unknowns"
    if isinstance(scale, float):
        return f"sd {scale:.4g}"
    values = np.asarray(scale)
    return f"sd {values.min():.4g} .. {values.max():.4g}, one for each observation"


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

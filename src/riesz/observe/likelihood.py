"""How observed values scatter about the state; some are only known to lie below a limit."""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError
from riesz.observe.distributions import (
    AbstractObservationDistribution,
    NormalDistribution,
    StudentDistribution,
)
from riesz.observe.factors import AbstractFactor, Independent, NormalVector

Scale = float | Float[Array, " sensor"] | str | Callable[[PyTree], Any]
"""A known standard deviation, one for all or one each; the name of a latent that is to be learned;
or a function of the latents."""


def as_scale(value: Any, name: str = "noise sd") -> Scale:
    if isinstance(value, str) or callable(value):
        return value
    try:
        values = np.asarray(value, float)
    except (TypeError, ValueError):
        raise RieszError(
            f"the {name} is {value!r}: give a number, one for each observation, the name of a "
            "latent, or a function of the latents."
        ) from None
    bad = np.argwhere(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        first = tuple(bad[0].tolist())
        where = f" for observation {first[0]}" if first else ""
        raise RieszError(f"the {name} is {values[first]}{where}: it must be positive and finite.")
    return float(values) if values.ndim == 0 else jnp.asarray(values)


def scale_at(scale: Scale, z: PyTree) -> Float[Array, "..."]:
    """Its value, where the unknowns have theirs: one for all, or one for each observation."""
    if isinstance(scale, str):
        return z[scale]
    return jnp.asarray(scale(z) if callable(scale) else scale)


class AbstractLikelihood(eqx.Module):
    """The density of observations, given what the state says of each.

    A class of one's own gives `distribution` and `describe`: the density `exact` asks for no more.
    Positive numbers in it that may be unknown are named by `scales`, and read by `parameters`;
    where values can be impossible, `check_values` says so. Noise that is added to what the state
    says is an `AbstractNoise`, which other densities take too.
    """

    is_normal = False
    """Whether all observations scatter normally about their mean, by `factor`."""

    is_independent = True
    """Whether each observation scatters by itself."""

    is_additive = False
    """Whether noise of an sd that the state does not change is added to it."""

    is_discrete = False
    """Whether the same value may be observed again."""

    host_kind: ClassVar[type[AbstractObservationDistribution] | None] = None
    """The kind of its distribution on the host, whose fields are its own."""

    @abstractmethod
    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        """The distribution of the observations, given the state at the sensors."""

    @abstractmethod
    def describe(self) -> str:
        """The noise in a few words."""

    def scales(self) -> dict[str, Scale]:
        """Positive numbers of the noise by what they are called: known, or named as unknowns."""
        return {}

    def parameters(self, z: PyTree) -> dict[str, Float[Array, "..."]]:
        """All numbers that the distribution has beside what is predicted, at values of unknowns."""
        return {name: scale_at(scale, z) for name, scale in self.scales().items()}

    @property
    def noise(self) -> "AbstractLikelihood":
        """How new measurements scatter about their mean, elsewhere as at the sensors."""
        return self

    @property
    def main(self) -> "AbstractLikelihood":
        """Of the first data set, which new measurements elsewhere are like."""
        return self

    def parts(self, num_sensors: int) -> tuple[tuple["AbstractLikelihood", int], ...]:
        """Likelihoods of one kind each, with their numbers of observations, in their order."""
        return ((self, num_sensors),)

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        """Raise where an observed value is impossible."""
        return

    def noise_sd(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """Of an observation about what is expected of it, in its unit."""
        variance = jnp.asarray(self.distribution(predicted, z).variance)
        return jnp.broadcast_to(jnp.sqrt(variance), predicted.shape)

    def factor(self, predicted: Float[Array, " sensor"], z: PyTree) -> AbstractFactor:
        """What makes errors independent, each of sd one."""
        return Independent(self.noise_sd(predicted, z))

    def location(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """The mean of the observations, in their unit."""
        return jnp.asarray(self.distribution(predicted, z).mean)

    def mean(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """The state at the sensors, with what unknowns shift it by for the observations."""
        return predicted

    def new(self, mean: Float[Array, " point"], z: PyTree) -> dist.Distribution:
        """The distribution of new measurements at other places, about what the state says
        there, with effects of covariates."""
        own = [name for name, value in self.parameters(z).items() if jnp.ndim(value)]
        if own:
            raise RieszError(
                f"each sensor has noise of its own (its {own[0]}), so that of a new measurement "
                "elsewhere is not known: predict measurements at the sensors, or the state with "
                "'u'."
            )
        return self.distribution(mean, z)

    @property
    def observation_distribution(self) -> AbstractObservationDistribution | None:
        """The noise of one new measurement on the host; None where it is not known there."""
        if self.host_kind is None:
            return None
        names = [field.name for field in dataclasses.fields(self.host_kind)]
        return self.host_kind(*(getattr(self, name) for name in names))

    @property
    def censored(self) -> Bool[Array, " sensor"] | None:
        """Which observations are only known to lie below their value; None where all are exact."""
        return None

    def log_prob(
        self, observed: Float[Array, " sensor"], predicted: Float[Array, " sensor"], z: PyTree
    ) -> Float[Array, ""]:
        """The log-density of all observations."""
        return jnp.sum(self.distribution(predicted, z).log_prob(observed))

    def sample(
        self, key: PRNGKeyArray, predicted: Float[Array, " sensor"], z: PyTree
    ) -> Float[Array, " sensor"]:
        """New observations."""
        return jnp.asarray(self.distribution(predicted, z).sample(key), predicted.dtype)


def flag_of(name: str, combine: Callable[[Iterable[Any]], bool]) -> property:
    """A flag of a likelihood that is made of others, which it has in `each`."""
    return property(lambda self: combine(getattr(one, name) for one in self.each))


class AbstractNoise(AbstractLikelihood):
    """Noise of a standard deviation, added to what the state says."""

    is_additive = True

    sd: eqx.AbstractVar[Scale]

    def scales(self) -> dict[str, Scale]:
        return {"sd": self.sd}

    def noise_sd(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """One for each predicted value, in its precision."""
        sd = scale_at(self.sd, z).astype(predicted.dtype)
        return jnp.broadcast_to(sd, predicted.shape)

    def location(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        return predicted


class AbstractSharedNoise(AbstractNoise):
    """Normal noise that measurements have in common: `factor` says how."""

    is_normal = True
    is_independent = False

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return NormalVector(predicted, self.factor(predicted, z), self.noise_sd(predicted, z))

    def new(self, mean: Float[Array, " point"], z: PyTree) -> dist.Distribution:
        """Of another survey or group each: what they share moves no interval of one."""
        if scale_at(self.sd, z).ndim:
            return super().new(mean, z)  # which refuses
        return dist.Normal(mean, self.noise_sd(mean, z))


class Gaussian(AbstractNoise):
    """Independent normal noise.

    `sd` is a number, or one for each observation; the name of an unknown, if it is to be learned;
    or a function of the unknowns.
    """

    is_normal = True
    host_kind = NormalDistribution

    sd: Scale = eqx.field(converter=as_scale)

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        return dist.Normal(predicted, self.noise_sd(predicted, z))

    def describe(self) -> str:
        return f"normal, {scale_text(self.sd)}"


class StudentT(AbstractNoise):
    """Independent noise with heavy tails: some observations may be far off.

    `sd` is the scale, that of the normal distribution which most observations follow; far ones
    make the standard deviation itself larger, by 1.41 with four degrees of freedom.
    """

    host_kind = StudentDistribution

    sd: Scale = eqx.field(converter=as_scale)
    degrees_of_freedom: float = 4.0

    def __check_init__(self):
        if not self.degrees_of_freedom > 0:
            raise RieszError(
                f"degrees_of_freedom is {self.degrees_of_freedom}: it must be positive."
            )

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        degrees = jnp.asarray(self.degrees_of_freedom, predicted.dtype)
        return dist.StudentT(degrees, predicted, super().noise_sd(predicted, z))

    def noise_sd(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """The standard deviation, by which residuals are measured; the scale where there is none.

        With two degrees of freedom or fewer the variance is infinite.
        """
        degrees = self.degrees_of_freedom
        wider = float(np.sqrt(degrees / (degrees - 2))) if degrees > 2 else 1.0
        return super().noise_sd(predicted, z) * wider

    def describe(self) -> str:
        return (
            f"Student-t with {self.degrees_of_freedom:g} degrees of freedom, {scale_text(self.sd)}"
        )


def scale_text(scale: Scale, name: str = "sd") -> str:
    if isinstance(scale, str):
        return f"{name} {scale!r} learned"
    if callable(scale):
        return f"{name} a function of the unknowns"
    if isinstance(scale, float):
        return f"{name} {scale:.4g}"
    values = np.asarray(scale)
    return f"{name} {values.min():.4g} .. {values.max():.4g}, one for each observation"


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


class Censored(AbstractNoise):
    """Independent normal noise; of observations `below`, the value is a limit they lie under."""

    host_kind = NormalDistribution

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

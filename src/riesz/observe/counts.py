"""Counts and shares: values that scatter by chance itself, whatever the instrument.

What the state says is linked to what is expected: with `link="log"` the state is the logarithm of
the rate, with `link="logit"` the log-odds of the share, so that any state will do; with
`link="identity"` it is the rate or the share itself, and must be positive.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError, any_of
from riesz.observe.distributions import (
    IDENTITY,
    LOG,
    LOGIT,
    AbstractObservationDistribution,
    BinomialDistribution,
    NegativeBinomialDistribution,
    PoissonDistribution,
    inverse_link,
)
from riesz.observe.likelihood import AbstractLikelihood, Scale, as_scale, scale_text

WHOLE = 1e-6
"""Counts may be off a whole number by this, as shares times trials are."""


def check_link(link: Any, allowed: tuple[str, ...], name: str) -> None:
    if link not in allowed:
        raise RieszError(f"the link of {name} is {link!r}: it may be {any_of(allowed)}.")


def check_whole(values: Float[np.ndarray, " sensor"], what: str) -> None:
    bad = (values < 0) | (np.abs(values - np.round(values)) > WHOLE * np.maximum(values, 1.0))
    if bad.any():
        first = int(np.argmax(bad))
        raise RieszError(
            f"{bad.sum()} of {len(values)} {what} are no counts, first {values[first]:.6g} of "
            f"observation {first}: give whole numbers of at least 0."
        )


LINKED = {
    LOG: "the state is the log of the {}",
    LOGIT: "the state is the log-odds of the {}",
    IDENTITY: "the state is the {}",
}


class AbstractCounts(AbstractLikelihood):
    """Of whole numbers, whatever they scatter by."""

    is_discrete = True

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        check_whole(values, "observed values")


class Poisson(AbstractCounts):
    """Counts about a rate times `exposure`, what was counted over: a time, an area, a volume."""

    exposure: Scale = eqx.field(default=1.0, converter=lambda value: as_scale(value, "exposure"))
    link: str = eqx.field(static=True, default=LOG)

    def __check_init__(self):
        check_link(self.link, (LOG, IDENTITY), "Poisson")

    def scales(self) -> dict[str, Scale]:
        return {"exposure": self.exposure}

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        exposure = self.parameters(z)["exposure"].astype(predicted.dtype)
        return dist.Poisson(exposure * inverse_link(self.link, predicted))

    @property
    def observation_distribution(self) -> AbstractObservationDistribution:
        return PoissonDistribution(self.link)

    def describe(self) -> str:
        return f"Poisson counts, {LINKED[self.link].format('rate')}{exposure_text(self.exposure)}"


class NegativeBinomial(AbstractCounts):
    r"""Counts that vary more than Poisson's: of mean $\mu$ the variance is $\mu + \mu^2/c$.

    `concentration` is $c$, a number or the name of an unknown; large, it gives Poisson's counts.
    """

    concentration: Scale = eqx.field(converter=lambda value: as_scale(value, "concentration"))
    exposure: Scale = eqx.field(default=1.0, converter=lambda value: as_scale(value, "exposure"))
    link: str = eqx.field(static=True, default=LOG)

    def __check_init__(self):
        check_link(self.link, (LOG, IDENTITY), "NegativeBinomial")

    def scales(self) -> dict[str, Scale]:
        return {"concentration": self.concentration, "exposure": self.exposure}

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        own = {key: value.astype(predicted.dtype) for key, value in self.parameters(z).items()}
        mean = own["exposure"] * inverse_link(self.link, predicted)
        return dist.NegativeBinomial2(mean, jnp.broadcast_to(own["concentration"], mean.shape))

    @property
    def observation_distribution(self) -> AbstractObservationDistribution:
        return NegativeBinomialDistribution(self.link)

    def describe(self) -> str:
        return (
            f"negative binomial counts, {scale_text(self.concentration, 'concentration')}, "
            f"{LINKED[self.link].format('rate')}{exposure_text(self.exposure)}"
        )


def exposure_text(exposure: Scale) -> str:
    is_one = isinstance(exposure, float) and exposure == 1.0
    return "" if is_one else f", {scale_text(exposure, 'exposure')}"


class ShareOfTrials(dist.Distribution):
    """The share of trials that succeed."""

    def __init__(self, counts: Any, trials: Float[Array, " sensor"]):
        self.counts, self.trials = counts, trials
        super().__init__(counts.batch_shape)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Array:
        return self.counts.sample(key, sample_shape) / self.trials

    def log_prob(self, value: Any, intermediates: list[Any] | None = None) -> Float[Array, "..."]:
        return self.counts.log_prob(jnp.round(value * self.trials))

    @property
    def mean(self) -> Array:
        return jnp.asarray(self.counts.probs)

    @property
    def variance(self) -> Array:
        return self.mean * (1 - self.mean) / self.trials


class Binomial(AbstractLikelihood):
    """Shares of `trials`, such as of samples in which something was found.

    Observed values are shares, between 0 and 1: the numbers found, divided by those of trials.
    """

    is_discrete = True

    trials: Scale = eqx.field(converter=lambda value: as_scale(value, "number of trials"))
    link: str = eqx.field(static=True, default=LOGIT)

    def __check_init__(self):
        check_link(self.link, (LOGIT, IDENTITY), "Binomial")

    def scales(self) -> dict[str, Scale]:
        return {"trials": self.trials}

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        trials = self.parameters(z)["trials"].astype(predicted.dtype)
        trials = jnp.broadcast_to(trials, predicted.shape)
        whole = jnp.round(trials).astype(int)  # draws ask for that
        if self.link == LOGIT:
            counts = dist.BinomialLogits(predicted, whole)
        else:
            counts = dist.BinomialProbs(predicted, whole)
        return ShareOfTrials(counts, trials)

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        outside = (values < 0) | (values > 1)
        if outside.any():
            first = int(np.argmax(outside))
            raise RieszError(
                f"{outside.sum()} of {len(values)} observed values are no shares, first "
                f"{values[first]:.6g} of observation {first}: divide what was found by the number "
                "of trials."
            )
        if not (isinstance(self.trials, str) or callable(self.trials)):
            check_whole(values * np.asarray(self.trials), "observed shares times trials")

    @property
    def observation_distribution(self) -> AbstractObservationDistribution:
        return BinomialDistribution(self.link)

    def describe(self) -> str:
        share = LINKED[self.link].format("share")
        return f"binomial shares, {scale_text(self.trials, 'trials')}, {share}"

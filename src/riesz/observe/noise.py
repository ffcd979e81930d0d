"""Noise of other kinds than one that is added: counts and shares, which scatter by chance itself,
whatever the instrument; noise that multiplies, and noise that sensors share.

What the state says is linked to what is expected: with `link="log"` the state is the logarithm of
the rate, with `link="logit"` the log-odds of the share, so that any state will do; with
`link="identity"` it is the rate or the share itself, and must be positive.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError, any_of
from riesz.observe.distributions import (
    IDENTITY,
    LOG,
    LOGIT,
    BinomialDistribution,
    LogNormalDistribution,
    NegativeBinomialDistribution,
    NormalDistribution,
    PoissonDistribution,
    inverse_link,
)
from riesz.observe.factors import AbstractFactor, Triangular
from riesz.observe.likelihood import (
    AbstractLikelihood,
    AbstractSharedNoise,
    Scale,
    as_scale,
    scale_at,
    scale_text,
)
from riesz.priors.kernels import AbstractKernel, Matern12

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

    host_kind = PoissonDistribution

    exposure: Scale = eqx.field(default=1.0, converter=lambda value: as_scale(value, "exposure"))
    link: str = eqx.field(static=True, default=LOG)

    def __check_init__(self):
        check_link(self.link, (LOG, IDENTITY), "Poisson")

    def scales(self) -> dict[str, Scale]:
        return {"exposure": self.exposure}

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        exposure = self.parameters(z)["exposure"].astype(predicted.dtype)
        return dist.Poisson(exposure * inverse_link(self.link, predicted))

    def describe(self) -> str:
        return f"Poisson counts, {LINKED[self.link].format('rate')}{exposure_text(self.exposure)}"


class NegativeBinomial(AbstractCounts):
    r"""Counts that vary more than Poisson's: of mean $\mu$ the variance is $\mu + \mu^2/c$.

    `concentration` is $c$, a number or the name of an unknown; large, it gives Poisson's counts.
    """

    host_kind = NegativeBinomialDistribution

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
    host_kind = BinomialDistribution

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

    def describe(self) -> str:
        share = LINKED[self.link].format("share")
        return f"binomial shares, {scale_text(self.trials, 'trials')}, {share}"


JITTER = 1e-10
"""Added to correlations of one, so that factors of matrices between near sensors exist."""


class LogNormal(AbstractLikelihood):
    """Positive values whose errors are shares of them: normal logarithms with standard deviation
    `sd`, about that of the state, which is their median; with `link="log"` about the state."""

    host_kind = LogNormalDistribution

    sd: Scale = eqx.field(converter=as_scale)
    link: str = eqx.field(static=True, default=IDENTITY)

    def __check_init__(self):
        check_link(self.link, (IDENTITY, LOG), "LogNormal")

    def scales(self) -> dict[str, Scale]:
        return {"sd": self.sd}

    def distribution(self, predicted: Float[Array, " sensor"], z: PyTree) -> dist.Distribution:
        logs = predicted if self.link == LOG else jnp.log(predicted)
        sd = scale_at(self.sd, z).astype(predicted.dtype)
        return dist.LogNormal(logs, jnp.broadcast_to(sd, predicted.shape))

    def location(self, predicted: Float[Array, " sensor"], z: PyTree) -> Float[Array, " sensor"]:
        """The median, which the state is."""
        return inverse_link(self.link, predicted)

    def check_values(self, values: Float[np.ndarray, " sensor"]) -> None:
        bad = values <= 0
        if bad.any():
            first = int(np.argmax(bad))
            raise RieszError(
                f"{bad.sum()} of {len(values)} observed values are not positive, first "
                f"{values[first]:.6g} of observation {first}: log-normal values are."
            )

    def describe(self) -> str:
        median = LINKED[self.link].format("median")
        return f"log-normal, {scale_text(self.sd)} of the logarithm, {median}"


class CorrelatedNormal(AbstractSharedNoise):
    """Normal noise that sensors share, as that of one survey, one instrument or one year.

    Either of a known `covariance` matrix; or of standard deviation `sd`, with a correlation that
    falls with the distance between `points` by a kernel's profile of that `length`, a number or the
    name of an unknown.
    """

    host_kind = NormalDistribution

    sd: Scale
    length: Scale | None
    correlation: Float[Array, "sensor sensor"] | None
    squared: Float[Array, "sensor sensor"] | None  # distances
    kernel: type[AbstractKernel] = eqx.field(static=True)

    def __init__(
        self,
        sd: Any = None,
        *,
        covariance: Any = None,
        points: Any = None,
        length: Any = None,
        kernel: type[AbstractKernel] = Matern12,
    ):
        self.kernel, by_distance = kernel, points is not None or length is not None
        if (covariance is None) != by_distance or (covariance is None) != (sd is not None):
            raise RieszError(
                "correlated noise is given by covariance=..., or by sd, points=... and length=..."
            )
        if covariance is not None:
            variances, self.correlation = split_covariance(covariance)
            self.sd, self.length, self.squared = jnp.sqrt(variances), None, None
            return
        if points is None or length is None:
            raise RieszError("correlated noise by distance needs both points=... and length=...")
        self.sd, self.length = as_scale(sd), as_scale(length, "noise length")
        self.correlation, self.squared = None, jnp.asarray(squared_distances(points))

    def __check_init__(self):
        if isinstance(self.length, jax.Array):
            raise RieszError("the noise length is one number for all observations.")

    def scales(self) -> dict[str, Scale]:
        return {"sd": self.sd} | ({} if self.length is None else {"length": self.length})

    @property
    def num_sensors(self) -> int:
        known = self.squared if self.correlation is None else self.correlation
        assert known is not None
        return len(known)

    def correlations(self, z: PyTree) -> Float[Array, "sensor sensor"]:
        if self.correlation is not None:
            return self.correlation
        assert self.squared is not None
        assert self.length is not None
        scaled = self.squared / scale_at(self.length, z) ** 2
        return self.kernel(1.0).profile(scaled, jnp) + JITTER * jnp.eye(self.num_sensors)

    def factor(self, predicted: Float[Array, " sensor"], z: PyTree) -> AbstractFactor:
        root = jnp.linalg.cholesky(self.correlations(z).astype(predicted.dtype))
        return Triangular(self.noise_sd(predicted, z)[:, None] * root)

    def describe(self) -> str:
        if self.length is None:
            return f"normal, correlated by a known matrix, {scale_text(self.sd)}"
        return (
            f"normal, {scale_text(self.sd)}, correlated over distance by {self.kernel.__name__}, "
            f"{scale_text(self.length, 'length')}"
        )


def split_covariance(
    covariance: Any,
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor sensor"]]:
    matrix = np.asarray(covariance, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise RieszError(f"the noise covariance has shape {matrix.shape}: give a square matrix.")
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0):
        raise RieszError("the noise covariance is not finite and symmetric.")
    lowest = float(np.linalg.eigvalsh(matrix).min())
    if not lowest > 0:
        raise RieszError(
            f"the noise covariance has the eigenvalue {lowest:.3g}: all must be positive."
        )
    variances = np.diag(matrix)
    sds = np.sqrt(variances)
    return jnp.asarray(variances), jnp.asarray(matrix / np.outer(sds, sds))


def squared_distances(points: Any) -> Float[np.ndarray, "sensor sensor"]:
    places = np.asarray(points, float)
    places = places[:, None] if places.ndim == 1 else places
    squared = np.sum((places[:, None] - places[None]) ** 2, axis=2)
    same = np.argwhere(np.triu(squared == 0, k=1))
    if len(same):
        one, other = same[0]
        raise RieszError(
            f"observations {one} and {other} are at one place, where correlated noise is the same "
            "for both: keep one of them, or their mean."
        )
    return squared

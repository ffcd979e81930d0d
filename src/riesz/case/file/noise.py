"""How observed values scatter: the table [noise], the likelihood that it stands for, and effects of
covariates and of neighbours beside it."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from pydantic import PositiveFloat

from riesz.case.data.covariates import EFFECTS, LOCAL, covariate_design
from riesz.case.data.rows import DataRows
from riesz.case.data.schema import ObservationsTable
from riesz.case.table import FileTable, Size, faults_of_kind
from riesz.errors import FileFormatError
from riesz.observe.effects import WithEffects
from riesz.observe.grouped import GroupedNormal
from riesz.observe.likelihood import AbstractLikelihood, Censored, Gaussian, StudentT
from riesz.observe.noise import (
    IDENTITY,
    LOG,
    LOGIT,
    Binomial,
    CorrelatedNormal,
    LogNormal,
    NegativeBinomial,
    Poisson,
)
from riesz.priors.correlated_residual import LocalEffect

NORMAL, STUDENT, LOG_NORMAL = "normal", "student-t", "log-normal"
CORRELATED, GROUPED = "correlated", "grouped"
POISSON, NEGATIVE_BINOMIAL, BINOMIAL = "poisson", "negative-binomial", "binomial"
COUNTS = (POISSON, NEGATIVE_BINOMIAL)

SHARED = ("level_sd", "drift_sd", "correlation_time")
"""Of what readings of one site share."""

KEYS = {
    NORMAL: ("sd",),
    STUDENT: ("sd", "degrees_of_freedom"),
    LOG_NORMAL: ("sd", "link"),
    CORRELATED: ("sd", "length"),
    GROUPED: ("sd", *SHARED),
    POISSON: ("exposure", "link"),
    NEGATIVE_BINOMIAL: ("concentration", "exposure", "link"),
    BINOMIAL: ("trials", "link"),
}
"""What each kind takes."""

SCALES = ("sd", "length", "concentration", *SHARED)
"""Positive numbers, or the names of unknowns."""

NEEDED = {CORRELATED: "length", NEGATIVE_BINOMIAL: "concentration"}
"""What it must be given, beside a standard deviation."""

LOCAL_RANGE, LOCAL_SD = 0.06, 0.5
"""Medians of the local effect, as shares of the observations' extent and of their values' sd."""


class NoiseTable(FileTable):
    """How observed values scatter about the state."""

    kind: Literal[
        "normal",
        "student-t",
        "log-normal",
        "correlated",
        "grouped",
        "poisson",
        "negative-binomial",
        "binomial",
    ] = NORMAL
    sd: Size = None
    length: Size = None
    level_sd: Size = None
    drift_sd: Size = None
    correlation_time: Size = None
    concentration: Size = None
    degrees_of_freedom: PositiveFloat = 4.0
    exposure: PositiveFloat | None = None
    trials: PositiveFloat | None = None
    link: Literal["log", "logit", "identity"] | None = None

    def faults(self) -> Iterator[str]:
        yield from faults_of_kind(self, self.kind, KEYS[self.kind])
        needed = NEEDED.get(self.kind)
        if needed is not None and not self.has(needed):
            yield (
                f"lacks the key {needed!r}, which kind = {self.kind!r} needs: a positive number, "
                "or the name of an unknown"
            )
        if self.has("drift_sd") != self.has("correlation_time"):
            yield "needs drift_sd and correlation_time together, or neither of them"
        if self.kind == GROUPED and not (self.has("level_sd") or self.has("drift_sd")):
            yield (
                "has kind = 'grouped', which needs what readings of one site share: level_sd, or "
                "drift_sd with correlation_time"
            )
        if self.kind != BINOMIAL and self.link == LOGIT:
            yield "has link = 'logit', which is for kind = 'binomial': use 'log'"
        if self.kind == BINOMIAL and self.link == LOG:
            yield "has link = 'log', which is not for kind = 'binomial': use 'logit'"

    @property
    def has_sd(self) -> bool:
        """Whether a standard deviation is what tells how values scatter."""
        return "sd" in KEYS[self.kind]

    def unknowns(self) -> dict[str, Any]:
        """What may be the name of an unknown, by key."""
        return {key: getattr(self, key) for key in SCALES}


def likelihood_values(noise: NoiseTable, read: DataRows) -> Float[np.ndarray, " row"]:
    """Values as a likelihood takes them: of numbers found among trials, the shares."""
    if noise.kind != BINOMIAL or not (read.values > 1).any():
        return read.values
    return read.values / trials_of(noise, read)


def trials_of(noise: NoiseTable, read: DataRows) -> Any:
    trials = noise.trials if read.over is None else read.over
    if trials is None:
        raise FileFormatError(
            f"{read.path}: binomial values are numbers found among trials, or shares of them: say "
            "how many there were by noise.trials, or by a column, observations.trials."
        )
    whole = (read.values == np.round(read.values)).all() and (read.values > 0).any()
    if whole and (read.values <= 1).all() and np.max(trials) > 1:
        raise FileFormatError(
            f"{read.path}: all values are 0 or 1, which may be numbers found or shares: write "
            "shares with a decimal point, such as 0.05, or give the numbers of trials as 1."
        )
    return trials


def likelihood_of(noise: NoiseTable, read: DataRows) -> AbstractLikelihood:
    """Of values that were read."""
    sd = noise.sd if read.sd is None else read.sd
    limits = int(read.censored.sum())
    if limits and noise.kind != NORMAL:
        raise FileFormatError(
            f"{read.path}: {limits} values are below a detection limit, which noise.kind = "
            f"{noise.kind!r} cannot take: use 'normal'."
        )
    link, exposure = noise.link, (noise.exposure or 1.0) if read.over is None else read.over
    makers: dict[str, Callable[[], AbstractLikelihood]] = {
        NORMAL: lambda: Censored(sd, read.censored) if limits else Gaussian(sd),
        STUDENT: lambda: StudentT(sd, noise.degrees_of_freedom),
        LOG_NORMAL: lambda: LogNormal(sd, link or IDENTITY),
        CORRELATED: lambda: CorrelatedNormal(sd, points=read.points, length=noise.length),
        GROUPED: lambda: grouped_likelihood(noise, read),
        POISSON: lambda: Poisson(exposure, link or LOG),
        NEGATIVE_BINOMIAL: lambda: NegativeBinomial(noise.concentration, exposure, link or LOG),
        BINOMIAL: lambda: Binomial(trials_of(noise, read), link or LOGIT),
    }
    return makers[noise.kind]()


def grouped_likelihood(noise: NoiseTable, read: DataRows) -> GroupedNormal:
    """Readings of one site share their error."""
    if read.sites is None or (noise.drift_sd is not None and read.times is None):
        raise FileFormatError(
            f"{read.path}: noise.kind = 'grouped' needs the site of each reading and, for a drift, "
            "its time: the table [observations] names their columns, by site and date."
        )
    drifts = {} if noise.drift_sd is None or read.times is None else {"times": read.times.values()}
    shared = {key: getattr(noise, key) for key in SHARED}
    return GroupedNormal(noise.sd if read.sd is None else read.sd, read.sites, **shared, **drifts)


def noise_sd_of(noise: NoiseTable, read: DataRows) -> float:
    """The standard deviation of values in the scale of the state."""
    values = likelihood_values(noise, read)
    if noise.kind in COUNTS:
        values = values / ((noise.exposure or 1.0) if read.over is None else read.over)
    link = noise.link or (LOGIT if noise.kind == BINOMIAL else LOG)
    if noise.kind in (*COUNTS, BINOMIAL) and link != IDENTITY:
        # Half of the least that was found stands for nothing.
        least = values[values > 0].min(initial=1.0) / 2
        values = np.maximum(values, least)
        odds = values / np.maximum(1 - values, least) if link == LOGIT else values
        values = np.log(odds)
    return float(values.std())


def with_effects(
    names: ObservationsTable, noise: NoiseTable, prepared: DataRows
) -> tuple[AbstractLikelihood, dict[str, Any]]:
    """Noise, limits and effects where the data have them; and the priors of the latter."""
    base, spread = likelihood_of(noise, prepared), noise_sd_of(noise, prepared)
    design, labels, priors = None, (), {}
    if prepared.covariates:
        design, labels = covariate_design(prepared, logs=names.log_covariates, curved=names.curved)
        effect = dist.Normal(0.0, names.effect_sd or spread)
        priors[EFFECTS] = effect.expand([len(labels)])
    local = local_of(names, prepared, spread) if names.local else None
    if local is not None:
        priors[LOCAL] = local.prior()
    if not priors:
        return base, {}
    return WithEffects(base, design, labels, EFFECTS, local=local, local_name=LOCAL), priors


def local_of(names: ObservationsTable, prepared: DataRows, spread: float) -> LocalEffect:
    extent = float(np.ptp(prepared.points, axis=0).max())
    sd, length = names.local_sd or LOCAL_SD * spread, names.local_range or LOCAL_RANGE * extent
    if not (sd > 0 and length > 0):
        raise FileFormatError(
            f"{prepared.path}: the values, or their places, are all the same: there is nothing "
            "that neighbours could share; leave observations.local out."
        )
    return LocalEffect(prepared.points, sd, length)

"""How readings of a problem file scatter: noise, and effects of covariates and of neighbours."""

from typing import Any

import numpy as np
import numpyro.distributions as dist

from riesz.case.data.covariates import EFFECTS, LOCAL, effect_design, effect_labels, every_encoding
from riesz.case.data.rows import DataRows
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.noise import NoisyValues, likelihood_of, noise_sd_of
from riesz.case.file.schema import ProblemTables
from riesz.errors import FileFormatError
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import AbstractLikelihood
from riesz.priors.correlated_residual import LocalEffect

LOCAL_RANGE, LOCAL_SD = 0.06, 0.5
"""Medians of the local effect, as shares of the observations' extent and of their values' sd."""


def with_effects(
    tables: ProblemTables, prepared: DataRows
) -> tuple[AbstractLikelihood, dict[str, Any]]:
    """Noise, limits and effects where the data have them; and the priors of the latter."""
    names, read = tables.observations, readings_of(prepared)
    spread = noise_sd_of(tables.noise, read)
    base, design, labels, priors = likelihood_of(tables.noise, read), None, (), {}
    if prepared.covariates:
        encodings = every_encoding(prepared, names.log_covariates, curved=names.curved)
        design = effect_design(prepared.path, encodings, prepared.covariates)
        labels = effect_labels(encodings)
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


def readings_of(prepared: DataRows) -> NoisyValues:
    """What noise reads of the observations."""
    return NoisyValues(
        path=prepared.path,
        points=prepared.points,
        values=prepared.values,
        censored=prepared.censored,
        sd=prepared.sd,
        over=prepared.over,
        sites=prepared.sites,
        times=prepared.times,
    )

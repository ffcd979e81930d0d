"""How observations scatter, by what a problem file says and what its tables hold."""

from typing import Any

import numpy as np
import numpyro.distributions as dist

from riesz.case.data.covariates import EFFECTS, LOCAL, design_of, encodings_of, labels_of
from riesz.case.data.prepared import Prepared
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.schema import ProblemTables
from riesz.errors import FileFormatError
from riesz.latent.local import LocalEffect
from riesz.observe.censored import Censored
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import AbstractLikelihood, Gaussian, StudentT

LOCAL_RANGE, LOCAL_SD = 0.03, 0.5
"""Medians of the local effect, as shares of the observations' extent and of their values' sd."""


def likelihood_of(
    tables: ProblemTables, prepared: Prepared
) -> tuple[AbstractLikelihood, dict[str, Any]]:
    """Noise, limits and effects where the data have them; and the priors of the latter."""
    names, spread = tables.observations, float(prepared.values.std())
    base, design, labels, priors = noise_of(tables, prepared), None, (), {}
    if prepared.covariates:
        encodings = encodings_of(prepared, names.log_covariates)
        design = design_of(prepared.path, encodings, prepared.covariates)
        labels = labels_of(encodings)
        effect = dist.Normal(0.0, names.effect_sd or spread)
        priors[EFFECTS] = effect.expand([len(labels)])
    local = local_of(names, prepared, spread) if names.local else None
    if local is not None:
        priors[LOCAL] = local.prior()
    if not priors:
        return base, {}
    return WithEffects(base, design, labels, EFFECTS, local=local, local_name=LOCAL), priors


def local_of(names: ObservationsTable, prepared: Prepared, spread: float) -> LocalEffect:
    extent = float(np.ptp(prepared.points, axis=0).max())
    sd, length = names.local_sd or LOCAL_SD * spread, names.local_range or LOCAL_RANGE * extent
    if not (sd > 0 and length > 0):
        raise FileFormatError(
            f"{prepared.path}: the values, or their places, are all the same: there is nothing "
            "that neighbours could share; leave observations.local out."
        )
    return LocalEffect(prepared.points, sd, length)


def noise_of(tables: ProblemTables, prepared: Prepared) -> AbstractLikelihood:
    noise = tables.noise
    sd = noise.sd if prepared.sd is None else prepared.sd
    if not prepared.censored.any():
        return Gaussian(sd) if noise.kind == "normal" else StudentT(sd, noise.degrees_of_freedom)
    if noise.kind != "normal":
        raise FileFormatError(
            f"{prepared.path}: {prepared.censored.sum()} values are below a detection limit, which "
            f"noise.kind = {noise.kind!r} cannot take: use 'normal'."
        )
    return Censored(sd, prepared.censored)

"""How observations scatter, by what a problem file says and what its tables hold."""

from typing import Any

import numpyro.distributions as dist

from riesz.case.data.covariates import EFFECTS, Design
from riesz.case.data.prepared import Prepared
from riesz.case.file.schema import ProblemTables
from riesz.errors import FileFormatError
from riesz.observe.censored import Censored
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import AbstractLikelihood, Gaussian, StudentT


def likelihood_of(
    tables: ProblemTables, prepared: Prepared, design: Design | None
) -> AbstractLikelihood:
    """Normal or heavy-tailed noise, with limits and effects where the data have them."""
    base = noise_of(tables, prepared)
    return base if design is None else WithEffects(base, design.columns, design.labels)


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


def effects_prior(
    tables: ProblemTables, prepared: Prepared, design: Design | None
) -> dict[str, Any]:
    """The prior of the effects of covariates: about as large as the values vary, or smaller."""
    if design is None:
        return {}
    spread = tables.observations.effect_sd or float(prepared.values.std())
    return {EFFECTS: dist.Normal(0.0, spread).expand([design.columns.shape[1]])}

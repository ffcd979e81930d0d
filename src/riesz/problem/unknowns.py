"""What unknowns are called, and those on the boundary, which are named by a tag."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpyro.distributions as dist

from riesz.errors import RieszError
from riesz.fem.terms.series import TIME
from riesz.priors.latent import AbstractFieldPrior

EXAMPLE = "rz.Unknown(rz.BoundaryGP(rz.priors.Matern52(sd=10.0), mean=100.0))"


class Unknown(eqx.Module):
    """Values on a stretch of the boundary that are to be inferred, in `dirichlet={tag: ...}`.

    `prior` is what is known of them before the data are seen, as a rule a `BoundaryGP`. Without it
    nothing would be inferred: to any solution one may add another of the equation without sources.
    The unknown is called `u_` and the tag.
    """

    prior: Any = None


STATE, FLUX, MEASUREMENT = "u", "flux", "measurement"

VALUE = "value"
"""What is measured, without noise."""

TAKEN = {
    STATE: "the state",
    TIME: "the time",
    FLUX: "the flux of the state",
    MEASUREMENT: "what a new one reads",
    "coordinates": "a site of numpyro_model",
    "coordinate": "a plate of numpyro_model",
    "predicted": "a site of numpyro_model",
    "observed": "a site of numpyro_model",
}
"""Names that an unknown cannot have, and what they stand for."""


def check_free_names(latents: Mapping[Any, Any]) -> None:
    for name in latents:
        if not isinstance(name, str):
            raise RieszError(f"latents has the key {name!r}: unknowns are named by strings.")
        if name in TAKEN:
            raise RieszError(f"an unknown is called {name!r}, the name of {TAKEN[name]}: rename.")


def name_unknowns(
    dirichlet: Mapping[str, Any], latents: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dirichlet values in which unknown ones are names, and the priors together with theirs."""
    check_free_names(latents)
    values, priors = dict(dirichlet), dict(latents)
    for tag, value in dirichlet.items():
        if isinstance(value, dist.Distribution | AbstractFieldPrior):
            raise RieszError(
                f"the Dirichlet value on {tag!r} is a prior, a {type(value).__name__}: write "
                f"rz.Unknown(prior), or a name with latents={{name: prior}}."
            )
        if value is None:
            raise RieszError(
                f"the Dirichlet value on {tag!r} is None: leave the tag out where nothing passes "
                f"the boundary, or write {EXAMPLE} where u is not known."
            )
        if isinstance(value, Unknown):
            values[tag] = name_of(tag, value, latents)
            priors[values[tag]] = value.prior
    return values, priors


def name_of(tag: str, value: Unknown, latents: Mapping[str, Any]) -> str:
    if value.prior is None:
        raise RieszError(
            f"the values on {tag!r} are Unknown() without a prior, so that no data could tell them "
            "from any other solution of the equation without sources: say what is known of them, "
            f"as in {EXAMPLE}."
        )
    name = f"u_{tag}"
    if name in latents:
        raise RieszError(
            f"the values on {tag!r} are to be the unknown {name!r}, which latents has already: "
            f"write dirichlet={{{tag!r}: name}} with a name of your own in latents."
        )
    return name

"""A field's posterior by one engine held against that of an exact one, node by node."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from riesz.io.store.results import Row


@dataclass(frozen=True)
class FieldMoments:
    """Of a field at nodes."""

    mean: Float[np.ndarray, " node"]
    sd: Float[np.ndarray, " node"]


def held_against(ours: FieldMoments, theirs: FieldMoments) -> Row:
    """Errors of the mean in exact sds, and ratios of sds, where the exact field is not known."""
    varies = theirs.sd > 0
    errors = np.abs(ours.mean - theirs.mean)[varies] / theirs.sd[varies]
    ratios = ours.sd[varies] / theirs.sd[varies]
    return {
        "field_mean_error_sd": float(errors.mean()),
        "field_mean_error_sd_worst": float(errors.max()),
        "field_sd_ratio": float(ratios.mean()),
        "field_sd_ratio_low": float(ratios.min()),
        "field_sd_ratio_high": float(ratios.max()),
    }


def worst_of(rows: Sequence[Row]) -> Row:
    """Over data sets; nothing where there are none."""
    if not rows:
        return {}
    ratios = [r["field_sd_ratio"] for r in rows]
    return {
        "worst field mean error (sd, averaged over nodes)": max(
            r["field_mean_error_sd"] for r in rows
        ),
        "field sd ratios (averaged over nodes), lowest": min(ratios),
        "field sd ratios (averaged over nodes), highest": max(ratios),
    }

"""How good draws of a field and of parameters are, held against the truth: one way for all."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from riesz.io.store.results import Row
from riesz_paper.running.scores import TAILS, crps, share_inside


def scores(
    field: Float[np.ndarray, "draw point"],
    true_field: Float[np.ndarray, " point"],
    parameters: Float[np.ndarray, "draw parameter"],
    true_parameters: Float[np.ndarray, " parameter"],
) -> Row:
    """Shares of points and of parameters inside their 95 % intervals, CRPS and width of the field.

    CRPS and width are means over the points, in the unit of the field.
    """
    low, high = np.quantile(field, TAILS, axis=0)
    return {
        "field_coverage95": share_inside(field, true_field),
        "parameter_coverage95": share_inside(parameters, true_parameters),
        "field_crps": float(np.mean(crps(field, true_field))),
        "mean_width": float(np.mean(high - low)),
    }


def relative(rows: Sequence[Row], among: Sequence[Row], measure: str, to: str) -> list[Row]:
    """Rows with a measure divided by that of another method on the same data set, if it has one."""
    units = {r["replicate"]: r[measure] for r in among if r["method"] == to}
    return [
        {**r, measure: r[measure] / units[r["replicate"]]} for r in rows if r["replicate"] in units
    ]

"""Models can be compared where they were fitted to the same observations: are they?"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.problem.problem import InverseProblem

SAME = 1e-9
"""Relative differences of observations that are the same, read from files twice."""


def check_same(first: InverseProblem, other: InverseProblem, name: str, own: str) -> None:
    """Raise where two models were fitted to different observations, and say how they differ."""

    def differ(what: str) -> RieszError:
        return RieszError(
            f"{name} and {own} were fitted to different observations, and cannot be compared: "
            f"{what}. Fit both to the same rows, in the same order and unit."
        )

    one, two = np.asarray(first.observed, float), np.asarray(other.observed, float)
    if len(one) != len(two):
        raise differ(f"there are {len(one)} and {len(two)}")
    scale = float(np.abs(one).max()) or 1.0
    check_rows(one, two, scale, "values", differ)
    if type(first.observations.what) is not type(other.observations.what):
        raise differ(
            f"{first.observations.what.describe()} and {other.observations.what.describe()}"
        )
    points, others = (np.asarray(p.observations.points, float) for p in (first, other))
    if points.shape != others.shape:
        raise differ(f"places have {points.shape[1]} and {others.shape[1]} coordinates")
    check_rows(points, others, float(np.nanmax(np.abs(points), initial=1e-9)), "places", differ)
    times = [p.observations.times for p in (first, other)]
    if (times[0] is None) != (times[1] is None):
        raise differ("those of one have times")
    if times[0] is not None and times[1] is not None:
        check_rows(times[0], times[1], float(np.abs(times[0]).max()) or 1.0, "times", differ)
    flags = first.censored != other.censored
    if flags.any():
        raise differ(f"observation {int(np.argmax(flags))} is a limit in one and a value in one")


def check_rows(
    one: Float[np.ndarray, " sensor *axis"],
    two: Float[np.ndarray, " sensor *axis"],
    scale: float,
    what: str,
    differ: Callable[[str], RieszError],
) -> None:
    apart = np.nan_to_num(np.abs(one - two)) > SAME * scale
    rows = apart.reshape(len(one), -1).any(axis=1)
    if rows.any():
        at = int(np.argmax(rows))
        raise differ(
            f"{int(rows.sum())} {what} differ, first of observation {at}: {one[at]} and {two[at]}"
        )

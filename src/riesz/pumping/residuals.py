"""What residuals of a pumping test tell of physics that its model lacks.

A fixed rule, no test of hypotheses: readings of each well are cut into early, middle and late ones
by the logarithm of time, and what is left over in them has a sign. An aquifer that loses less and
less (leakage, a river) bends drawdowns away from the model one way, a closed boundary the other.
"""

import numpy as np

from riesz.posterior.checks import rms
from riesz.pumping.well import Numbers, Pumped, Readings

NOTICED = 0.5
"""Of the root mean square of all residuals: a mean of a third of readings that is smaller is
noise."""

FOLLOWING = 0.3
"""Correlation of residuals with the next ones from which on they are not noise."""

PARTS = 3


def correlation(residual: Numbers, seen: Readings) -> float:
    """Of residuals with those that come next in the same well: near zero where errors are noise."""
    products, squares = 0.0, 0.0
    for _, own in seen.of_wells():
        first, later = residual[own[:-1]], residual[own[1:]]
        products += float(later @ first)
        squares += float(later @ later + first @ first) / 2
    return products / squares if squares else 0.0


def late(residual: Numbers, seen: Readings) -> float:
    """The mean residual of the last tenth of readings: what the model lacks shows there first."""
    last = np.argsort(seen.time, kind="stable")[-max(len(seen) // 10, 1) :]
    return float(residual[last].mean())


def thirds(residual: Numbers, seen: Readings) -> tuple[float, float, float]:
    """Mean residuals of early, middle and late readings, over the root mean square of all."""
    parts: list[list[float]] = [[] for _ in range(PARTS)]
    for _, own in seen.of_wells():
        logs = np.log(seen.time[own])
        share = (logs - logs[0]) / max(logs[-1] - logs[0], np.finfo(float).tiny)
        for part, rest in zip((PARTS * share).clip(0, PARTS - 1), residual[own], strict=True):
            parts[int(part)].append(float(rest))
    size = max(rms(residual), np.finfo(float).tiny)
    early, middle, end = (float(np.mean(part)) / size if part else 0.0 for part in parts)
    return early, middle, end


def missing_physics(well: Pumped, seen: Readings, residual: Numbers) -> tuple[str, ...]:
    """What the model may lack, in words, with what in the residuals says so."""
    found = []
    if correlation(residual, seen) > FOLLOWING:
        found += in_time(well, *thirds(residual, seen))
    found += between_wells(seen, residual)
    return tuple(found)


def in_time(well: Pumped, early: float, middle: float, end: float) -> list[str]:
    """Bent residuals: less drawdown than the model at both ends and more between, or reversed."""
    bend = middle - (early + end) / 2
    if max(abs(early), abs(middle), abs(end)) < NOTICED:
        return ["residuals of a well follow each other, but neither early nor late ones stand out"]
    if bend > 0 and end <= early:
        more = (
            "a river or lake that feeds the aquifer" if well.leaky else "leakage, or a river nearby"
        )
        return [f"late drawdowns flatten more than the model's: {more}"]
    if bend > 0:
        stores = well.stores or well.casing_radius > 0
        more = "skin about the well" if stores else "water stored in the well, or skin about it"
        return [f"early drawdowns lag behind the model's: {more}, or a pump that started slowly"]
    if abs(end) >= abs(early):
        return [
            "late drawdowns exceed the model's: a boundary that lets no water through, another "
            "well, or an aquifer that ends"
        ]
    return [
        "early drawdowns exceed the model's, later ones lag: delayed yield of a water table, or a "
        "screen in a part of the thickness only"
    ]


def between_wells(seen: Readings, residual: Numbers) -> list[str]:
    """Whether near and far wells want different values."""
    if len(seen.wells) == 1:
        return []
    size = max(rms(residual), np.finfo(float).tiny)
    each = [(seen.radius[own[0]], residual[own].mean() / size) for _, own in seen.of_wells()]
    (_, near), *_, (_, far) = sorted(each)
    if near * far >= 0 or min(abs(near), abs(far)) < NOTICED:
        return []
    if near > 0:
        return [
            "near wells fall more than the model has them, far ones less: a screen in a part of "
            "the thickness only, or an aquifer that is less conductive about the well"
        ]
    return [
        "near wells fall less than the model has them, far ones more: an aquifer that is more "
        "conductive about the well, or of different conductivities by direction"
    ]

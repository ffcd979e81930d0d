"""Forecasts that nothing changes: a well stays as it was last, others are as their nearest well.

How far off that is, is told by the training wells: each forecasts its own years 1965 to 1979 from
those before, and each stands for its nearest neighbour.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from riesz.errors import RieszError
from riesz_paper.experiments.aquifer_time.readings import BOTH, FORECAST_FROM, Case, Rows

REHEARSED_FROM = 1965
"""From this year on training readings are forecast from those before it."""

NUM_DRAWS = 1200

Value = Callable[[Rows], dict[int, float]]
"""What stands for each well, by its readings."""


def last_values(rows: Rows) -> dict[int, float]:
    """Medians of the last year of each well."""
    found = {}
    for well in np.unique(rows.well):
        own = rows.kept(rows.well == well)
        found[int(well)] = float(np.median(own.head[own.year == own.year.max()]))
    return found


def period_medians(rows: Rows) -> dict[int, float]:
    """Of the years that splits learn from, or of all where there are none of these."""
    return rows.medians() | rows.between(*BOTH).medians()


def persistence(
    value: Value, places: Float[np.ndarray, "well 2"], case: Case, targets: Rows, *, seed: int
) -> Float[np.ndarray, "draw row"]:
    """Draws of heads of wells in years: an error is one for all years of a well."""
    known = value(case.history)
    wells = np.array(list(known))
    heads = np.array(list(known.values()))
    asked, which = np.unique(targets.well, return_inverse=True)
    tree = KDTree(places[wells])
    nearest = np.asarray(tree.query(places[asked])[1])
    is_known = np.isin(asked, wells)
    mean = np.where(is_known, [known.get(int(one), 0.0) for one in asked], heads[nearest])
    itself, second = np.asarray(tree.query(places[wells], k=2)[1]).T
    other = np.where(itself == np.arange(len(wells)), second, itself)
    neighbours = np.sqrt(np.mean((heads - heads[other]) ** 2))
    later = rehearsed(value, case.history)
    sd = np.where(is_known, later, np.hypot(later, neighbours))
    away = np.random.default_rng(seed).standard_normal((NUM_DRAWS, len(asked)))
    return (mean + sd * away)[:, which]


def rehearsed(value: Value, rows: Rows) -> float:
    """The rms error over training wells that were read in both of two periods, in feet."""
    before = value(rows.kept(rows.year < REHEARSED_FROM))
    after = rows.between(REHEARSED_FROM, FORECAST_FROM).medians()
    both = [well for well in before if well in after]
    if not both:
        raise RieszError(
            f"no training well was read both before {REHEARSED_FROM} and from then to "
            f"{FORECAST_FROM - 1}: how far off it is that nothing changes, nobody can tell."
        )
    return float(np.sqrt(np.mean([(before[well] - after[well]) ** 2 for well in both])))

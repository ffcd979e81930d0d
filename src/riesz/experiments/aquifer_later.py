"""Predictions for another time: splits A and D ask for heads twenty years after the training ones.

Methods know places only. How much heads change is told by the two decades of the training readings,
and every method's draws are given that much more spread, in common and well by well.
"""

from functools import lru_cache

import numpy as np

from riesz.datasets.esrp import Aquifer
from riesz.datasets.esrp_change import Change, change_between_decades
from riesz.regression.method import Draws

LATER_SPLITS = ("A", "D")


@lru_cache(maxsize=2)
def change_of(aquifer: Aquifer) -> Change:
    return change_between_decades(aquifer)


def at_another_time(draws: Draws, change: Change, seed: int) -> Draws:
    """Heads in feet, each draw with a change of its own."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0.0, change.common, (len(draws), 1))
    return draws + common + rng.normal(0.0, change.own, draws.shape)

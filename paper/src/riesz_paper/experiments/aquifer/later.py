"""Predictions for another time: splits A and D ask for heads twenty years after the training ones.

Methods know places only. How much heads change is told by the two decades of the training readings,
and every method's draws are given that much more spread, in common and well by well.
"""

from functools import lru_cache

import numpy as np
import scipy.stats

from riesz_paper.data.esrp import Aquifer
from riesz_paper.data.esrp_change import Change, change_between_decades
from riesz_paper.regression.method import Draws

LATER_SPLITS = ("A", "D")


@lru_cache(maxsize=2)
def change_of(aquifer: Aquifer) -> Change:
    return change_between_decades(aquifer)


def at_another_time(draws: Draws, change: Change, seed: int) -> Draws:
    """Heads in feet, each draw with a change of its own.

    Changes are the quantiles of a normal distribution in random order: few draws would shift all
    wells otherwise, and no method is to be ahead by luck.
    """
    rng = np.random.default_rng(seed)
    normals = scipy.stats.norm.ppf((np.arange(len(draws)) + 0.5) / len(draws))
    common = rng.permutation(normals)[:, None]
    own = rng.permuted(np.tile(normals[:, None], draws.shape[1]), axis=0)
    return draws + change.common * common + change.own * own

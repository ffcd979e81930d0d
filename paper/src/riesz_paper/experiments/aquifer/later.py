"""Predictions for another time: splits A and D ask for heads twenty years after the training ones.

Methods know places only. How much heads change is told by the two decades of the training readings,
and every method's draws are given that much more spread, in common and well by well.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.stats

from riesz.errors import FileFormatError
from riesz.io.tables.layers import read_csv
from riesz_paper.data.esrp import Aquifer, splits_of
from riesz_paper.regression.method import Draws

READINGS = "levels_pre2000.csv.gz"
EARLIER, LATER = ("1960", "1969"), ("1970", "1979")
"""The two decades of the training wells of split A, first and last years."""

Readings = list[tuple[str, float]]
"""Years and heads."""

LATER_SPLITS = ("A", "D")


@dataclass(frozen=True)
class Change:
    """Between two decades, in feet."""

    common: float  # the mean over wells: the water table rises or falls as a whole
    own: float  # the sd of wells about that


@lru_cache(maxsize=2)
def change_between_decades(aquifer: Aquifer) -> Change:
    """Of the medians of both decades, in training wells of split A that were read in both."""
    (split,) = splits_of(aquifer, "A")
    heads = kept_heads(aquifer.folder / READINGS, frozenset(split.training.site_numbers))
    differences = [
        np.median(within(readings, LATER)) - np.median(within(readings, EARLIER))
        for readings in heads.values()
        if within(readings, EARLIER) and within(readings, LATER)
    ]
    if len(differences) < 2:
        raise FileFormatError(
            f"{aquifer.folder / READINGS} has {len(differences)} training wells that were read in "
            "both decades: at least two are needed to tell how heads change."
        )
    return Change(float(abs(np.mean(differences))), float(np.std(differences, ddof=1)))


def kept_heads(path: Path, site_numbers: frozenset[str]) -> dict[str, Readings]:
    """Of some wells, what cleaning has left."""
    table = read_csv(path)
    pairs = zip(table.words("site_no"), table.words("drop_reason"), strict=True)
    kept = table.select(np.array([not dropped and site in site_numbers for site, dropped in pairs]))
    columns = kept.words("site_no"), kept.words("date"), kept.numbers("head_ft").tolist()
    found: dict[str, Readings] = {}
    for site, date, head in zip(*columns, strict=True):
        found.setdefault(site, []).append((date[:4], head))
    return found


def within(readings: Readings, years: tuple[str, str]) -> list[float]:
    return [head for year, head in readings if years[0] <= year <= years[1]]


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

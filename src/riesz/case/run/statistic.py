"""What is told of a quantity's distribution at each place, by words such as mean or q05."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.prediction.statistics import Prediction

ALL, ENSEMBLE = "all", "ensemble"
STANDS_FOR_ALL = "mean,sd,q05,q50,q95"
PROBABILITY = "1"
"""The unit of what has none, as files have it."""


@dataclass(frozen=True)
class Statistic:
    """One number of a distribution; a quantity's unit is its own, a probability has none."""

    name: str
    about: str  # in words, before "of the quantity"
    quantiles: tuple[float, ...]
    exceed: tuple[float, ...]
    of: Callable[[Prediction], Float[np.ndarray, "*shape"]]

    def unit(self, of_quantity: str | None) -> str | None:
        return PROBABILITY if self.exceed else of_quantity


def statistic(text: str) -> Statistic:
    """`mean`, `sd`, a quantile in percent such as `q05` or `q97.5`, or `exceed:VALUE`, the
    probability of more; what is written is named by the text given."""
    if text == "mean":
        return Statistic(text, "mean", (), (), lambda found: found.mean)
    if text == "sd":
        return Statistic(text, "standard deviation", (), (), lambda found: found.sd)
    percent = re.fullmatch(r"q([0-9]{2}(\.[0-9]+)?)", text)
    level = float(percent[1]) / 100 if percent else 0.0
    if 0 < level < 1:
        about = f"{100 * level:g} % quantile"
        return Statistic(text, about, (level,), (), lambda found: found.quantiles[level])
    number = re.fullmatch(r"exceed:([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)", text)
    value = float(number[1]) if number else math.inf
    if number and math.isfinite(value):
        name, about = f"exceed_{number[1]}", f"probability of more than {number[1]}"
        return Statistic(name, about, (), (value,), lambda found: found.exceedance[value])
    raise RieszError(
        f"--stat is {text!r}: give mean, sd, a quantile in percent between 0 and 100, such as q05 "
        "or q97.5, or exceed:VALUE with a finite number, such as exceed:1500; several by commas, "
        "such as mean,sd; all; or ensemble, every draw by itself."
    )


def statistics_in(text: str) -> tuple[Statistic, ...]:
    """One or several by commas; none for `ensemble`, which keeps the draws themselves."""
    if text == ENSEMBLE:
        return ()
    words = [word.strip() for word in (STANDS_FOR_ALL if text == ALL else text).split(",")]
    found = tuple(map(statistic, words))
    names = [one.name for one in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise RieszError(f"--stat is {text!r}, which has {twice[0]} more than once: leave one out.")
    return found

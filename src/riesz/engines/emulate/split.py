"""How the functions of the unknowns are split: some affine, times functions of the others."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from riesz.engines.emulate.least_squares import LARGEST

FEWEST_FEATURES = 24
"""Functions of place that a surrogate is left with at least, however many unknowns there are."""


@dataclass(frozen=True)
class Split:
    """Coordinates of both kinds, and how many functions of the others the affine ones multiply."""

    linear: Int[np.ndarray, " linear"]
    others: Int[np.ndarray, " other"]
    num_crossed: int
    num_hidden: int


def splits(
    linear: Int[np.ndarray, " linear"], others: Int[np.ndarray, " other"], num_bends: int
) -> list[Split]:
    """The richest first: products with all functions, products with linear ones, or none.

    Without any products, all coordinates are treated alike: they have linear functions anyway.
    """
    curved = 1 + len(others) + (num_bends if len(others) else 0)
    found = [
        Split(linear, others, num_crossed, len(linear) * num_crossed + curved)
        for num_crossed in (curved, 1 + len(others))
    ]
    everything = np.sort(np.concatenate([linear, others]))
    return [*found, Split(everything[:0], everything, 1, 1 + len(everything) + num_bends)]


def fitting_split(candidates: list[Split], num_features: int) -> Split:
    """The richest whose normal equations are not too large; the last if all are."""
    small = [split for split in candidates if split.num_hidden * num_features <= LARGEST]
    return (small or candidates)[0 if small else -1]


def fitting_features(candidates: list[Split], wanted: int) -> int:
    """Functions of place: fewer than wanted where that leaves room for richer functions."""
    room = [LARGEST // split.num_hidden for split in candidates]
    enough = [count for count in room if count >= FEWEST_FEATURES]
    return min(wanted, enough[0] if enough else FEWEST_FEATURES)

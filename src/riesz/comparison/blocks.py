"""Sensors in blocks on the map, each to be predicted from all others; what lies together stays so.

Where neighbours know each other's values, leaving out one at a time says little of places without
any measurement: leaving out a block does (Roberts et al. 2017).
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.vq import kmeans2

from riesz.errors import RieszError

NUM_BLOCKS, FEWEST_IN_BLOCK = 8, 3
"""Blocks where nothing else is asked for, and places that each has at least on average."""

NUM_STARTS = 10
"""Of k-means: the tightest of them is taken."""

ONE, BLOCKS = "one at a time", "by blocks"
"""Ways of leaving out."""

Block = Int[np.ndarray, " sensor"]
"""The number of each sensor's block, from zero."""


def spatial_blocks(
    points: Float[np.ndarray, "sensor dim"], num_blocks: int | None = None, *, seed: int = 0
) -> Block | None:
    """By k-means; None where there are too few places, or none, and no number was asked for."""
    places, place = np.unique(points, axis=0, return_inverse=True)
    known = bool(np.isfinite(points).all())
    count = min(NUM_BLOCKS, len(places) // FEWEST_IN_BLOCK) if num_blocks is None else num_blocks
    if num_blocks is None and (count < 2 or not known):
        return None
    if not known or not 2 <= count <= len(places):
        raise RieszError(
            f"{count} blocks of {len(places) if known else 'no'} different places: give 2 blocks "
            "or more, and no more than there are places."
        )
    rng, best = np.random.default_rng(seed), None
    for _ in range(NUM_STARTS):
        centres, result = kmeans2(places, places[far_apart(rng, places, count)], minit="matrix")
        scatter = float(np.sum((places - centres[result]) ** 2))
        if len(np.unique(result)) == count and (best is None or scatter < best[0]):
            best = scatter, result
    labels = np.arange(len(places)) % count if best is None else best[1]
    # Numbered from the south-west, so that a block keeps its number whatever the start was.
    middles = [places[labels == one].sum(axis=1).mean() for one in range(count)]
    return np.argsort(np.argsort(middles))[labels][place.reshape(-1)]


def far_apart(
    rng: np.random.Generator, places: Float[np.ndarray, "place dim"], count: int
) -> Int[np.ndarray, " chosen"]:
    """Places to start from, likelier the farther from those taken (k-means++)."""
    chosen = [int(rng.integers(len(places)))]
    while len(chosen) < count:
        apart = np.min(np.sum((places[:, None] - places[chosen]) ** 2, axis=2), axis=1)
        chosen.append(int(rng.choice(len(places), p=apart / apart.sum())))
    return np.array(chosen)

"""Standard normal draws that are spread more evenly than independent ones.

For averages and for the tail of importance weights: each draw is standard normal, but together they
leave no gaps. A scrambled Sobol sequence spreads the directions, and the lengths are stratified,
one in each equally likely range: the share of far draws, which the tail of the weights hangs on, is
then no matter of luck. (Randomised quasi-Monte Carlo; scrambled by SciPy after Matousek 1998.)
"""

from functools import cache
from importlib import import_module

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaincinv

MOST_EVEN = 64
"""Coordinates up to which a thousand points of a Sobol sequence look independent in every pair of
them. Beyond, some pairs are correlated (by 0.4 to 0.9 among several hundreds), and Monte-Carlo
errors would be wrong."""


def spread_normals(
    seed: int, num_draws: int, num_coordinates: int
) -> Float[np.ndarray, "draw coordinate"]:
    """So many draws of a standard normal vector."""
    rng = np.random.default_rng(seed % 2**64)  # NumPy takes no seed below zero, JAX does
    draws = even_directions(rng, num_draws, num_coordinates)
    lengths = np.linalg.norm(draws, axis=1)
    ranks = np.argsort(np.argsort(lengths))
    levels = (ranks + rng.uniform(size=num_draws)) / num_draws
    wanted = np.sqrt(2 * gammaincinv(num_coordinates / 2, levels))  # quantiles of chi
    return draws * (wanted / lengths)[:, None]


def even_directions(
    rng: np.random.Generator, num_draws: int, num_coordinates: int
) -> Float[np.ndarray, "draw coordinate"]:
    """From a Sobol sequence, as far as it is even; its balance takes a power of two of points."""
    if num_coordinates > MOST_EVEN:
        return rng.standard_normal((num_draws, num_coordinates))
    qmc = import_module("scipy.stats.qmc")  # half a second, which commands that do not draw save
    sequence = qmc.MultivariateNormalQMC(np.zeros(num_coordinates), rng=rng)
    return sequence.random(2 ** int(np.ceil(np.log2(num_draws))))[:num_draws]


@cache
def resampling_order(count: int, num_coordinates: int) -> Int[np.ndarray, " draw"]:
    """The order in which evenly spread draws are resampled, so that what is kept is even too.

    Points of a Sobol sequence whose next coordinate begins with the same binary digits are spread
    as evenly as all in those before it, and in the order of their numbers. So draws are gone
    through by the digits of that coordinate, last ones first: every other one has the same first
    digit, every fourth the same first two.
    """
    digits = max(1, (count - 1).bit_length())
    coordinate = min(num_coordinates, MOST_EVEN) + 1
    sequence = import_module("scipy.stats.qmc").Sobol(coordinate, scramble=False)
    values = (sequence.random(2**digits)[:, -1] * 2**digits).astype(int)
    places = np.arange(digits)
    order = np.argsort(((values[:, None] >> places & 1) << places[::-1]).sum(axis=1))
    return order[order < count]

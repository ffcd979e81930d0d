"""Scores of predictions that are given as draws: how far off, and how honest."""

import numpy as np
from jaxtyping import Bool, Float

TAILS = (0.025, 0.975)


def absolute_errors(
    draws: Float[np.ndarray, "draw place"], truth: Float[np.ndarray, " place"]
) -> Float[np.ndarray, " place"]:
    """Of the median, which is the prediction that makes them least."""
    return np.abs(np.median(draws, axis=0) - truth)


def squared_errors(
    draws: Float[np.ndarray, "draw place"], truth: Float[np.ndarray, " place"]
) -> Float[np.ndarray, " place"]:
    """Of the mean, which is the prediction that makes them least."""
    return (np.mean(draws, axis=0) - truth) ** 2


def negative_log_densities(
    draws: Float[np.ndarray, "draw place"], truth: Float[np.ndarray, " place"]
) -> Float[np.ndarray, " place"]:
    """Of the normal distribution with the draws' mean and sd.

    All methods are scored alike so, those whose density is not known too; mixtures of normal
    distributions are given no credit for their tails.
    """
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    return 0.5 * ((truth - mean) / sd) ** 2 + np.log(sd) + 0.5 * np.log(2 * np.pi)


def is_inside(
    draws: Float[np.ndarray, "draw place"], truth: Float[np.ndarray, " place"]
) -> Bool[np.ndarray, " place"]:
    """Whether the central 95 % interval holds the truth."""
    low, high = np.quantile(draws, TAILS, axis=0)
    return (low <= truth) & (truth <= high)


def share_inside(
    draws: Float[np.ndarray, "draw place"], truth: Float[np.ndarray, " place"]
) -> float:
    return float(np.mean(is_inside(draws, truth)))


def crps(
    draws: Float[np.ndarray, "draw place"], truth: Float[np.ndarray, " place"]
) -> Float[np.ndarray, " place"]:
    r"""The continuous ranked probability score, $E|X - y| - \frac12 E|X - X'|$, without bias.

    Pairs of different draws estimate the second mean; of sorted draws $x_1 \le \dots \le x_n$,
    the sum over pairs is $\sum_k (2k - n - 1)\,x_k$ (Gneiting & Raftery 2007, section 4.2).
    """
    count = len(draws)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    apart = np.tensordot(ranks, np.sort(draws, axis=0), axes=1) / (count * (count - 1))
    return np.mean(np.abs(draws - truth), axis=0) - apart

r"""Do chains agree, and what are their draws worth? By ranks, as Vehtari et al. (2021) have it.

Draws of all chains together are replaced by normal scores of their ranks, so that heavy tails do no
harm, and chains are cut in two, so that a drift is seen. $\hat R$ compares the variance between
such halves with that within them; once more for distances from the median (folded), since chains
may agree where they lie and not in how wide they are. Effective draws are counted by Geyer's (1992)
initial monotone sequence of autocorrelations: of the scores (bulk), and of whether a draw lies
beyond the 5 % and 95 % quantiles, the fewer of the two (tail).
"""
# By hand: arviz-stats has the same r_hat to rounding, none of a single chain, and bulk effective
# draws within two per cent, at an import of a second or more.

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

Draws = Float[np.ndarray, "chain draw coordinate"]
Each = Float[np.ndarray, " coordinate"]

FEWEST = 4
"""Draws of a chain whose halves can be compared."""

TAILS = (0.05, 0.95)


class Agreement(NamedTuple):
    """Of chains, for each coordinate; NaN where draws do not vary or are too few."""

    r_hat: Each  # the larger of that of ranks and that of folded ranks
    effective_draws: Each  # in the bulk
    tail_draws: Each


def agreement(draws: Draws) -> Agreement:
    """How well chains agree. Coordinates are looked at one by one: they may be many."""
    num_draws, num_coordinates = draws.shape[1:]
    result = np.full((3, num_coordinates), np.nan)
    if num_draws >= FEWEST and np.isfinite(draws).all():
        for number in range(num_coordinates):
            result[:, number] = agreement_of(draws[:, :, number])
    return Agreement(*result)


def agreement_of(draws: Float[np.ndarray, "chain draw"]) -> tuple[float, float, float]:
    """The larger r-hat, and the effective draws of bulk and tails, of one number."""
    halves = split_chains(draws)
    if np.ptp(halves) == 0:
        return np.nan, np.nan, np.nan
    scores = normal_scores(halves)
    folded = normal_scores(np.abs(halves - np.median(halves)))
    low, high = np.quantile(halves, TAILS)
    tail = min(effective_sample_size(halves <= low), effective_sample_size(halves <= high))
    return max(split_r_hat(scores), split_r_hat(folded)), effective_sample_size(scores), tail


def split_chains(draws: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "half kept"]:
    """Each chain in two halves, without the middle draw where their number is odd."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def normal_scores(values: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "chain draw"]:
    """Normal quantiles of the ranks over all chains (Blom 1958)."""
    ranks = rankdata(values, axis=None).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def split_r_hat(values: Float[np.ndarray, "chain draw"]) -> float:
    """Root of the variance of all draws over that within chains; no less than one but by chance."""
    num_draws = values.shape[1]
    within = values.var(axis=1, ddof=1).mean()
    between = values.mean(axis=1).var(ddof=1)
    if within == 0:
        return np.inf if between > 0 else np.nan
    return float(np.sqrt((num_draws - 1) / num_draws + between / within))


def effective_sample_size(values: np.ndarray) -> float:
    """Independent draws whose mean would be as uncertain."""
    values = np.asarray(values, dtype=float)
    num_draws = values.shape[1]
    covariances = autocovariances(values)
    within = (covariances[:, 0] * num_draws / (num_draws - 1)).mean()
    total = within * (num_draws - 1) / num_draws + values.mean(axis=1).var(ddof=1)
    if not total > 0:
        return float(values.size)  # as good as known
    correlations = 1 - (within - (covariances * num_draws / (num_draws - 1)).mean(axis=0)) / total
    correlations[0] = 1.0
    # Of reversible chains sums of neighbours are positive and fall: where not, noise begins.
    pairs = correlations[: num_draws // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    end = max(1, int(negative[0]) if len(negative) else len(pairs))
    time = 2 * np.minimum.accumulate(pairs[:end]).sum() - 1
    # An antithetic chain is worth more than its draws, but no more than can be told.
    return float(values.size / max(time, 1 / np.log10(values.size)))


def autocovariances(values: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "chain lag"]:
    """Of each chain, at all lags, by Fourier transforms."""
    num_draws = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * num_draws, axis=1)) ** 2
    return np.fft.irfft(spectrum, 2 * num_draws, axis=1)[:, :num_draws] / num_draws

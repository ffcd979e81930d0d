"""Residuals by their size: all together, in the tails, and one by one."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_ndtr, ndtr

from riesz.diagnose.criticism.findings import (
    LEVELS,
    OBSERVATION,
    SPREAD,
    TAILS,
    TOLD,
    Finding,
    Readers,
    format_count,
)

CLIPPED = 3.0
"""Beyond this, residuals count as if they were of this size: single ones are told apart."""

LARGEST = 8.0
"""In measures of tails, which one value would else be all of."""

FEWEST_IN_TAILS = 12
FAR = 2.5
"""Residuals that a sentence about tails names, in sd of what all others foretell or, where most lie
farther out than that, of most of them."""

BEYOND = 20.0
"""Residuals whose size says nothing more."""

MOST_TOLD = 3


@dataclass(frozen=True, eq=False)
class Against:
    """Residuals, and copies of them from data that the model itself made."""

    residuals: Float[np.ndarray, " sensor"]
    copies: Float[np.ndarray, "copy sensor"]

    def clip(self) -> "Against":
        return Against(*(np.clip(one, -CLIPPED, CLIPPED) for one in (self.residuals, self.copies)))

    def of_size_one(self) -> "Against":
        """What is left of both once their spread is taken away."""
        sizes = np.sqrt(np.mean(self.copies**2, axis=1, keepdims=True))
        size = float(np.sqrt(np.mean(self.residuals**2)))
        return Against(self.residuals / max(size, 1e-12), self.copies / np.maximum(sizes, 1e-12))


def exceeding(found: float, copies: Float[np.ndarray, " copy"]) -> float:
    """How often copies are as large."""
    return float((1 + np.sum(copies >= found)) / (1 + len(copies)))


def rms(values: Float[np.ndarray, "*copy sensor"]) -> Float[np.ndarray, "*copy"]:
    return np.asarray(np.sqrt(np.mean(values**2, axis=-1)))


def spread(against: Against, readers: Readers, noise: str) -> list[Finding]:
    """More scatter than the noise has, or less."""
    own = against.clip()
    result, copies = float(rms(own.residuals)), rms(own.copies)
    more = result > np.median(copies)
    p = min(1.0, 2 * exceeding(result if more else -result, copies if more else -copies))
    size = float(rms(against.residuals) / np.median(rms(against.copies)))
    if p > LEVELS[SPREAD] or abs(size - 1) < TOLD or (size > 1) != more:
        return []  # sure but next to nothing, or all of it in the tails
    far = np.argsort(-np.abs(against.residuals))
    far = far[np.abs(against.residuals[far]) > 2][: max(10, len(far) // 10)]
    words = f"Observations lie {size:.2g} times as far from what the others foretell as the noise "
    words += (
        f"({noise}) says, farthest {readers.label(far)}: the noise is larger than stated, or the "
        "equation misses something that moves all of them."
        if more
        else f"({noise}) says: the noise is smaller than stated, or values were smoothed or copied."
    )
    return [Finding(SPREAD, words, (), tuple(far.tolist()) if more else (), p)]


def peakedness(values: Float[np.ndarray, "*copy sensor"]) -> Float[np.ndarray, "*copy"]:
    """The fourth moment over the square of the second."""
    squares = np.clip(values, -LARGEST, LARGEST) ** 2
    return np.asarray(np.mean(squares**2, axis=-1) / np.mean(squares, axis=-1) ** 2)


def tails(against: Against, readers: Readers, noise: str, advice: str) -> list[Finding]:
    """A few residuals far outside, beside many that are not."""
    values = against.residuals
    if len(values) < FEWEST_IN_TAILS:
        return []
    p = exceeding(float(peakedness(values)), peakedness(against.copies))
    if p > LEVELS[TAILS]:
        return []
    farther = FAR * max(float(np.median(np.abs(values))) / 0.6745, 1.0)
    far = np.argsort(-np.abs(values))
    far, allowed = far[np.abs(values[far]) > farther], 2 * ndtr(-farther) * len(values)
    if len(far) <= allowed:
        return []
    words = (
        f"{len(far)} of {format_count(len(values))} {'lies' if len(far) == 1 else 'lie'} more than "
        f"{farther:.1f} sd from what all others foretell, up to {abs(values[far[0]]):.1f} sd, "
        f"where the noise ({noise}) would put {allowed:.0f}: {readers.label(far)}. {advice}"
    )
    return [Finding(TAILS, words, (), tuple(far.tolist()), p)]


def outliers(
    values: Float[np.ndarray, " sensor"],
) -> tuple[Int[np.ndarray, " some"], Float[np.ndarray, " sensor"]]:
    """Observations that all others contradict, the farthest first, and the logarithm of p for each:
    that of the largest of so many."""
    logs = np.log(2) + log_ndtr(-np.abs(values)) + np.log(len(values))
    order = np.argsort(logs)
    return order[logs[order] < np.log(LEVELS[OBSERVATION])], logs


def outlier_findings(
    against: Against,
    readers: Readers,
    observed: Float[np.ndarray, " sensor"],
    is_limit: Bool[np.ndarray, " sensor"],
    hangs: Bool[np.ndarray, " sensor"],
) -> list[Finding]:
    """Single ones that all others contradict."""
    values, result = against.residuals, []
    far, logs = outliers(values)
    for i in far[:MOST_TOLD].tolist():
        side = "above" if values[i] > 0 else "below"
        below = "below " if is_limit[i] else ""
        size = f"{abs(values[i]):.1f}" if abs(values[i]) < BEYOND else f"more than {BEYOND:.0f}"
        held = " It holds the fit where it is: look at it first." if hangs[i] else ""
        words = (
            f"{upper(readers.label([i]))} at {readers.where([i])}, {below}{observed[i]:.4g}, lies "
            f"{size} sd {side} what all others foretell for it: look for a slip of "
            f"the pen, a wrong place or unit, or something that happens there alone.{held}"
        )
        result.append(Finding(OBSERVATION, words, (), (i,), float(np.exp(logs[i]))))
    return result


def upper(words: str) -> str:
    return words[:1].upper() + words[1:]

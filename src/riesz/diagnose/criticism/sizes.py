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
)
from riesz.notes import Note

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


def exceeding(size: float, copies: Float[np.ndarray, " copy"]) -> float:
    """How often copies are as large."""
    return float((1 + np.sum(copies >= size)) / (1 + len(copies)))


def rms(values: Float[np.ndarray, "*copy sensor"]) -> Float[np.ndarray, "*copy"]:
    return np.asarray(np.sqrt(np.mean(values**2, axis=-1)))


def scatter_findings(against: Against, readers: Readers, noise: str) -> list[Finding]:
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
    if not more:
        return [Finding(SPREAD, Note("noise_smaller", size=size, noise=noise), p=p)]
    note = Note("noise_larger", size=size, noise=noise, which=readers.label(far))
    return [Finding(SPREAD, note, (), tuple(far.tolist()), p)]


def peakedness(values: Float[np.ndarray, "*copy sensor"]) -> Float[np.ndarray, "*copy"]:
    """The fourth moment over the square of the second."""
    squares = np.clip(values, -LARGEST, LARGEST) ** 2
    return np.asarray(np.mean(squares**2, axis=-1) / np.mean(squares, axis=-1) ** 2)


def tails(against: Against, readers: Readers, noise: str, advice: Note) -> list[Finding]:
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
    note = Note(
        "heavy_tails",
        count=len(far),
        total=len(values),
        limit=farther,
        largest=abs(values[far[0]]),
        noise=noise,
        expected=allowed,
        which=readers.label(far),
        advice=advice,
    )
    return [Finding(TAILS, note, (), tuple(far.tolist()), p)]


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
        note = Note(
            "observation",
            which=readers.label([i]),
            where=readers.where([i]),
            observed=observed[i],
            is_limit=is_limit[i],
            size=values[i],
            most=BEYOND,
            hangs=hangs[i],
        )
        result.append(Finding(OBSERVATION, note, (), (i,), float(np.exp(logs[i]))))
    return result

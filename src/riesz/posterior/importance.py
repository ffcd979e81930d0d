r"""Importance sampling: draws with smoothed weights, and draws that are kept by these.

The one place where weighted draws of a proposal become draws of the target: their weights are
Pareto-smoothed, the tail's shape says whether they can be relied on, and systematic resampling
keeps each draw as often as its weight says (Kitagawa 1996).

The largest weights are replaced by the expected order statistics of a generalised Pareto
distribution fitted to them (Vehtari, Simpson, Gelman, Yao & Gabry 2024). Its shape $\hat k$ tells
how many moments the weights have: below 0.5 averages behave, above 0.7 they are not to be trusted.
The fit is the quasi-Bayesian one of Zhang & Stephens (2009).
"""
# By hand: arviz-stats takes a tail of 3 sqrt(S) draws, which doubles the scatter of the shape for a
# thousand, calls one draw with all the weight harmless (0.05), and imports for a second or more.

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from riesz.notes import Note
from riesz.posterior.checks import K_HAT

FEWEST_IN_TAIL = 5
"""Weights from which a tail is fitted; fewer tell nothing of it."""

MANY_IN_TAIL = 200
"""Weights from which the shape is known well enough: to a tenth."""

BOUNDED = 2.0
"""Averages of the weights: where no draw counts for more, there is no tail that could matter. Its
shape, fitted to what are all but equal weights, would be one of noise."""

PRIOR_SHAPE, PRIOR_WEIGHT = 0.5, 10.0
"""A weakly informative prior of the shape, worth so many draws."""


@dataclass(frozen=True, eq=False)
class SmoothedWeights:
    """Weights that sum to one, and the shape of their tail, zero where there is none."""

    weights: Float[np.ndarray, " draw"]
    k_hat: float

    @property
    def effective_draws(self) -> float:
        """Draws from the target that would tell as much."""
        return float(1 / np.sum(self.weights**2))


def smoothed_weights(log_weights: Float[np.ndarray, " draw"]) -> SmoothedWeights:
    """The weights of draws, their tail smoothed; impossible draws have weight minus infinity."""
    logs = log_weights - log_weights.max()
    weights = np.exp(logs)
    if weights.mean() >= 1 / BOUNDED:  # the largest weight is one
        return SmoothedWeights(weights / weights.sum(), 0.0)
    size = tail_size(len(weights))
    order = np.argsort(weights)
    tail, cutoff = order[-size:], weights[order[-size - 1]]
    excess = weights[tail] - cutoff
    if np.count_nonzero(excess > 0) < FEWEST_IN_TAIL:
        # A few draws have it all.
        return SmoothedWeights(weights / weights.sum(), np.inf)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        shape, scale = pareto_fit(excess)
        if not (np.isfinite(shape) and scale > 0):  # weights hundreds of orders of magnitude apart
            return SmoothedWeights(weights / weights.sum(), np.inf)
        levels = (np.arange(size) + 0.5) / size
        weights[tail] = np.minimum(cutoff + pareto_quantiles(levels, shape, scale), 1.0)
    return SmoothedWeights(weights / weights.sum(), shape)


def tail_size(num_draws: int) -> int:
    """A fifth of the draws at most; from some hundreds on fewer, where the tail is purer.

    (Vehtari et al. go down to 3 sqrt(S) at once, which for a thousand draws leaves the shape
    uncertain by 0.15.)
    """
    return int(np.ceil(min(0.2 * num_draws, max(MANY_IN_TAIL, 3 * np.sqrt(num_draws)))))


def pareto_fit(excess: Float[np.ndarray, " tail"]) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, from sorted values above zero."""
    excess = excess[excess > 0]
    size = len(excess)
    count = 30 + int(np.sqrt(size))
    quartile = excess[int(size / 4 + 0.5) - 1]
    rates = 1 - np.sqrt(count / (np.arange(1, count + 1) - 0.5))
    rates = rates / (3 * quartile) + 1 / excess[-1]
    shapes = np.mean(np.log1p(-rates[:, None] * excess), axis=1)
    profile = size * (np.log(-rates / shapes) - shapes - 1)
    likely = np.exp(profile - profile.max())
    rate = float(rates @ likely / likely.sum())
    shape = float(np.mean(np.log1p(-rate * excess)))
    scale = -shape / rate
    return (size * shape + PRIOR_WEIGHT * PRIOR_SHAPE) / (size + PRIOR_WEIGHT), scale


def pareto_quantiles(
    levels: Float[np.ndarray, " level"], shape: float, scale: float
) -> Float[np.ndarray, " level"]:
    if abs(shape) < 1e-12:
        return -scale * np.log1p(-levels)
    return scale * np.expm1(-shape * np.log1p(-levels)) / shape


@dataclass(frozen=True, eq=False)
class ImportanceSample(SmoothedWeights):
    """Draws of a proposal, and what their weights say.

    Logarithms are of the weights as they came, minus infinity for draws that are impossible.
    """

    draws: Float[np.ndarray, " draw *shape"]
    log_weights: Float[np.ndarray, " draw"]

    @property
    def log_integral(self) -> float:
        """Of the target over the proposal: the log-evidence, where the target is the joint one."""
        return float(logsumexp(self.log_weights) - np.log(len(self.log_weights)))

    def resample(
        self, count: int, start: float = 0.5, order: Int[np.ndarray, " draw"] | None = None
    ) -> Float[np.ndarray, " count *shape"]:
        """So many draws of the target."""
        return self.draws[systematic_resample(self.weights, count, start, order)]

    def notes(self, code: str) -> tuple[Note, ...]:
        """A note with this code where the weights are not to be trusted."""
        is_heavy = not self.k_hat <= K_HAT.bad
        return (Note(code, value=self.k_hat, limit=K_HAT.bad),) if is_heavy else ()


def weight_draws(
    draws: Float[np.ndarray, " draw *shape"], log_weights: Float[np.ndarray, " draw"]
) -> ImportanceSample:
    """By the logarithms of their weights; what is not finite has none."""
    logs = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    smoothed = smoothed_weights(logs)
    return ImportanceSample(smoothed.weights, smoothed.k_hat, draws, logs)


def systematic_resample(
    weights: Float[np.ndarray, " draw"],
    count: int,
    start: float = 0.5,
    order: Int[np.ndarray, " draw"] | None = None,
) -> Int[np.ndarray, " count"]:
    """Numbers of so many draws, each as often as its weight says.

    Draws are gone through in an `order`, in which neighbours should be alike: they stand in for
    each other.
    """
    ends = np.cumsum(weights if order is None else weights[order])
    levels = (np.arange(count) + start) / count
    chosen = np.minimum(np.searchsorted(ends / ends[-1], levels), len(ends) - 1)
    return chosen if order is None else order[chosen]

r"""Moments by draws of wide-tailed mixtures about the ends of searches, weighed by exact solves.

Each part is a multivariate Student-t with four degrees of freedom, by the curvature of the
log-density at an end, 1.2 times as wide: its tails reach beyond those of any posterior under a
normal prior. For some unknowns that is as good as chains, and quicker; where the weights are not
even enough, nothing is claimed.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from riesz.arrays import on_device
from riesz.posterior.importance import smoothed_weights
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.solved import Rows, seen, value_and_slope

FREEDOM, WIDER = 4.0, 1.2
COUNTS = (2048, 4096, 8192)
ENOUGH, LARGEST_K, NOTHING = 1000.0, 0.5, 50.0
STEP = 1e-3
SAME = 1.0
"""Ends that are nearer than this, by the curvature, are one."""


class Weighed(NamedTuple):
    """Moments, what the draws are worth for each mean, and the kurtosis."""

    mean: Float[np.ndarray, " coordinate"]
    sd: Float[np.ndarray, " coordinate"]
    effective: Float[np.ndarray, " coordinate"]
    kurtosis: Float[np.ndarray, " coordinate"]


class Part(NamedTuple):
    """Of a mixture: where it is, and its covariance but for the width."""

    centre: Float[np.ndarray, " coordinate"]
    spread: Float[np.ndarray, "one other"]


def spread_about(problem: InverseProblem, end: np.ndarray) -> Float[np.ndarray, "one other"] | None:
    """The inverse of minus the log-density's curvature, by differences of its gradient; none where
    a step away there is no solution."""
    solver, size = problem.default_solver(), len(end)
    slopes = [
        np.asarray(value_and_slope(problem, solver, on_device(end + sign * STEP * unit))[1])
        for unit in np.eye(size)
        for sign in (1, -1)
    ]
    bend = -(np.array(slopes[::2]) - np.array(slopes[1::2])) / (2 * STEP)
    if not np.isfinite(bend).all():
        return None
    values, axes = np.linalg.eigh((bend + bend.T) / 2)
    # No direction is wider than twice the prior, in which the log-density bends by one.
    return (axes / np.maximum(values, 0.25)) @ axes.T


def spread_or_prior(problem: InverseProblem, end: np.ndarray) -> Float[np.ndarray, "one other"]:
    found = spread_about(problem, end)
    return np.eye(len(end)) if found is None else found


def weighed(
    problem: InverseProblem, probes, ends: list[np.ndarray], seed: list[int]
) -> Weighed | None:
    """From all ends that differ; nothing where one of them has no curvature, or the weights have a
    heavy tail."""
    parts: list[Part] = []
    for end in ends:
        if not any(near(end, *part) for part in parts):
            spread = spread_about(problem, end)
            if spread is None:
                return None
            parts.append(Part(end, spread))
    rng = np.random.default_rng(seed)
    for count in COUNTS:
        draws = drawn(parts, count, rng)
        logs = seen(problem, probes, draws).log_density - log_mixture(parts, draws)
        logs = np.where(np.isfinite(logs), logs, np.max(logs) - NOTHING)
        found = smoothed_weights(logs)
        weights = np.exp(logs - np.asarray(logsumexp(logs)))
        if found.k_hat <= LARGEST_K and found.effective_draws >= ENOUGH:
            return moments(draws, weights)
        # What was found is one more part: a ridge is seldom as wide as its top says.
        mean = weights @ draws
        spread = np.einsum("d,di,dj->ij", weights, draws - mean, draws - mean)
        parts.append(Part(mean, spread + 1e-3 * parts[0].spread))
    return None


def near(end: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> bool:
    away = end - centre
    return bool(away @ np.linalg.solve(spread, away) < SAME**2)


def drawn(parts: list[Part], count: int, rng: np.random.Generator) -> Rows:
    """So many draws of the mixture, in which all parts weigh the same."""
    which = rng.integers(len(parts), size=count)
    factors = np.stack([WIDER * np.linalg.cholesky(spread) for _, spread in parts])
    centres = np.stack([centre for centre, _ in parts])
    normal = rng.standard_normal((count, centres.shape[1]))
    long = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, count))[:, None]
    return centres[which] + long * np.einsum("dij,dj->di", factors[which], normal)


def log_mixture(parts: list[Part], rows: Rows) -> Float[np.ndarray, " row"]:
    """Up to a constant."""
    each = []
    for centre, spread in parts:
        factor = WIDER * np.linalg.cholesky(spread)
        white = np.linalg.solve(factor, (rows - centre).T)
        tail = np.log1p(np.sum(white**2, axis=0) / FREEDOM)
        each.append(-0.5 * (FREEDOM + len(centre)) * tail - np.sum(np.log(np.diag(factor))))
    return np.asarray(logsumexp(each, axis=0))


def moments(draws: Rows, weights: Float[np.ndarray, " row"]) -> Weighed:
    mean = weights @ draws
    squares = (draws - mean) ** 2
    sd = np.sqrt(weights @ squares)
    effective = sd**2 / (weights**2 @ squares)
    return Weighed(mean, sd, effective, weights @ squares**2 / sd**4)

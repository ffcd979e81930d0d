r"""What a model foretells of data that it was not given, and scores of that.

Blocks are left out of data that are normal given few unknowns by closed forms, and weights. Values
of scales and noise $h$ that the whole data left are weighed by $1 / p(y_B \mid y_{-B}, h)$: they
are then those without the block $B$.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtri

from riesz.arrays import on_device
from riesz.diagnose.loo import UNRELIABLE
from riesz.engines.conditional.linear import affine_map, affine_shift
from riesz.engines.conditional.points import AbstractPointMap
from riesz.engines.conditional.systems import AbstractDataSystem, Groups, HostDataSpace, LeftOut
from riesz.posterior.psis import smoothed_weights
from riesz.problem.linearity import Parts
from riesz.problem.problem import InverseProblem

EXACT, WEIGHTS, REFIT, DOUBTFUL = "closed form", "weights", "refit", "weights that fail"
"""How a block was left out."""

LEVEL = 0.95

PerSensor = Float[np.ndarray, " sensor"]

NUM_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Of each observation: its log-density given those outside its block, and draws of it.

    `k_hat` is of the weights of each block, zero where there were none; `how` says how it was left
    out. Draws count alike; they are NaN where observations are only known to lie below a limit.
    """

    log_densities: PerSensor
    draws: Float[np.ndarray, "draw sensor"]
    k_hat: Float[np.ndarray, " block"]
    how: tuple[str, ...]

    @property
    def doubtful(self) -> Bool[np.ndarray, " block"]:
        return np.array([one == DOUBTFUL for one in self.how])

    @property
    def total(self) -> float:
        """The expected log predictive density (elpd)."""
        return float(self.log_densities.sum())


def block_method(k_hat: float, num_weights: int) -> str:
    """How a block was left out by so many weights with such a tail."""
    if num_weights == 1:
        return EXACT
    return WEIGHTS if k_hat <= UNRELIABLE else DOUBTFUL


@dataclass(frozen=True, eq=False)
class Scores:
    """Of each observation; less is better but for the log-density."""

    log_density: PerSensor
    crps: PerSensor
    error: PerSensor  # of the median
    held: PerSensor  # one where the central interval holds the observation

    def means(self) -> dict[str, float | None]:
        """Over all observations; None where none has the score."""
        named = {
            "log_density": self.log_density,
            "crps": self.crps,
            "mae": self.error,
            "coverage95": self.held,
        }
        return {
            name: float(np.nanmean(one)) if np.isfinite(one).any() else None
            for name, one in named.items()
        }


def score(held_out: HeldOut, observed: PerSensor) -> Scores:
    """In the unit of draws and observations."""
    draws = np.sort(held_out.draws, axis=0)
    count = len(draws)
    near = np.mean(np.abs(draws - observed), axis=0)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    apart = ranks @ draws / count**2  # half the mean distance between two draws
    low, median, high = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
    held = np.where(np.isnan(low), np.nan, (low <= observed) & (observed <= high))
    return Scores(held_out.log_densities, near - apart, np.abs(median - observed), held)


@eqx.filter_jit
def moments_of(
    problem: InverseProblem, parts: Parts, others: Float[Array, " other"], at: AbstractPointMap
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor column"]]:
    """Observed less expected, and a root of the covariance, by solves."""
    offset, responses = affine_map(problem, parts, others, at)
    shift, by_unknown = affine_shift(problem, parts, others, offset)
    responses = responses + by_unknown
    z = parts.z(problem.latents, jnp.zeros(len(parts.linear), offset.dtype), others)
    noise = problem.likelihood.factor(problem.observed, z)
    root = noise.colour(jnp.eye(len(offset), dtype=offset.dtype))
    return problem.observed - offset - shift, jnp.hstack([responses, root])


def solve_data(
    problem: InverseProblem, parts: Parts, others: Float[np.ndarray, " other"], at: AbstractPointMap
) -> HostDataSpace:
    """All data where unknowns do more than scale."""
    return by_root(*jax.block_until_ready(moments_of(problem, parts, on_device(others), at)))


def by_root(misfit: ArrayLike, root: ArrayLike) -> HostDataSpace:
    """Data with a covariance that is a root times its transpose, noise and all."""
    misfit = np.asarray(misfit, float)
    return HostDataSpace(np.asarray(root, float), misfit, np.zeros_like(misfit))


def leave_out(every: Iterable[AbstractDataSystem], divisions: Sequence[Groups]) -> list[LeftOut]:
    """For each value of the scales, by each of several divisions of the data into groups."""
    result = [[one.leave_out(groups) for groups in divisions] for one in every]
    return [LeftOut(*map(np.stack, zip(*own, strict=True))) for own in zip(*result, strict=True)]


Again = Callable[[int], tuple[LeftOut, Float[np.ndarray, " part"]]]
"""What a fit without a group, given by its number, says of that group, and the parts' weights."""


def mixture_elpd(
    observed: PerSensor,
    found: LeftOut,
    shares: Float[np.ndarray, " part"],
    groups: Groups,
    seed: int,
    again: Again | None = None,
) -> HeldOut:
    """The mixture over values of the scales, weighed for each group; where that fails, refitted."""
    densities, drawn = np.zeros(len(observed)), np.zeros((NUM_DRAWS, len(observed)))
    k_hats, how = np.zeros(len(groups)), []
    for number, rows in enumerate(groups):
        smoothed = smoothed_weights(np.log(shares) - found.logs[:, number])
        own, weights, elpd_and_method = (
            found,
            smoothed.weights,
            block_method(smoothed.k_hat, len(shares)),
        )
        if again is not None and elpd_and_method == DOUBTFUL:
            (own, weights), elpd_and_method = again(number), REFIT
        k_hats[number] = smoothed.k_hat
        how.append(elpd_and_method)
        gaps, sds = own.gaps[:, rows], own.sds[:, rows]
        logs = -0.5 * ((gaps / sds) ** 2 + np.log(2 * np.pi)) - np.log(sds)
        densities[rows] = logsumexp(logs, axis=0, b=weights[:, None])
        rng = np.random.default_rng((seed, number))
        drawn[:, rows] = observed[rows] - mixture_draws(rng, gaps, sds, weights)
    return HeldOut(densities, drawn, k_hats, tuple(how))


def mixture_draws(
    rng: np.random.Generator,
    means: Float[np.ndarray, "part own"],
    sds: Float[np.ndarray, "part own"],
    weights: Float[np.ndarray, " part"],
) -> Float[np.ndarray, "draw own"]:
    """As even as draws can be: quantiles of the normal, in an order of its own for each."""
    levels = (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
    part = np.searchsorted(np.cumsum(weights) / weights.sum(), levels)
    normals = np.tile(ndtri(levels)[:, None], (1, means.shape[1]))
    return means[part] + sds[part] * rng.permuted(normals, axis=0)

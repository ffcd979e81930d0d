r"""Blocks left out of data that are normal given few unknowns: closed forms, and weights for those.

Given scales and noise $h$ the data have the covariance $S$, and with $Q = S^{-1}$ and the misfit
$m$ a block $B$ differs from what all others say of it by $Q_{BB}^{-1} (Q m)_B$, with the covariance
$Q_{BB}^{-1}$ (Dubrule 1983). Values of $h$ that the whole data left are weighed by
$1 / p(y_B \mid y_{-B}, h)$: without $B$.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Float, Int
from scipy.special import logsumexp, ndtri

from riesz.arrays import on_device
from riesz.comparison.foretold import DOUBTFUL, REFIT, Foretold, way
from riesz.engines.conditional.host import DataModel
from riesz.engines.conditional.linear import affine_map, affine_shift
from riesz.engines.conditional.points import AbstractAtPoints
from riesz.posterior.psis import smoothed_weights
from riesz.problem.linearity import Parts
from riesz.problem.problem import InverseProblem

NUM_DRAWS = 1000

Covariance = Float[np.ndarray, "sensor sensor"]
PerSensor = Float[np.ndarray, " sensor"]


class NormalData(NamedTuple):
    """All data given scales and noise: observed less expected, and their covariance."""

    misfit: PerSensor
    covariance: Covariance

    def log_density(self) -> float:
        factor = sla.cho_factor(self.covariance, lower=True)
        square = self.misfit @ sla.cho_solve(factor, self.misfit)
        size = len(self.misfit) * np.log(2 * np.pi)
        return float(-0.5 * (square + size) - np.sum(np.log(np.diag(factor[0]))))


def normal_data(model: DataModel, others: Float[np.ndarray, " other"]) -> NormalData:
    system = model.system(others)
    covariance = system.responses @ system.responses.T + np.diag(system.noise_sd**2)
    return NormalData(model.misfit, covariance)


@eqx.filter_jit
def moments_of(
    problem: InverseProblem, parts: Parts, others: Float[Array, " other"], at: AbstractAtPoints
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor sensor"]]:
    """The same where unknowns do more than scale: by solves."""
    offset, responses = affine_map(problem, parts, others, at)
    shift, by_unknown = affine_shift(problem, parts, others, offset)
    responses = responses + by_unknown
    z = parts.z(problem.latents, jnp.zeros(len(parts.linear), offset.dtype), others)
    noise = problem.likelihood.factor(problem.observed, z)
    root = noise.coloured(jnp.eye(len(offset), dtype=offset.dtype))
    return problem.observed - offset - shift, responses @ responses.T + root @ root.T


def solved_data(
    problem: InverseProblem,
    parts: Parts,
    others: Float[np.ndarray, " other"],
    at: AbstractAtPoints,
) -> NormalData:
    found = jax.block_until_ready(moments_of(problem, parts, on_device(others), at))
    return NormalData(*(np.asarray(one, float) for one in found))


Groups = list[Int[np.ndarray, " _"]]
"""Which observations are left out together, group by group."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """For each value of the scales: what all others say of the data, group by group."""

    logs: Float[np.ndarray, "part group"]  # log-densities of whole groups
    gaps: Float[np.ndarray, "part sensor"]  # observed less foretold
    sds: Float[np.ndarray, "part sensor"]


def left_out(every: Iterable[NormalData], divisions: Sequence[Groups]) -> list[LeftOut]:
    """By each of several divisions of the data into groups."""
    found: list[list[Any]] = [[] for _ in divisions]
    for one in every:
        factor = sla.cho_factor(one.covariance, lower=True)
        precision = sla.cho_solve(factor, np.eye(len(one.misfit)))
        weights = precision @ one.misfit
        for rows, groups in zip(found, divisions, strict=True):
            rows.append(left_out_groups(precision, weights, groups))
    return [LeftOut(*map(np.stack, zip(*rows, strict=True))) for rows in found]


def left_out_groups(
    precision: Covariance, weights: PerSensor, groups: Groups
) -> tuple[Float[np.ndarray, " group"], PerSensor, PerSensor]:
    if len(groups) == len(weights):  # each by itself
        own = np.diag(precision)
        logs = 0.5 * (np.log(own / (2 * np.pi)) - weights**2 / own)
        return logs, weights / own, 1 / np.sqrt(own)
    logs, gaps, sds = np.zeros(len(groups)), np.zeros(len(weights)), np.ones(len(weights))
    for number, rows in enumerate(groups):
        factor = sla.cho_factor(precision[np.ix_(rows, rows)], lower=True)
        covariance = sla.cho_solve(factor, np.eye(len(rows)))
        gap = covariance @ weights[rows]
        gaps[rows], sds[rows] = gap, np.sqrt(np.diag(covariance))
        size = len(rows) * np.log(2 * np.pi)
        logs[number] = np.sum(np.log(np.diag(factor[0]))) - 0.5 * (gap @ weights[rows] + size)
    return logs, gaps, sds


Again = Callable[[int], tuple[LeftOut, Float[np.ndarray, " part"]]]
"""What a fit without a group, given by its number, says of that group, and the parts' weights."""


def foretold(
    observed: PerSensor,
    found: LeftOut,
    shares: Float[np.ndarray, " part"],
    groups: Groups,
    seed: int,
    again: Again | None = None,
) -> Foretold:
    """The mixture over values of the scales, weighed for each group; where that fails, refitted."""
    densities, drawn = np.zeros(len(observed)), np.zeros((NUM_DRAWS, len(observed)))
    k_hats, how = np.zeros(len(groups)), []
    for number, rows in enumerate(groups):
        weighed = smoothed_weights(np.log(shares) - found.logs[:, number])
        own, weights, told = found, weighed.weights, way(weighed.k_hat, len(shares))
        if again is not None and told == DOUBTFUL:
            (own, weights), told = again(number), REFIT
        k_hats[number] = weighed.k_hat
        how.append(told)
        gaps, sds = own.gaps[:, rows], own.sds[:, rows]
        logs = -0.5 * ((gaps / sds) ** 2 + np.log(2 * np.pi)) - np.log(sds)
        densities[rows] = logsumexp(logs, axis=0, b=weights[:, None])
        rng = np.random.default_rng((seed, number))
        drawn[:, rows] = observed[rows] - mixture_draws(rng, gaps, sds, weights)
    return Foretold(densities, drawn, k_hats, tuple(how))


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

r"""Blocks left out of data that are normal given few unknowns: closed forms, and weights for those.

Values of scales and noise $h$ that the whole data left are weighed by $1 / p(y_B \mid y_{-B}, h)$:
they are then those without the block $B$.
"""

from collections.abc import Callable, Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtri

from riesz.arrays import on_device
from riesz.comparison.foretold import DOUBTFUL, REFIT, Foretold, way
from riesz.engines.conditional.linear import affine_map, affine_shift
from riesz.engines.conditional.points import AbstractAtPoints
from riesz.engines.conditional.systems import AbstractDataSystem, ByData, Groups, LeftOut
from riesz.posterior.psis import smoothed_weights
from riesz.problem.linearity import Parts
from riesz.problem.problem import InverseProblem

NUM_DRAWS = 1000

PerSensor = Float[np.ndarray, " sensor"]


@eqx.filter_jit
def moments_of(
    problem: InverseProblem, parts: Parts, others: Float[Array, " other"], at: AbstractAtPoints
) -> tuple[Float[Array, " sensor"], Float[Array, "sensor column"]]:
    """Observed less expected, and a root of the covariance, by solves."""
    offset, responses = affine_map(problem, parts, others, at)
    shift, by_unknown = affine_shift(problem, parts, others, offset)
    responses = responses + by_unknown
    z = parts.z(problem.latents, jnp.zeros(len(parts.linear), offset.dtype), others)
    noise = problem.likelihood.factor(problem.observed, z)
    root = noise.coloured(jnp.eye(len(offset), dtype=offset.dtype))
    return problem.observed - offset - shift, jnp.hstack([responses, root])


def solved_data(
    problem: InverseProblem,
    parts: Parts,
    others: Float[np.ndarray, " other"],
    at: AbstractAtPoints,
) -> ByData:
    """All data where unknowns do more than scale."""
    return by_root(*jax.block_until_ready(moments_of(problem, parts, on_device(others), at)))


def by_root(misfit: ArrayLike, root: ArrayLike) -> ByData:
    """Data with a covariance that is a root times its transpose, noise and all."""
    misfit = np.asarray(misfit, float)
    return ByData(np.asarray(root, float), misfit, np.zeros_like(misfit))


def left_out(every: Iterable[AbstractDataSystem], divisions: Sequence[Groups]) -> list[LeftOut]:
    """For each value of the scales, by each of several divisions of the data into groups."""
    found = [[one.left_out(groups) for groups in divisions] for one in every]
    return [LeftOut(*map(np.stack, zip(*own, strict=True))) for own in zip(*found, strict=True)]


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

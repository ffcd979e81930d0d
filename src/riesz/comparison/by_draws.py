"""Blocks left out of a posterior that is known by draws: by weights, or by a fit without them."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from scipy.special import logsumexp

from riesz.comparison.held_out import DOUBTFUL, REFIT, HeldOut, block_method
from riesz.diagnose.loo import own_logs
from riesz.engines.conditional.systems import Groups
from riesz.errors import RieszError
from riesz.observe.effects import WithEffects
from riesz.observe.likelihood import (
    AbstractLikelihood,
    Censored,
    Gaussian,
    Scale,
    StudentT,
    scale_at,
)
from riesz.posterior.posterior import Posterior
from riesz.posterior.psis import smoothed_weights
from riesz.prediction.sampling import quantity_draws
from riesz.problem.problem import InverseProblem

NUM_DRAWS = 1000

UNSEEN = 1e6
"""The noise of a left-out observation, in spreads of the data: it tells nothing. So all blocks
share the programs of the whole."""

PerDraw = Float[np.ndarray, "draw sensor"]


class DrawLogs(eqx.Module):
    """Log-densities of the observations for each draw, and measurements like them."""

    logs: PerDraw
    new: PerDraw


def draw_logs(posterior: Posterior, num_draws: int, seed: int) -> DrawLogs:
    result = quantity_draws(posterior, each_observation, num_draws=num_draws, seed=seed)
    lost = np.isnan(result["logs"]).any(axis=1)
    if lost.mean() > 0.5:
        raise RieszError(
            f"{int(lost.sum())} of {len(lost)} draws have no state: the equation has no solution "
            "there. Look for priors that allow impossible coefficients."
        )
    new = np.where(posterior.problem.censored, np.nan, result["new"])
    return DrawLogs(result["logs"][~lost], new[~lost])


def each_observation(
    key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
) -> dict[str, Float[Array, " sensor"]]:
    predicted, likelihood = problem.predict(state, z), problem.likelihood
    logs = own_logs(likelihood, problem.observed, predicted, z)
    return {"logs": logs, "new": likelihood.sample(key, predicted, z)}


Again = Callable[[int], Posterior]
"""A fit without a group, given by its number, of the problem with it."""


def elpd_by_draws(
    drawn: DrawLogs,
    groups: Groups,
    seed: int,
    again: Again | None = None,
    num_draws: int = NUM_DRAWS,
) -> HeldOut:
    """By weights for each group; where they fail, by a fit without it."""
    count = drawn.logs.shape[1]
    densities, new = np.zeros(count), np.zeros((num_draws, count))
    k_hats, how = np.zeros(len(groups)), []
    for number, rows in enumerate(groups):
        smoothed = smoothed_weights(-drawn.logs[:, rows].sum(axis=1))
        own, weights = drawn, smoothed.weights
        elpd_and_method = block_method(smoothed.k_hat, len(weights))
        if again is not None and elpd_and_method == DOUBTFUL:
            own, elpd_and_method = draw_logs(again(number), num_draws, seed), REFIT
            weights = np.full(len(own.logs), 1 / len(own.logs))
        k_hats[number] = smoothed.k_hat
        how.append(elpd_and_method)
        densities[rows] = logsumexp(own.logs[:, rows], axis=0, b=weights[:, None])
        levels = (np.arange(num_draws) + 0.5) / num_draws
        kept = np.searchsorted(np.cumsum(weights) / weights.sum(), levels)
        new[:, rows] = own.new[np.ix_(kept, rows)]
    return HeldOut(densities, new, k_hats, tuple(how))


class Unseen(eqx.Module):
    """A scale of noise where some observations are left out: theirs is fixed, and vast."""

    scale: Scale
    left: Bool[Array, " sensor"]
    vast: Float[Array, ""]

    def __call__(self, z: PyTree) -> Float[Array, " sensor"]:
        return jnp.where(self.left, self.vast, scale_at(self.scale, z).astype(self.vast.dtype))


def without(problem: InverseProblem, left: Bool[np.ndarray, " sensor"]) -> InverseProblem | None:
    """The problem as if some observations had not been made; None where noise has no such form."""
    observed = np.asarray(problem.observed)
    vast = UNSEEN * max(float(observed.std()), float(np.abs(observed).max()) * 1e-3, 1e-12)
    result = blind(problem.likelihood, left, vast)
    return None if result is None else dataclasses.replace(problem, likelihood=result)


def blind(
    likelihood: AbstractLikelihood, left: Bool[np.ndarray, " sensor"], vast: float
) -> AbstractLikelihood | None:
    if isinstance(likelihood, WithEffects):
        base = blind(likelihood.base, left, vast)
        return None if base is None else eqx.tree_at(lambda own: own.base, likelihood, base)
    if not isinstance(likelihood, Gaussian | StudentT | Censored):
        return None
    dtype = jnp.result_type(float)
    scale = Unseen(likelihood.sd, jnp.asarray(left), jnp.asarray(vast, dtype))
    return dataclasses.replace(likelihood, sd=scale)

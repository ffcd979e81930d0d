r"""Each observation against what all others say of it, as a standard normal number.

The probability with which all others foretell less than was observed is uniform if the model is
right, whatever the noise; its normal quantile is the residual (Dunn & Smyth 1996; counts and limits
are drawn within their steps). Draws of the posterior are weighed to leave an observation out
(PSIS-LOO); where weights fail, the residual under the whole posterior is widened by what a normal
posterior would lose without the observation.
"""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import logsumexp, ndtri_exp

from riesz.arrays import on_device
from riesz.diagnose.criticism.law import Law, law_of
from riesz.observe.distributions import Tails, normal_tails
from riesz.observe.factors import conditional_errors
from riesz.observe.likelihood import AbstractLikelihood
from riesz.posterior.checks import K_HAT
from riesz.posterior.importance import smoothed_weights
from riesz.prediction.draws import Observed
from riesz.prediction.sensors import AtSensors
from riesz.problem.problem import InverseProblem

MOST_SHARED = 4000
"""Observations of shared noise whose covariance is made."""

SMALLEST = -700.0
"""Logarithm of a probability: beyond, residuals are all the same."""

Draws = Float[np.ndarray, "draw coordinate"]
AtEach = Float[np.ndarray, " sensor"]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals, the shape of the weights' tail (NaN where there are none), and the law that
    residuals would follow."""

    values: AtEach
    k_hat: AtEach
    law: Law

    @property
    def sd(self) -> AtEach:
        """Of the scores that the law is of; residuals have one each."""
        return np.sqrt(self.law.variances())


def can_be_left_out(likelihood: AbstractLikelihood, num_sensors: int) -> bool:
    """Whether there is a way from draws to residuals."""
    parts = likelihood.parts(num_sensors)
    if all(one.is_independent for one, _ in parts):
        return True
    return num_sensors <= MOST_SHARED and all(
        one.is_independent or one.is_normal for one, _ in parts
    )


def residuals_of(
    problem: InverseProblem,
    observed: Observed,
    coordinates: Draws | None,
    middle: Float[np.ndarray, " coordinate"],
    rng: np.random.Generator,
) -> Residuals:
    """From draws of what is predicted for the observations.

    Shared noise is that of the coordinates in the `middle`, one for all draws.
    """
    drawn, num_sensors = observed.drawn, len(observed.values)
    noise = np.sqrt(np.mean(drawn.noise**2, axis=0))
    # Limits are taken to say nothing of the unknowns: what stands below one scatters by itself.
    white, is_read = None, ~observed.censored
    if all(one.is_independent for one, _ in problem.likelihood.parts(num_sensors)):
        moved = drawn.predicted / noise
        law = law_of(moved * is_read, coordinates)
    else:
        about = on_device(drawn.predicted.mean(axis=0), problem.forward.dtype)
        at = on_device(middle, problem.forward.dtype)
        white = np.asarray(whitening(problem, at, about), float)
        moved, sd = conditional_errors(white, drawn.predicted)
        law = law_of((drawn.predicted * is_read) @ white.T, coordinates, sd[:, None] * white.T)
    standing = standing_of(problem.likelihood, observed, drawn, white)
    steps = rng.uniform(size=num_sensors)
    weights, k_hat = weights_without(standing)
    whole = quantiles(standing, np.full_like(weights, -np.log(len(weights))), steps)
    wider = np.sqrt((1 + moved.var(axis=0)) / law.variances())
    values = np.where(k_hat <= K_HAT.bad, quantiles(standing, weights, steps), whole * wider)
    return Residuals(values, k_hat, law)


@eqx.filter_jit
def whitening(
    problem: InverseProblem,
    coordinates: Float[Array, " coordinate"],
    about: Float[Array, " sensor"],
) -> Float[Array, "sensor sensor"]:
    """The matrix that makes errors independent, each of sd one."""
    factor = problem.likelihood.factor(about, problem.z(coordinates))
    return factor.white(jnp.eye(len(about), dtype=about.dtype))


@dataclass(frozen=True, eq=False)
class Standing:
    """Where observations stand under each draw; with `has_steps` what they are has a probability
    of its own, and without `has_weights` nothing is known but new measurements."""

    tails: Tails
    has_steps: Bool[np.ndarray, " sensor"]
    has_weights: Bool[np.ndarray, " sensor"]


def standing_of(
    likelihood: AbstractLikelihood,
    observed: Observed,
    drawn: AtSensors,
    white: Float[np.ndarray, "sensor sensor"] | None,
) -> Standing:
    """Part by part of the likelihood, in the order of the observations."""
    start, parts, steps, weights = 0, [], [], []
    for part, size in likelihood.parts(len(observed.values)):
        own = slice(start, start + size)
        start += size
        values, distribution = observed.values[own], part.noise.observation_distribution
        tails = None
        if not part.is_independent:
            assert white is not None
            apart, sd = conditional_errors(white, observed.values - drawn.predicted)
            tails = normal_tails(apart[:, own], np.log(sd[own]) * np.ones_like(apart[:, own]))
        elif distribution is not None:
            tails = distribution.tails(values, drawn.predicted[:, own], drawn.noise[:, own])
        is_discrete = distribution is not None and distribution.is_discrete
        steps.append(np.full(size, is_discrete or tails is None))
        weights.append(np.full(size, tails is not None))
        parts.append(tails_from_draws(values, drawn.measured[:, own]) if tails is None else tails)
    below, at, above = (np.concatenate(one, axis=1) for one in zip(*parts, strict=True))
    # All below a limit is one step.
    at = np.where(observed.censored, below, at)
    below = np.where(observed.censored, -np.inf, below)
    return Standing(
        Tails(below, at, above),
        np.concatenate(steps) | observed.censored,
        np.concatenate(weights),
    )


def tails_from_draws(values: AtEach, measured: Float[np.ndarray, "draw sensor"]) -> Tails:
    """By new measurements of each draw, for noise whose distribution is not known here.

    Beside them there may always be one more, so that no probability is zero.
    """
    count = len(measured)
    share = count / (count + 1)
    with np.errstate(divide="ignore"):
        return Tails(
            np.log(share * (measured < values)),
            np.log(share * (measured == values) + 1 / (count + 1)),
            np.log(share * (measured > values)),
        )


def weights_without(
    standing: Standing,
) -> tuple[Float[np.ndarray, "draw sensor"], AtEach]:
    """Logarithms of the weights that leave each observation out, and the shape of their tail."""
    logs = np.zeros_like(standing.tails.at)
    k_hat = np.full(logs.shape[1], np.nan)
    for i in np.flatnonzero(standing.has_weights).tolist():
        result = smoothed_weights(-np.maximum(standing.tails.at[:, i], -1e6))
        with np.errstate(divide="ignore"):
            logs[:, i], k_hat[i] = np.log(result.weights), result.k_hat
    return logs, k_hat


def quantiles(
    standing: Standing, weights: Float[np.ndarray, "draw sensor"], steps: AtEach
) -> AtEach:
    """Normal quantiles of the probability of less, by its smaller tail."""
    below, at, above = (np.asarray(logsumexp(one + weights, axis=0)) for one in standing.tails)
    within = np.where(standing.has_steps, at, -np.inf)
    below = np.maximum(np.logaddexp(below, within + np.log(steps)), SMALLEST)
    above = np.maximum(np.logaddexp(above, within + np.log1p(-steps)), SMALLEST)
    return np.where(below < above, ndtri_exp(below), -ndtri_exp(above))


def has_learned_noise(likelihood: AbstractLikelihood, num_sensors: int) -> bool:
    """Whether a scale of the noise is unknown, which then follows what residuals there are."""
    scales = (s for one, _ in likelihood.parts(num_sensors) for s in one.scales().values())
    return any(isinstance(one, str) or callable(one) for one in scales)

r"""Held-out predictive densities: each observation given all others, or those outside its group.

A posterior is a mixture of parts: its draws, or values of few scales $h$ given which the data are
normal and groups are left out by closed forms. Weighed by $1 / p(y_B \mid y_{-B}, h)$ the parts are
those of the posterior without the group $B$; the weights are smoothed, and the shape $\hat k$ of
their tail says whether they can be relied on (PSIS-LOO; Vehtari, Gelman & Gabry 2017). Where not,
the posterior may be fitted again without the group.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree
from scipy.special import logsumexp, ndtri

from riesz.density.marginal.systems import AbstractDataSystem, Groups, LeftOut, Rows
from riesz.errors import RieszError
from riesz.observe.factors import conditional_errors
from riesz.observe.joint import Joint
from riesz.observe.likelihood import AbstractLikelihood
from riesz.posterior.checks import K_HAT
from riesz.posterior.importance import smoothed_weights, systematic_resample
from riesz.posterior.posterior import Posterior
from riesz.prediction.sampling import quantity_draws
from riesz.problem.problem import InverseProblem

EXACT, WEIGHTS, REFIT, DOUBTFUL = "closed form", "weights", "refit", "weights that fail"
"""How a group was left out."""

NUM_DRAWS = 2000

NUM_PREDICTED = 1000
"""Draws of each observation that is left out."""

LEVEL = 0.95

PerSensor = Float[np.ndarray, " sensor"]
PerPart = Float[np.ndarray, " part"]
PerDraw = Float[np.ndarray, "draw sensor"]
PartRows = Float[np.ndarray, "part row"]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Of each observation: its log-density given those outside its group, and draws of it.

    `k_hat` is of the weights of each group; `how` says how it was left out. Draws count alike; they
    are NaN where observations are only known to lie below a limit.
    """

    observed: PerSensor
    log_densities: PerSensor
    draws: PerDraw
    k_hat: Float[np.ndarray, " group"]
    how: tuple[str, ...]

    @property
    def total(self) -> float:
        """The expected log predictive density (elpd) of all observations."""
        return float(self.log_densities.sum())

    @property
    def error(self) -> float:
        """The standard error of the total, over observations."""
        return float(np.sqrt(len(self.log_densities)) * self.log_densities.std(ddof=1))

    @property
    def unreliable(self) -> Bool[np.ndarray, " group"]:
        """Groups that hold the posterior where it is: without them it would be elsewhere."""
        return np.array([one == DOUBTFUL for one in self.how])

    def in_unit(self, back: Callable[[Any], Any]) -> "HeldOut":
        """In another unit, but for the log-density, in which models differ alike in any."""
        return replace(self, draws=back(self.draws), observed=back(self.observed))

    @cached_property
    def scores(self) -> dict[str, PerSensor]:
        """Of each observation, in the unit of its draws; less is better but for the log-density.

        The error is that of the median; `held` is one where the central interval holds the
        observation.
        """
        draws, observed = np.sort(self.draws, axis=0), self.observed
        count = len(draws)
        near = np.mean(np.abs(draws - observed), axis=0)
        ranks = 2 * np.arange(1, count + 1) - count - 1
        apart = ranks @ draws / count**2  # half the mean distance between two draws
        levels = [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]
        low, median, high = np.quantile(draws, levels, axis=0)
        held = np.where(np.isnan(low), np.nan, (low <= observed) & (observed <= high))
        scores = {"log_density": self.log_densities, "crps": near - apart}
        return scores | {"error": np.abs(median - observed), "held": held}

    def means(self) -> dict[str, float | None]:
        """Over all observations; None where none has the score."""
        names = {"error": "mae", "held": "coverage95"}
        return {
            names.get(name, name): float(np.nanmean(one)) if np.isfinite(one).any() else None
            for name, one in self.scores.items()
        }


@dataclass(frozen=True, eq=False)
class AbstractMixture(ABC):
    """A posterior in parts, and what each says of observations that are left out."""

    shares: PerPart

    @abstractmethod
    def group_logs(self, number: int, rows: Rows) -> PerPart:
        """The log-density of a group under each part."""

    @abstractmethod
    def logs(self, rows: Rows) -> PartRows:
        """The log-density of each of its observations."""

    @abstractmethod
    def predict(
        self, rows: Rows, parts: Int[np.ndarray, " draw"], rng: np.random.Generator
    ) -> Float[np.ndarray, "draw row"]:
        """A draw of each of its observations for each of these parts."""


@dataclass(frozen=True, eq=False)
class DrawMixture(AbstractMixture):
    """Draws: log-densities of the observations for each, and measurements like them."""

    by_sensor: PerDraw
    new: PerDraw

    def group_logs(self, number: int, rows: Rows) -> PerPart:
        return self.by_sensor[:, rows].sum(axis=1)

    def logs(self, rows: Rows) -> PartRows:
        return self.by_sensor[:, rows]

    def predict(
        self, rows: Rows, parts: Int[np.ndarray, " draw"], rng: np.random.Generator
    ) -> Float[np.ndarray, "draw row"]:
        return self.new[np.ix_(parts, rows)]


@dataclass(frozen=True, eq=False)
class NormalMixture(AbstractMixture):
    """Values of scales, given which groups are left out by closed forms."""

    observed: PerSensor
    left: LeftOut

    def group_logs(self, number: int, rows: Rows) -> PerPart:
        return self.left.logs[:, number]

    def logs(self, rows: Rows) -> PartRows:
        gaps, sds = self.left.gaps[:, rows], self.left.sds[:, rows]
        return -0.5 * ((gaps / sds) ** 2 + np.log(2 * np.pi)) - np.log(sds)

    def predict(
        self, rows: Rows, parts: Int[np.ndarray, " draw"], rng: np.random.Generator
    ) -> Float[np.ndarray, "draw row"]:
        """As even as draws can be: quantiles of the normal, in an order of its own for each."""
        levels = (np.arange(len(parts)) + 0.5) / len(parts)
        normals = rng.permuted(np.tile(ndtri(levels)[:, None], (1, len(rows))), axis=0)
        gaps, sds = (one[np.ix_(parts, rows)] for one in (self.left.gaps, self.left.sds))
        return self.observed[rows] - (gaps + sds * normals)


def normal_mixtures(
    systems: Iterable[AbstractDataSystem],
    shares: PerPart,
    observed: PerSensor,
    divisions: Sequence[Groups],
) -> list[NormalMixture]:
    """By each of several divisions of the data into groups."""
    result = [[one.leave_out(groups) for groups in divisions] for one in systems]
    left = [LeftOut(*map(np.stack, zip(*own, strict=True))) for own in zip(*result, strict=True)]
    return [NormalMixture(shares, observed, one) for one in left]


Again = Callable[[int], AbstractMixture]
"""The posterior without a group, given by its number."""


def predictive_densities(
    mixture: AbstractMixture,
    observed: PerSensor,
    groups: Groups,
    seed: int,
    again: Again | None = None,
) -> HeldOut:
    """By weights for each group; where they fail, by a fit without it."""
    densities, draws = np.zeros(len(observed)), np.zeros((NUM_PREDICTED, len(observed)))
    k_hats, how = np.zeros(len(groups)), []
    for number, rows in enumerate(groups):
        smoothed = smoothed_weights(np.log(mixture.shares) - mixture.group_logs(number, rows))
        own, weights = mixture, smoothed.weights
        way = WEIGHTS if smoothed.k_hat <= K_HAT.bad else DOUBTFUL
        way = EXACT if len(weights) == 1 else way
        if again is not None and way == DOUBTFUL:
            own, way = again(number), REFIT
            weights = own.shares
        k_hats[number] = smoothed.k_hat
        how.append(way)
        densities[rows] = logsumexp(own.logs(rows), axis=0, b=weights[:, None])
        parts = systematic_resample(weights, NUM_PREDICTED)
        draws[:, rows] = own.predict(rows, parts, np.random.default_rng((seed, number)))
    return HeldOut(observed, densities, draws, k_hats, tuple(how))


def leave_one_out(posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0) -> HeldOut:
    """From draws of a posterior and their states: a solve each, however many observations."""
    observed = np.asarray(posterior.problem.observed, float)
    mixture = draw_mixture(posterior, num_draws, seed)
    return predictive_densities(mixture, observed, single_groups(len(observed)), seed)


def single_groups(num_observed: int) -> Groups:
    """Each observation by itself."""
    return list(np.arange(num_observed)[:, None])


def draw_mixture(posterior: Posterior, num_draws: int, seed: int) -> DrawMixture:
    """A posterior by its draws, but those without a state."""
    result = quantity_draws(posterior, observation_draws, num_draws=num_draws, seed=seed)
    logs, new = result["log_likelihood"], result["posterior_predictive"]
    lost = np.isnan(logs).any(axis=1)
    if lost.mean() > 0.5:
        raise RieszError(
            f"{int(lost.sum())} of {len(lost)} draws have no state: the equation has no solution "
            "there. Look for priors that allow impossible coefficients."
        )
    kept = np.where(posterior.problem.censored, np.nan, new)[~lost]
    return DrawMixture(np.full(len(kept), 1 / len(kept)), logs[~lost], kept)


def observation_draws(
    key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
) -> dict[str, Float[Array, " sensor"]]:
    """New data of one draw, and the log-density of each observation."""
    predicted = problem.predict(state, z)
    return {
        "posterior_predictive": problem.likelihood.sample(key, predicted, z),
        "log_likelihood": pointwise(problem, predicted, z),
    }


def check_shared_noise(likelihood: AbstractLikelihood) -> None:
    """Raise where observations share noise of which the others say nothing by a closed form."""
    if not likelihood.is_normal:
        raise RieszError(
            "observations cannot be left out one by one where they share noise that is not normal: "
            f"{likelihood.describe()}."
        )


def pointwise(
    problem: InverseProblem, predicted: Float[Array, " sensor"], z: PyTree
) -> Float[Array, " sensor"]:
    """The log-density of each observation given the state, and where noise is shared the others.

    What an observation scatters about is then known in part from these (Bürkner, Gabry & Vehtari
    2021).
    """
    likelihood = problem.likelihood
    if likelihood.is_independent:
        return own_logs(likelihood, problem.observed, predicted, z)
    check_shared_noise(likelihood)
    factor = likelihood.factor(predicted, z)
    white = factor.white(jnp.eye(len(predicted), dtype=predicted.dtype))
    gap = problem.observed - likelihood.mean(predicted, z)
    apart, sd = conditional_errors(white, gap)
    return -0.5 * (apart**2 + jnp.log(2 * jnp.pi)) - jnp.log(sd)


def own_logs(
    likelihood: AbstractLikelihood,
    observed: Float[Array, " sensor"],
    predicted: Float[Array, " sensor"],
    z: PyTree,
) -> Float[Array, " sensor"]:
    """The log-density of each observation by itself."""
    if isinstance(likelihood, Joint):
        cut = zip(likelihood.cut(observed), likelihood.cut(predicted), strict=True)
        each = [own_logs(one, seen, said, z) for (one, seen), (_, said) in cut]
        return jnp.concatenate(each)
    return jnp.asarray(likelihood.distribution(predicted, z).log_prob(observed))

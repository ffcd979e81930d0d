r"""Is q the posterior? Importance sampling of q against the exact log-posterior says.

Draws of q are weighed by $p(\xi, y) / q(\xi)$, with the equation solved exactly for each. The tail
of the weights alone misses some failures (a q that is too wide has light weights), so the moments
that the weights correct are told too, each with its Monte-Carlo error.
"""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import ndtr, ndtri

from riesz.diagnose.psis import SmoothedWeights, smoothed_weights
from riesz.diagnose.sobol import spread_normals
from riesz.engines.nuts.engine import log_density
from riesz.engines.relax.error_scale import linearised, noise_variances
from riesz.engines.relax.states import RelaxedStates
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.posterior.family import AbstractFamily, AbstractGaussian, Draws
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import Coordinates, InverseProblem, in_precision

NUM_DRAWS = 1000

GOOD, DOUBTFUL = 0.5, 0.7
"""Shapes of the tail up to which q is good, and above which not even its correction is."""

TOLERATED_SHIFT, TOLERATED_GROWTH = 0.25, 0.2
"""Of a mean in posterior standard deviations, and of a standard deviation (in logarithms)."""

KEPT = (
    *("num_draws", "k_hat", "effective_draws", "mean", "sd"),
    *("mean_shift", "mean_shift_error", "sd_ratio", "sd_ratio_error"),
)
"""What of a check is kept with a posterior."""

PREFIX = "importance_"
"""Of the names under which it is kept."""

SURE = 3.0
"""Monte-Carlo errors by which a moment must be off before it is told, of one unknown; of many, as
many errors as are as improbable for the largest of them."""


@dataclass(frozen=True, eq=False)
class ImportanceCheck:
    """What weights say of q: shape of their tail, effective draws, and corrected moments.

    `mean_shift` is how far the corrected mean lies from that of q in corrected standard
    deviations, `sd_ratio` the standard deviation of q over the corrected one, both for each
    coordinate, and with their Monte-Carlo errors.
    """

    names: tuple[str, ...]
    num_draws: int
    k_hat: float
    effective_draws: float
    mean: Float[np.ndarray, " coordinate"]
    sd: Float[np.ndarray, " coordinate"]
    mean_shift: Float[np.ndarray, " coordinate"]
    mean_shift_error: Float[np.ndarray, " coordinate"]
    sd_ratio: Float[np.ndarray, " coordinate"]
    sd_ratio_error: Float[np.ndarray, " coordinate"]

    @property
    def verdict(self) -> str:
        """In a few words, as the tail of the weights has it, which alone does not make q good."""
        if self.k_hat <= GOOD:
            return "no heavy tail, but see below" if warnings_of(self) else "good"
        return "to be taken with its corrected moments" if self.k_hat <= DOUBTFUL else "not trusted"

    def __str__(self) -> str:
        told = (
            f"importance sampling with {self.num_draws} exact solves: k-hat {self.k_hat:.2f} "
            f"({self.verdict}), {self.effective_draws:.0f} effective draws"
        )
        if not np.isfinite(self.sd_ratio).all():  # a single draw has all the weight
            return told
        shift = farthest(self.mean_shift, self.mean_shift_error, TOLERATED_SHIFT)
        growth, errors = np.log(self.sd_ratio), self.sd_ratio_error / self.sd_ratio
        ratio = farthest(growth, errors, TOLERATED_GROWTH)
        return (
            f"{told}; corrected mean of {self.names[shift]} {self.mean_shift[shift]:+.2f} +- "
            f"{self.mean_shift_error[shift]:.2f} sd away, sd of {self.names[ratio]} "
            f"{self.sd_ratio[ratio]:.2f} +- {self.sd_ratio_error[ratio]:.2f} of the corrected one"
        )


def beyond_chance(
    offsets: Float[np.ndarray, " coordinate"],
    errors: Float[np.ndarray, " coordinate"],
    tolerated: float,
) -> Bool[np.ndarray, " coordinate"]:
    """Which offsets are larger than tolerated, and than the largest of so many by chance."""
    sure = -ndtri(ndtr(-SURE) / len(offsets))
    return np.abs(offsets) > np.maximum(tolerated, sure * errors)


def farthest(
    offsets: Float[np.ndarray, " coordinate"],
    errors: Float[np.ndarray, " coordinate"],
    tolerated: float,
) -> int:
    """The largest offset of those beyond chance, or of all where none is."""
    sizes = np.abs(offsets)
    beyond = beyond_chance(offsets, errors, tolerated)
    return int(np.argmax(np.where(beyond, sizes, -1.0) if beyond.any() else sizes))


def warnings_of(check: ImportanceCheck) -> tuple[str, ...]:
    """What a reader of the posterior must know; nothing where q is good."""
    if not check.k_hat <= DOUBTFUL:
        # Nothing of the moments: a few draws have all the weight, and look like a narrow posterior.
        return (
            f"k-hat is {check.k_hat:.2f}, above {DOUBTFUL}: the posterior reaches where q has next "
            "to no draws; neither q nor its corrected moments can be trusted. Compare with nuts.",
        )
    found = []
    shift = farthest(check.mean_shift, check.mean_shift_error, TOLERATED_SHIFT)
    if beyond_chance(check.mean_shift, check.mean_shift_error, TOLERATED_SHIFT)[shift]:
        found.append(
            f"the mean of {check.names[shift]} should lie {check.mean_shift[shift]:+.2f} of its "
            f"standard deviations away (Monte-Carlo error {check.mean_shift_error[shift]:.2f})."
        )
    growth, errors = np.log(check.sd_ratio), check.sd_ratio_error / check.sd_ratio
    ratio = farthest(growth, errors, TOLERATED_GROWTH)
    if beyond_chance(growth, errors, TOLERATED_GROWTH)[ratio]:
        size = "narrow" if growth[ratio] < 0 else "wide"
        found.append(
            f"q is too {size}: the standard deviation of {check.names[ratio]} is "
            f"{check.sd_ratio[ratio]:.2f} of what it should be (Monte-Carlo error "
            f"{check.sd_ratio_error[ratio]:.2f})."
        )
    return tuple(found)


def importance_check(
    posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> ImportanceCheck:
    """Weigh draws of q against the exact posterior, one exact solve each.

    For `relax` the exact posterior is that of its relaxed model at the epsilon it ended with.
    """
    family, states = posterior.distribution, posterior.states
    if not isinstance(family, AbstractFamily):
        raise RieszError(
            f"a posterior by {posterior.engine} consists of draws that have no density to weigh: "
            "its sampler tells of itself, in its notes and its history."
        )
    with jax.enable_x64(True):
        problem, family = in_precision((posterior.problem, family), jnp.float64)
        normals = spread_normals(seed, num_draws, problem.num_coordinates)
        draws = family.transformed(jnp.asarray(normals))
        relaxed = in_precision(states, jnp.float64) if isinstance(states, RelaxedStates) else None
        logs = np.asarray(log_weights(problem, family, relaxed, draws))
    if np.isnan(logs).any():
        raise RieszError(
            f"{np.isnan(logs).sum()} of {num_draws} draws have no log-posterior: the exact solve "
            "failed there. Look for priors that allow impossible coefficients."
        )
    moments = known_moments(family)
    return checked(np.asarray(draws), logs, problem.latents.coordinate_names(), moments)


def known_moments(
    family: AbstractFamily,
) -> tuple[Float[np.ndarray, " coordinate"], Float[np.ndarray, " coordinate"]] | None:
    """Mean and standard deviation of q, where they need no draws."""
    if not isinstance(family, AbstractGaussian):
        return None
    return np.asarray(family.mean), np.sqrt(np.asarray(family.variances()))


def with_importance_check(
    posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> Posterior:
    """The same posterior with the check in its history, and what it warns of in its notes."""
    found = importance_check(posterior, num_draws=num_draws, seed=seed)
    words = tuple(f"importance sampling: {note}" for note in warnings_of(found))
    for note in words:
        warnings.warn(f"{posterior.engine}: {note}", stacklevel=2)
    told = {PREFIX + name: jnp.asarray(getattr(found, name)) for name in KEPT}
    return dataclasses.replace(
        posterior, history=posterior.history | told, notes=(*posterior.notes, *words)
    )


def told_check(posterior: Posterior) -> ImportanceCheck | None:
    """The check that a posterior carries, if any."""
    if PREFIX + KEPT[0] not in posterior.history:
        return None
    found: dict[str, Any] = {name: np.asarray(posterior.history[PREFIX + name]) for name in KEPT}
    numbers = {name: found[name].item() for name in ("num_draws", "k_hat", "effective_draws")}
    return ImportanceCheck(names=posterior.problem.latents.coordinate_names(), **(found | numbers))


def checked(
    draws: Float[np.ndarray, "draw coordinate"],
    logs: Float[np.ndarray, " draw"],
    names: tuple[str, ...],
    moments: tuple[Float[np.ndarray, " coordinate"], Float[np.ndarray, " coordinate"]] | None,
) -> ImportanceCheck:
    """What the weights change of q's moments, from weighted and plain draws.

    Both come from the same draws: what chance does to them it mostly does to both, and the change
    is known better than either. It is applied to the moments of q where those are known.
    """
    found = smoothed_weights(logs)
    with np.errstate(all="ignore"):  # a single draw may have all the weight, and no spread
        return moved_moments(draws, found, names, moments)


def moved_moments(
    draws: Float[np.ndarray, "draw coordinate"],
    found: SmoothedWeights,
    names: tuple[str, ...],
    moments: tuple[Float[np.ndarray, " coordinate"], Float[np.ndarray, " coordinate"]] | None,
) -> ImportanceCheck:
    weights = found.weights[:, None]
    mean = np.sum(weights * draws, axis=0)
    squares = (draws - mean) ** 2
    sd = np.sqrt(np.sum(weights * squares, axis=0))
    plain_mean, plain_sd = draws.mean(axis=0), draws.std(axis=0)
    plain_squares = (draws - plain_mean) ** 2
    # The difference of two averages over the same draws has the variance of its own terms.
    mean_error = np.sqrt(
        np.sum((weights * (draws - mean) - (draws - plain_mean) / len(draws)) ** 2, axis=0)
    )
    growth_terms = weights * (squares / sd**2 - 1) - (plain_squares / plain_sd**2 - 1) / len(draws)
    growth_error = 0.5 * np.sqrt(np.sum(growth_terms**2, axis=0))
    ratio = plain_sd / sd
    own_mean, own_sd = (plain_mean, plain_sd) if moments is None else moments
    corrected_sd = own_sd / ratio
    return ImportanceCheck(
        names=tuple(names),
        num_draws=len(draws),
        k_hat=found.k_hat,
        effective_draws=found.effective_draws,
        mean=own_mean + mean - plain_mean,
        sd=corrected_sd,
        mean_shift=(mean - plain_mean) / corrected_sd,
        mean_shift_error=mean_error / corrected_sd,
        sd_ratio=ratio,
        sd_ratio_error=ratio * growth_error,
    )


@eqx.filter_jit
def log_weights(
    problem: InverseProblem, family: AbstractFamily, relaxed: RelaxedStates | None, draws: Draws
) -> Float[Array, " draw"]:
    """The log-posterior less the log-density of q, one solve after the other."""

    def one(coordinates: Coordinates) -> Float[Array, ""]:
        if relaxed is None:
            target = log_density(problem, coordinates, SparseLU())
        else:
            target = relaxed_log_prob(problem, relaxed, coordinates)
        return target - family.log_prob(coordinates)

    return jax.lax.map(one, draws)


def relaxed_log_prob(
    problem: InverseProblem, states: RelaxedStates, coordinates: Coordinates
) -> Float[Array, ""]:
    r"""The log-posterior of the relaxed model: $N(y;\, H G[\xi],\, S(\xi))$ times the prior."""
    here = linearised(problem, coordinates)
    variances = noise_variances(problem, coordinates)
    covariance = jnp.diag(variances) + states.epsilon**2 * here.discrepancy(states.factor)
    factor = jnp.linalg.cholesky(covariance)
    gap = problem.observed - problem.operator @ here.state
    white = jax.scipy.linalg.solve_triangular(factor, gap, lower=True)
    volume = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return problem.latents.log_prior(coordinates) - 0.5 * white @ white - volume

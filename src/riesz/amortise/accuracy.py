"""Answers to many data sets that exact solves vouch for, or that say why they do not."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import expit, logsumexp

from riesz.amortise.importance import (
    CHANCE,
    MANY_DRAWS,
    MOST_TOGETHER,
    NUM_REPLICAS,
    BatchWork,
    FittedGaussian,
    WeightedDraws,
    exact_log_densities,
    fit_data_set,
    predictions_at,
    propose,
    surprises,
    weighted_draws,
)
from riesz.amortise.simulate import SensorData
from riesz.devices import map_data_sets, num_at_once
from riesz.notes import Note
from riesz.posterior.checks import K_HAT
from riesz.posterior.family import Draws
from riesz.posterior.posterior import is_field
from riesz.posterior.sobol import spread_normals
from riesz.problem.problem import Coordinates, InverseProblem

MANY_EXACT = 256
"""Exact solves for a data set for which the model is not good enough."""

LARGEST_BIAS = 0.1
"""Standard deviations by which the model may move any mean."""

OTHER_MODES_SHARE = 0.01
"""Of the evidence: more of it far away would move a mean."""

MOST_ROUNDS = 3
"""Of Gaussians that are weighed, each with the moments that the last one found."""

CONTRADICTION = 5.0
"""Standard deviations by which the log-density of data may lie below that of replicas: by chance
that happens to one of a thousand, with few sensors."""

TRUSTED, REFINED, DOUBTFUL = "trusted", "refined", "doubtful"


Answers = TypeVar("Answers")


class BatchPosterior(NamedTuple):
    """Of each data set: moments of coordinates and numbers, some draws, and a verdict."""

    mean: Float[np.ndarray, "data coordinate"]
    sd: Float[np.ndarray, "data coordinate"]
    values: dict[str, tuple[np.ndarray, np.ndarray]]  # means and sds of unknowns that are numbers
    draws: Float[np.ndarray, "data kept coordinate"]
    k_hat: Float[np.ndarray, " data"]
    effective_draws: Float[np.ndarray, " data"]
    by_chance: Float[np.ndarray, " data"]  # error of the worst mean, in standard deviations
    bias: Float[np.ndarray, " data"]  # at most, by the model, in standard deviations
    elsewhere: Float[np.ndarray, " data"]
    surprise: Float[np.ndarray, " data"]  # how far the data lie from any that the model gives
    num_exact: Int[np.ndarray, " data"]
    verdict: np.ndarray

    @property
    def is_fair(self) -> Bool[np.ndarray, " data"]:
        """Whether weighed draws may stand for the posterior of what they were weighed by."""
        return (self.k_hat <= K_HAT.bad) & (self.by_chance <= CHANCE)

    @property
    def contradicts(self) -> Bool[np.ndarray, " data"]:
        """Data sets that no values of the unknowns explain."""
        return ~(self.surprise <= CONTRADICTION)


def check_accuracy(work: BatchWork, observed: SensorData) -> BatchPosterior:
    """The answers, refined where they need to be."""
    return assess(work, observed, work.asked.map(fit_data_set, observed, work.devices))


def assess(work: BatchWork, observed: SensorData, answers: FittedGaussian) -> BatchPosterior:
    """What weights and exact solves say of answers."""
    first, size = work.weigh(observed, answers), work.asked.problem.num_coordinates
    result, weak = batch_accuracy(work, observed, first, work.num_exact), first.weak()
    if len(weak):
        rows = select_rows(observed, weak)
        normals = spread_normals(work.seed + 3, MANY_DRAWS, size)
        more = propose_again(select_rows(first, weak), rows, normals, work.by_model)
        result = replace_rows(result, weak, batch_accuracy(work, rows, more, 2 * work.num_exact))
    off = np.flatnonzero(result.is_fair & ~(result.bias <= LARGEST_BIAS))
    if len(off):
        normals, rows = spread_normals(work.seed + 4, MANY_EXACT, size), select_rows(observed, off)
        own = propose_again(select_rows(first, off), rows, normals, work.exactly)
        bias = np.where(own.is_fair(), 0.0, result.bias[off])
        num_exact = result.num_exact[off] + MANY_EXACT
        again = batch_moments(work, own, bias, result.surprise[off], num_exact)
        result = replace_rows(result, off, again)
    elsewhere, is_refined = remote_evidence_share(answers, first), np.zeros(len(result.bias), bool)
    is_refined[weak], is_refined[off] = True, True
    is_good = result.is_fair & (result.bias <= LARGEST_BIAS) & (elsewhere <= OTHER_MODES_SHARE)
    verdict = np.where(is_good, np.where(is_refined, REFINED, TRUSTED), DOUBTFUL)
    return result._replace(elsewhere=elsewhere, verdict=verdict.astype("<U11"))


def batch_accuracy(
    work: BatchWork, observed: SensorData, own: WeightedDraws, num_exact: int
) -> BatchPosterior:
    """Moments, and by a few exact solves how far the model may move them."""
    bias, surprise = model_bias(work, observed, own)
    return batch_moments(work, own, bias, surprise, np.full(len(bias), num_exact))


def select_rows(every: Answers, chosen: Int[np.ndarray, " some"]) -> Answers:
    """What belongs to some data sets."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], every)


def batch_moments(
    work: BatchWork,
    own: WeightedDraws,
    bias: Float[np.ndarray, " data"],
    surprise: Float[np.ndarray, " data"],
    num_exact: Int[np.ndarray, " data"],
) -> BatchPosterior:
    """Moments by all draws, and those that are kept."""
    return BatchPosterior(
        mean=own.mean,
        sd=np.sqrt(np.diagonal(own.covariance, axis1=1, axis2=2)),
        values=number_moments(work.asked.problem, own),
        draws=take_draws(own.draws, own.resample(work.num_kept)),
        k_hat=own.k_hat,
        effective_draws=own.effective_draws,
        by_chance=own.by_chance(),
        bias=bias,
        elsewhere=np.full(len(bias), np.nan),
        surprise=surprise,
        num_exact=num_exact,
        verdict=np.full(len(bias), DOUBTFUL),
    )


def take_draws(
    draws: Float[np.ndarray, "data draw coordinate"], chosen: Int[np.ndarray, "data some"]
) -> Float[np.ndarray, "data some coordinate"]:
    return np.take_along_axis(draws, chosen[:, :, None], axis=1)


def number_moments(
    problem: InverseProblem, own: WeightedDraws
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means and standard deviations of unknowns that are no functions of place."""
    names = tuple(name for name in problem.latents.names if not is_field(problem, name))
    rows = own.draws, own.weights, own.mean
    return map_data_sets(moments_of_row, (problem, names), rows, width=MOST_TOGETHER, devices=None)


def moments_of_row(
    asked: tuple[InverseProblem, tuple[str, ...]],
    row: tuple[Draws, Float[Array, " draw"], Coordinates],
) -> dict[str, tuple[Array, Array]]:
    """By weighted draws; their means are moved along with that of the coordinates, which is known
    better."""
    (problem, names), (draws, weights, mean) = asked, row
    own = weights @ draws
    offsets = draws - own[None]
    pull = jnp.linalg.solve(offsets.T @ (weights[:, None] * offsets), mean - own)
    moved = weights * (1 + offsets @ pull)
    z = jax.vmap(lambda one: {name: problem.z(one)[name] for name in names})(draws)
    result = {}
    for name, values in z.items():
        centre = jnp.tensordot(moved, values, axes=1)
        square = jnp.tensordot(weights, (values - centre[None]) ** 2, axes=1)
        result[name] = centre, jnp.sqrt(square)
    return result


def replace_rows(every: Answers, chosen: Int[np.ndarray, " some"], some: Answers) -> Answers:
    """With other answers to some data sets."""

    def one(whole: np.ndarray, part: np.ndarray) -> np.ndarray:
        whole = whole.copy()
        whole[chosen] = part
        return whole

    return jax.tree.map(one, every, some)


def remote_evidence_share(
    answers: FittedGaussian, own: WeightedDraws
) -> Float[np.ndarray, " data"]:
    """The share of the evidence that is far away; one where a place there is nearly as likely."""
    logs = own.log_target - own.proposals.log_density
    within = logsumexp(logs, axis=1) - np.log(logs.shape[1])
    with np.errstate(invalid="ignore"):  # where the model gives no draw a density
        share = expit(answers.log_remote_evidence - within)
    return np.where(answers.has_rival, 1.0, share)


def propose_again(
    first: WeightedDraws,
    observed: SensorData,
    normals: Float[np.ndarray, "draw coordinate"],
    log_density: Callable[[SensorData, Float[np.ndarray, "data draw coordinate"]], np.ndarray],
) -> WeightedDraws:
    """Weighed once more, by fresh draws of Gaussians, each with the moments that the last one
    found, until they are fair."""

    def weigh(own: WeightedDraws, observed: SensorData) -> WeightedDraws:
        drawn = propose(own.mean, regularised_factor(own), normals)
        return weighted_draws(log_density(observed, drawn.draws), drawn)

    result = weigh(first, observed)
    for _ in range(MOST_ROUNDS - 1):
        poor = np.flatnonzero(~result.is_fair() & np.isfinite(result.k_hat))
        if not len(poor):
            break
        again = weigh(select_rows(result, poor), select_rows(observed, poor))
        result = replace_rows(result, poor, again)
    return result


def regularised_factor(first: WeightedDraws) -> Float[np.ndarray, "data n n"]:
    """Of the covariance by weights; by plain draws along with it, as far as these are few."""
    size = first.draws.shape[2]
    share = (size / (size + first.effective_draws))[:, None, None]
    offsets = first.draws - first.draws.mean(axis=1, keepdims=True)
    plain = np.einsum("ndi,ndj->nij", offsets, offsets) / offsets.shape[1]
    return np.linalg.cholesky((1 - share) * first.covariance + share * plain)


def model_bias(
    work: BatchWork, observed: SensorData, own: WeightedDraws
) -> tuple[Float[np.ndarray, " data"], Float[np.ndarray, " data"]]:
    """How far the model may move a mean at most, and how far the data lie from what it gives: by
    exact solves for a few draws."""
    chosen = own.resample(work.num_exact)
    predictions = predictions_at(work, observed, take_draws(own.draws, chosen))
    by_model = np.take_along_axis(own.log_target, chosen, axis=1)
    ratios = exact_log_densities(work, predictions) - by_model
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.exp(ratios - ratios.max(axis=1, keepdims=True))
        bias = shares.std(axis=1, ddof=1) / shares.mean(axis=1)
    width = num_at_once(predictions.predicted[0].size * NUM_REPLICAS, MOST_TOGETHER)
    rows = work.asked.problem, predictions
    surprise = map_data_sets(surprises, *rows, width=width, devices=work.devices)
    return np.where(np.isfinite(bias), bias, np.inf), surprise.mean(axis=1)


def reasons(batch: BatchPosterior, number: int) -> tuple[Note, ...]:
    """Why nobody vouches for an answer, and what contradicts it; else nothing."""
    notes = list(doubts_of(batch, number))
    if batch.contradicts[number]:
        notes.append(Note("unexplained", surprise=batch.surprise[number]))
    return tuple(notes)


def doubts_of(batch: BatchPosterior, number: int) -> Iterator[Note]:
    if batch.verdict[number] != DOUBTFUL:
        return
    if not batch.is_fair[number]:
        worth = batch.effective_draws[number]
        yield Note("not_normal", k_hat=batch.k_hat[number], effective_draws=worth)
    if batch.elsewhere[number] > OTHER_MODES_SHARE:
        yield Note("explained_elsewhere")
    if not batch.bias[number] <= LARGEST_BIAS:
        yield Note("biased", bias=batch.bias[number])

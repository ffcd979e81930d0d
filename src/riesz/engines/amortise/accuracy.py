"""Answers to many data sets that exact solves vouch for, or that say why they do not."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from riesz.arrays import on_device
from riesz.devices import Devices
from riesz.engines.amortise.importance import (
    CHANCE,
    MANY_DRAWS,
    BatchProblem,
    Proposals,
    WeightedDraws,
    WeightedGaussian,
    fit_data_set,
    log_normal,
    pick_draws,
    propose,
    weight_again,
    weighted_draws,
    weighted_draws_of,
)
from riesz.engines.amortise.parts import map_in_parts, num_at_once
from riesz.engines.amortise.simulate import SensorData
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Dense, SparseLU
from riesz.posterior.checks import DOUBTFUL as HEAVY
from riesz.posterior.family import Draws
from riesz.posterior.posterior import ExactStates, is_field
from riesz.posterior.sobol import spread_normals
from riesz.problem.problem import Coordinates, InverseProblem

NUM_EXACT, MANY_EXACT = 16, 256
"""Exact solves for each data set, and for one where the model is not good enough."""

LARGEST_BIAS = 0.1
"""Standard deviations by which the model may move any mean."""

OTHER_MODES_SHARE = 0.01
"""Of the evidence: more of it far away would move a mean."""

MOST_TOGETHER = 64
"""Data sets whose draws are looked at together, where nothing is solved for."""

MOST_ROUNDS = 3
"""Of Gaussians that are weighed, each with the moments that the last one found."""

NUM_REPLICAS, CONTRADICTION = 32, 5.0
"""Data sets that a draw would give, and how many of their standard deviations the log-density of
the true one may lie below theirs: by chance that happens to one of a thousand, with few sensors."""

TRUSTED, REFINED, DOUBTFUL = "trusted", "refined", "doubtful"


Answers = TypeVar("Answers", bound=tuple)


class ExactSolves(NamedTuple):
    """Who solves exactly, and for how many draws of a data set."""

    problem: InverseProblem
    devices: Devices | None
    num_draws: int = NUM_EXACT


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
    def contradicts(self) -> Bool[np.ndarray, " data"]:
        """Data sets that no values of the unknowns explain."""
        return ~(self.surprise <= CONTRADICTION)


def check_accuracy(
    asked: BatchProblem,
    observed: SensorData,
    exact: ExactSolves,
    *,
    width: int,
    num_kept: int,
    seed: int,
) -> BatchPosterior:
    """The answers, refined where they need to be."""
    result: WeightedGaussian = map_in_parts(
        fit_data_set, asked, observed, width=width, devices=exact.devices
    )
    return assess(asked, observed, result, exact, width=width, num_kept=num_kept, seed=seed)


def assess(
    asked: BatchProblem,
    observed: SensorData,
    found: WeightedGaussian,
    exact: ExactSolves,
    *,
    width: int,
    num_kept: int,
    seed: int,
) -> BatchPosterior:
    """What weights and exact solves say of answers."""
    first = weighted_draws_of(asked, found)
    result, weak = batch_moments(exact.problem, first, num_kept), first.weak()
    bias, surprise = model_bias(exact, observed, first)
    fair, num_exact = first.is_fair(), np.full(len(bias), exact.num_draws)
    if len(weak):
        more = propose_again(
            asked, select_rows(observed, weak), first.rows(weak), exact.devices, width, seed
        )
        result = replace_rows(result, weak, batch_moments(exact.problem, more, num_kept))
        bias[weak], surprise[weak] = model_bias(exact, select_rows(observed, weak), more)
        fair[weak] = more.is_fair()
        num_exact[weak] += exact.num_draws
    off = np.flatnonzero(fair & ~(bias <= LARGEST_BIAS))
    if len(off):
        own = weight_exactly(select_rows(observed, off), first.rows(off), exact, seed)
        result = replace_rows(result, off, batch_moments(exact.problem, own, num_kept))
        fair[off], bias[off] = own.is_fair(), np.where(own.is_fair(), 0.0, bias[off])
        num_exact[off] += MANY_EXACT
    is_good = fair & (bias <= LARGEST_BIAS) & (np.asarray(found.elsewhere) <= OTHER_MODES_SHARE)
    verdict = np.where(is_good, TRUSTED, DOUBTFUL).astype("<U11")
    changed = np.union1d(weak, off).astype(int)
    verdict[changed] = np.where(is_good[changed], REFINED, DOUBTFUL)
    return result._replace(
        bias=bias,
        elsewhere=np.asarray(found.elsewhere),
        surprise=surprise,
        num_exact=num_exact,
        verdict=verdict,
    )


def select_rows(observed: SensorData, chosen: Int[np.ndarray, " some"]) -> SensorData:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], observed)


def batch_moments(problem: InverseProblem, own: WeightedDraws, num_kept: int) -> BatchPosterior:
    """Moments by all draws, and those that are kept."""
    chosen = pick_draws(own.weights, num_kept, own.draws.shape[-1])
    sd = np.sqrt(np.diagonal(own.covariance, axis1=1, axis2=2))
    nothing = np.full(len(sd), np.nan)
    return BatchPosterior(
        mean=own.mean,
        sd=sd,
        values=number_moments(problem, own),
        draws=np.take_along_axis(own.draws, chosen[:, :, None], axis=1),
        k_hat=own.k_hat,
        effective_draws=own.effective_draws,
        by_chance=own.by_chance(),
        bias=nothing,
        elsewhere=nothing,
        surprise=nothing,
        num_exact=np.zeros(len(sd), int),
        verdict=np.full(len(sd), DOUBTFUL),
    )


def number_moments(
    problem: InverseProblem, own: WeightedDraws
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means and standard deviations of unknowns that are no functions of place."""
    names = tuple(name for name in problem.latents.names if not is_field(problem, name))
    shared, rows = Numbers(problem, names), (own.draws, own.weights, own.mean)
    return map_in_parts(moments_of_row, shared, rows, width=MOST_TOGETHER, devices=None)


class Numbers(eqx.Module):
    """Which unknowns are asked for."""

    problem: InverseProblem
    names: tuple[str, ...] = eqx.field(static=True)


def moments_of_row(
    asked: Numbers, row: tuple[Draws, Float[Array, " draw"], Coordinates]
) -> dict[str, tuple[Array, Array]]:
    """By weighted draws; their means are moved along with that of the coordinates, which is known
    better."""
    draws, weights, mean = row
    own = weights @ draws
    offsets = draws - own[None]
    pull = jnp.linalg.solve(offsets.T @ (weights[:, None] * offsets), mean - own)
    moved = weights * (1 + offsets @ pull)
    z = jax.vmap(lambda one: {name: asked.problem.z(one)[name] for name in asked.names})(draws)
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


def propose_again(
    asked: BatchProblem,
    observed: SensorData,
    first: WeightedDraws,
    devices: Devices | None,
    width: int,
    seed: int,
) -> WeightedDraws:
    """Weighed once more, by more draws of Gaussians that have the moments found before."""
    size = asked.normals.shape[1]
    normals = spread_normals(seed + 3, MANY_DRAWS, size)
    more = eqx.tree_at(lambda own: own.normals, asked, on_device(normals))

    def weighed(own: WeightedDraws, observed: SensorData) -> WeightedDraws:
        mean, factor = own.mean, regularised_factor(own)
        rows = (observed, mean, factor)
        logs = map_in_parts(weight_again, more, rows, width=width, devices=devices)
        return weighted_draws(logs, propose(mean, factor, normals))

    return iterate_proposals(weighed, first, observed)


def iterate_proposals(
    weighed: Callable[[WeightedDraws, SensorData], WeightedDraws],
    first: WeightedDraws,
    observed: SensorData,
) -> WeightedDraws:
    """Each with the moments that the last one found, until they are fair."""
    result = weighed(first, observed)
    for _ in range(MOST_ROUNDS - 1):
        poor = np.flatnonzero(~result.is_fair() & np.isfinite(result.k_hat))
        if not len(poor):
            break
        result = replace_rows(result, poor, weighed(result.rows(poor), select_rows(observed, poor)))
    return result


def regularised_factor(first: WeightedDraws) -> Float[np.ndarray, "data n n"]:
    """Of the covariance by weights; by plain draws along with it, as far as these are few."""
    size = first.draws.shape[2]
    share = (size / (size + first.effective_draws))[:, None, None]
    offsets = first.draws - first.draws.mean(axis=1, keepdims=True)
    plain = np.einsum("ndi,ndj->nij", offsets, offsets) / offsets.shape[1]
    return np.linalg.cholesky((1 - share) * first.covariance + share * plain)


class ModelBias(NamedTuple):
    """How far the model may move a mean at most, and how far the data lie from what it gives."""

    bias: Float[np.ndarray, " data"]
    surprise: Float[np.ndarray, " data"]


def model_bias(exact: ExactSolves, observed: SensorData, own: WeightedDraws) -> ModelBias:
    """By exact solves for a few draws."""
    chosen = pick_draws(own.weights, exact.num_draws, own.draws.shape[-1])
    seen = predictions_of_draws(exact, observed, own, chosen)
    logs = exact_log_weights(exact, seen, own, chosen)
    ratios = logs - np.take_along_axis(own.log_weights, chosen, axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.exp(ratios - ratios.max(axis=1, keepdims=True))
        bias = shares.std(axis=1, ddof=1) / shares.mean(axis=1)
    width = num_at_once(seen.predicted[0].size * NUM_REPLICAS, MOST_TOGETHER)
    surprise = map_in_parts(surprises, exact.problem, seen, width=width, devices=exact.devices)
    return ModelBias(np.where(np.isfinite(bias), bias, np.inf), surprise.mean(axis=1))


def weight_exactly(
    observed: SensorData, first: WeightedDraws, exact: ExactSolves, seed: int
) -> WeightedDraws:
    """Fresh draws of Gaussians with the moments found so far, weighed by exact solves."""
    normals = spread_normals(seed + 4, MANY_EXACT, first.draws.shape[2])

    def weighed(own: WeightedDraws, observed: SensorData) -> WeightedDraws:
        drawn = propose(own.mean, regularised_factor(own), normals)
        every = np.broadcast_to(np.arange(MANY_EXACT), drawn.log_proposals.shape)
        seen = predictions_of_draws(exact, observed, drawn, every)
        return weighted_draws(exact_log_weights(exact, seen, drawn, every), drawn)

    return iterate_proposals(weighed, first, observed)


class ExactPredictions(NamedTuple):
    """Draws of each data set, and what the sensors see of their exact states."""

    observed: SensorData
    places: Float[np.ndarray, "data some coordinate"]
    predicted: Float[np.ndarray, "data some sensor"]


def predictions_of_draws(
    exact: ExactSolves,
    observed: SensorData,
    own: Proposals | WeightedDraws,
    chosen: Int[np.ndarray, "data some"],
) -> ExactPredictions:
    places = np.take_along_axis(own.draws, chosen[:, :, None], axis=1)
    predicted = exact_predictions(exact.problem, places.reshape(-1, places.shape[2]), exact.devices)
    return ExactPredictions(observed, places, predicted.reshape(*places.shape[:2], -1))


def exact_log_weights(
    exact: ExactSolves,
    seen: ExactPredictions,
    own: Proposals | WeightedDraws,
    chosen: Int[np.ndarray, "data some"],
) -> Float[np.ndarray, "data some"]:
    """Of the exact posterior over the density of the proposals."""
    width = num_at_once(seen.predicted[0].size, MOST_TOGETHER)
    fits = map_in_parts(exact_fits, exact.problem, seen, width=width, devices=exact.devices)
    return fits + log_normal(seen.places) - np.take_along_axis(own.log_proposals, chosen, axis=1)


def exact_fits(problem: InverseProblem, row: tuple) -> Float[Array, " draw"]:
    observed, places, seen = row

    def one(place, predicted):
        return observed.log_prob(problem.likelihood, predicted, problem.z(place))

    return jax.vmap(one)(places, seen)


def surprises(problem: InverseProblem, row: tuple) -> Float[Array, " draw"]:
    """How far the log-density of the data lies below that of what each draw would have given."""
    observed, places, seen = row
    keys = jr.split(jr.key(0), NUM_REPLICAS)  # the same for all, so that they can be compared

    def one(place, predicted):
        z, likelihood = problem.z(place), observed.likelihood(problem.likelihood)

        def fit(values):
            other = eqx.tree_at(lambda own: own.values, observed, values)
            return other.log_prob(problem.likelihood, predicted, z)

        usual = jax.vmap(lambda key: fit(likelihood.sample(key, predicted, z)))(keys)
        return (jnp.mean(usual) - fit(observed.values)) / jnp.std(usual)

    return jax.vmap(one)(places, seen)


def exact_predictions(
    problem: InverseProblem, places: Float[np.ndarray, "draw coordinate"], devices: Devices | None
) -> Float[np.ndarray, "draw sensor"]:
    """What the sensors see of exact states, NaN where there is none.

    A processor factorises matrices outside of programs, an accelerator has solvers of its own.
    """
    solver, size = problem.default_solver(), problem.forward.num_free
    if isinstance(solver, SparseLU) and problem.linear is not None:
        states = ExactStates(solver).in_parts(problem, on_device(places))
        return np.asarray(problem.operator.to_scipy() @ states.T).T
    width = num_at_once(size**2 if isinstance(solver, Dense) else 64 * size)
    return map_in_parts(predict_exactly, (problem, solver), places, width=width, devices=devices)


def predict_exactly(
    shared: tuple[InverseProblem, AbstractLinearSolver], place: Float[Array, " coordinate"]
) -> Float[Array, " sensor"]:
    problem, solver = shared
    return problem.predict(problem.solve(place, solver), problem.z(place))


def reasons(found: BatchPosterior, number: int) -> tuple[str, ...]:
    """Why nobody vouches for an answer, and what contradicts it, in words; else nothing."""
    told = [f"{one}: fit this data set by itself, rz.fit." for one in doubts_of(found, number)]
    if found.contradicts[number]:
        told.append(
            "no values of the unknowns explain these data: they are less probable than what the "
            f"model gives by {found.surprise[number]:.2g} standard deviations of that. Look for "
            "wrong units, outliers, or physics that is missing."
        )
    return tuple(told)


def doubts_of(found: BatchPosterior, number: int) -> Iterator[str]:
    if found.verdict[number] != DOUBTFUL:
        return
    if not (found.k_hat[number] <= HEAVY and found.by_chance[number] <= CHANCE):
        yield (
            f"draws of a normal distribution do not tell of the posterior (k-hat "
            f"{found.k_hat[number]:.2f}, worth {found.effective_draws[number]:.0f} draws)"
        )
    if found.elsewhere[number] > OTHER_MODES_SHARE:
        yield "other values of the unknowns, far away, explain these data as well"
    if not found.bias[number] <= LARGEST_BIAS:
        yield (
            f"exact solves say that means may be off by {found.bias[number]:.2g} standard "
            "deviations"
        )

r"""The end of a fit with `relax`: q is brought to the relaxed posterior itself, by exact solves.

Training leaves out $\tfrac12\log|S(z)|$, which costs an adjoint solve a sensor, and knows the
solution as well as its surrogate does. Here the density has it all. The best Gaussian is found by
natural gradients: draws of q and the slopes at them tell how the log-density bends on average over
q (Stein's identity), which is its next precision. Where the posterior is normal a single round is
exact.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.devices import Devices, over_rows
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint, leaves_of, with_leaves
from riesz.engines.emulate.variational import match_normals
from riesz.engines.relax.states import RelaxedStates
from riesz.posterior.family import Draws, FullRank, full_rank_of
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.progress import progress_bar

FOR_EACH_UNKNOWN = 4
"""Draws, at the least: of fewer the curvature in all directions cannot be told."""

SETTLED = 0.005
"""How far the best q may still be, in its standard deviations, and its width, as a share."""

WIDEST, NARROWEST = 4.0, 0.1
"""Changes of a standard deviation in a round."""

LONGEST = 3.0
"""Way of the mean in a round, in standard deviations of q in each direction."""

SLACK = 1e-3
"""By which the bound may fall: draws that are fixed let it, close to its maximum."""

NUM_SCALES, UNLIKELY = 9, 1e-4
"""Values of a learned epsilon for which q is found at most, and the weight, over the largest, below
which there are none."""

STAGE = "exact solves"
"""Its name in checkpoints."""


class DrawMoments(NamedTuple):
    """What the density is at draws of q, in coordinates in which q is the standard normal."""

    bound: float  # on the evidence, up to a constant
    mean_gradient: Float[np.ndarray, " coordinate"]  # the mean slope
    mean_curvature: Float[np.ndarray, "coordinate coordinate"]  # minus the mean second derivative
    scales: Float[np.ndarray, " scale"]  # how likely each epsilon is

    @property
    def is_settled(self) -> bool:
        off = np.abs(self.mean_curvature - np.eye(len(self.mean_gradient))).max() / 2
        return bool(np.abs(self.mean_gradient).max() < SETTLED and off < SETTLED)


class RefinedGaussian(NamedTuple):
    """The best q, or the best one found, and how likely each epsilon is."""

    family: FullRank
    scales: Float[np.ndarray, " scale"]
    is_settled: bool


class Candidate(NamedTuple):
    """A q, and what the density is at its draws."""

    family: FullRank
    look: DrawMoments


class RefinementSetup(NamedTuple):
    """What all searches for a q share."""

    problem: InverseProblem
    normals: Draws
    most: int
    progress: bool
    checkpoint: AbstractCheckpoint
    devices: Devices | None

    def search(self, states: RelaxedStates, family: FullRank, stage: str) -> Candidate:
        """The Gaussian nearest to the density, on one set of draws."""
        share, done = 1.0, 0
        stored = self.checkpoint.restore(stage)
        if stored is not None:
            family, done = with_leaves(family, stored["family"]), stored["done"]
        with progress_bar(self.progress) as shown:
            task = shown.add_task(stage, total=self.most, completed=done, terms="compiling")
            look = moments_at_draws(self.problem, states, family, self.normals, self.devices)
            while done < self.most and not look.is_settled:
                trial = natural_step(family, look, share)
                result = moments_at_draws(self.problem, states, trial, self.normals, self.devices)
                done += 1
                shown.update(task, completed=done, terms=f"bound {result.bound:.4g}")
                # A draw without a solution leaves no bound: it is too far, as if it had fallen.
                if not result.bound >= look.bound - SLACK:
                    share /= 2
                    continue
                family, look, share = trial, result, 1.0
                self.checkpoint.keep(stage, {"family": leaves_of(family), "done": done})
        return Candidate(family, look)


def refine_gaussian(
    problem: InverseProblem,
    states: RelaxedStates,
    family: FullRank,
    key: PRNGKeyArray,
    *,
    num_draws: int,
    rounds: int,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    devices: Devices | None = None,
) -> RefinedGaussian:
    """The Gaussian nearest to the relaxed posterior, or with its moments if epsilon is learned."""
    size, states = problem.num_coordinates, states.ready(problem)
    count = max(num_draws, FOR_EACH_UNKNOWN * size)
    normals = match_normals(key, count, size, problem.forward.dtype)
    search = RefinementSetup(problem, normals, rounds, progress, checkpoint, devices)
    whole = search.search(states, family, STAGE)
    if len(states.epsilon) == 1:
        return RefinedGaussian(whole.family, whole.look.scales, whole.look.is_settled)
    return average_over_epsilon(search, states, whole)


def average_over_epsilon(
    rounds: RefinementSetup, states: RelaxedStates, whole: Candidate
) -> RefinedGaussian:
    """The Gaussian with the mean and the covariance of the posterior over all epsilon.

    That posterior has longer tails than a normal distribution, and the nearest one is too narrow.
    For a single epsilon it is nearly normal: q is found for some of them and weighed by the bound
    on the evidence (as Rue, Martino & Chopin 2009 do with scales).
    """
    numbers = epsilon_grid(whole.look.scales)
    middle = int(np.argmax(whole.look.scales[numbers]))
    result: dict[int, Candidate] = {}
    for way in (numbers[middle:], numbers[:middle][::-1]):
        family = whole.family
        for number in way:  # each from its neighbour
            only = (
                jnp.full_like(states.log_weight, -jnp.inf).at[number].set(states.log_weight[number])
            )
            own = eqx.tree_at(lambda s: s.log_weight, states, only)
            result[int(number)] = rounds.search(own, family, f"{STAGE} {number}")
            family = result[int(number)].family
    parts = [result[int(number)] for number in numbers]
    bounds = np.array([part.look.bound for part in parts])
    weights = scipy.special.softmax(bounds)
    means = np.array([part.family.mean for part in parts])
    mean = weights @ means
    inner = sum(w * np.asarray(p.family.covariance()) for w, p in zip(weights, parts, strict=True))
    covariance = inner + (weights * (means - mean).T) @ (means - mean)
    every = np.interp(np.arange(len(states.epsilon)), numbers, bounds, -np.inf, -np.inf)
    return RefinedGaussian(
        full_rank_of(jnp.asarray(mean), jnp.asarray(np.linalg.cholesky(covariance))),
        scipy.special.softmax(every),
        all(part.look.is_settled for part in parts),
    )


def epsilon_grid(scales: Float[np.ndarray, " scale"]) -> Int[np.ndarray, " some"]:
    """Some values of epsilon, evenly apart, that cover all likely ones."""
    (likely,) = np.nonzero(scales > UNLIKELY * scales.max())
    low, high = max(likely[0] - 1, 0), min(likely[-1] + 1, len(scales) - 1)
    step = max(1, -(-(high - low) // (NUM_SCALES - 1)))
    return np.arange(low, high + 1, step)


def moments_at_draws(
    problem: InverseProblem,
    states: RelaxedStates,
    family: FullRank,
    normals: Draws,
    devices: Devices | None = None,
) -> DrawMoments:
    draws = family.transform(normals)
    values, slopes, scales = over_rows(at_draws, (problem, states), draws, devices)
    pulled = np.asarray(slopes @ family.factor())
    bend = -pulled.T @ np.asarray(normals) / len(normals)
    bound = float(jnp.mean(values) + family.log_volume())
    return DrawMoments(
        bound, pulled.mean(axis=0), (bend + bend.T) / 2, np.asarray(scales).mean(axis=0)
    )


@eqx.filter_jit
def at_draws(
    problem: InverseProblem, states: RelaxedStates, draws: Draws
) -> tuple[Float[Array, " draw"], Draws, Float[Array, "draw scale"]]:
    """The log-density, its slope, and how likely each epsilon is, one draw after the other."""

    def log_prob(coordinates: Coordinates):
        logs = states.log_joint(problem, coordinates)
        return jax.nn.logsumexp(logs), jax.nn.softmax(logs)

    def one(coordinates: Coordinates):
        (value, scales), slope = jax.value_and_grad(log_prob, has_aux=True)(coordinates)
        return value, slope, scales

    return jax.lax.map(one, draws)


def natural_step(family: FullRank, look: DrawMoments, share: float) -> FullRank:
    """A share of the step to the Gaussian that the slopes ask for."""
    values, vectors = np.linalg.eigh(look.mean_curvature)
    precision = 1 + share * (np.clip(values, WIDEST**-2, NARROWEST**-2) - 1)
    # Where the log-density bends upwards, as far as if it bent downwards.
    along = share * (vectors.T @ look.mean_gradient) / np.maximum(np.abs(values), precision)
    along = along * min(1.0, LONGEST * np.sqrt(len(along)) / max(np.linalg.norm(along), 1e-300))
    factor = np.asarray(family.factor())
    turned = factor @ vectors
    covariance = (turned / precision) @ turned.T
    return full_rank_of(
        family.mean + jnp.asarray(turned @ along), jnp.asarray(np.linalg.cholesky(covariance))
    )

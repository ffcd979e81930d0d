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
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.base import NO_CHECKPOINT, AbstractCheckpoint, leaves_of, with_leaves
from riesz.engines.emulate.variational import matched_normals
from riesz.engines.relax.discrepancy import linearised
from riesz.engines.relax.states import RelaxedStates
from riesz.engines.training import bar
from riesz.posterior.family import Draws, FullRank, full_rank_of
from riesz.problem.problem import Coordinates, InverseProblem

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

STAGE = "polish"
"""Its name in checkpoints."""


class Look(NamedTuple):
    """What the density is at draws of q, in coordinates in which q is the standard normal."""

    bound: float  # on the evidence, up to a constant
    pull: Float[np.ndarray, " coordinate"]  # the mean slope
    bend: Float[np.ndarray, "coordinate coordinate"]  # minus the mean second derivative
    scales: Float[np.ndarray, " scale"]  # how likely each epsilon is

    @property
    def is_settled(self) -> bool:
        off = np.abs(self.bend - np.eye(len(self.pull))).max() / 2
        return bool(np.abs(self.pull).max() < SETTLED and off < SETTLED)


class Polished(NamedTuple):
    """The best q, or the best one found, and the weights of all epsilon under it."""

    family: FullRank
    scales: Float[np.ndarray, " scale"]
    is_settled: bool


def polished(
    problem: InverseProblem,
    states: RelaxedStates,
    family: FullRank,
    key: PRNGKeyArray,
    *,
    num_draws: int,
    rounds: int,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Polished:
    """The Gaussian nearest to the relaxed posterior, on one set of draws."""
    size, states, done = problem.num_coordinates, states.ready(problem), 0
    count = max(num_draws, FOR_EACH_UNKNOWN * size)
    normals = matched_normals(key, count, size, problem.forward.dtype)
    kept = checkpoint.stored(STAGE)
    if kept is not None:
        family, done = with_leaves(family, kept["family"]), kept["done"]
    share = 1.0
    with bar(progress) as shown:
        task = shown.add_task("exact solves", total=rounds, completed=done, terms="compiling")
        look = looked(problem, states, family, normals)
        while done < rounds and not look.is_settled:
            trial = moved(family, look, share)
            found = looked(problem, states, trial, normals)
            done += 1
            shown.update(task, completed=done, terms=f"bound {found.bound:.4g}")
            # A draw without a solution leaves no bound: it is too far, as if it had fallen.
            if not found.bound >= look.bound - SLACK:
                share /= 2
                continue
            family, look, share = trial, found, 1.0
            checkpoint.keep(STAGE, {"family": leaves_of(family), "done": done})
    return Polished(family, look.scales, look.is_settled)


def looked(
    problem: InverseProblem, states: RelaxedStates, family: FullRank, normals: Draws
) -> Look:
    values, slopes, scales = at_draws(problem, states, family.transformed(normals))
    pulled = np.asarray(slopes @ family.factor())
    bend = -pulled.T @ np.asarray(normals) / len(normals)
    bound = float(jnp.mean(values) + family.log_volume())
    return Look(bound, pulled.mean(axis=0), (bend + bend.T) / 2, np.asarray(scales).mean(axis=0))


@eqx.filter_jit
def at_draws(
    problem: InverseProblem, states: RelaxedStates, draws: Draws
) -> tuple[Float[Array, " draw"], Draws, Float[Array, "draw scale"]]:
    """The log-density, its slope, and how likely each epsilon is, one draw after the other."""

    def log_prob(coordinates: Coordinates):
        here = linearised(problem, coordinates, states.linear_solver)
        logs = states.log_joint(problem, coordinates, here)
        return jax.nn.logsumexp(logs), jax.nn.softmax(logs)

    def one(coordinates: Coordinates):
        (value, scales), slope = jax.value_and_grad(log_prob, has_aux=True)(coordinates)
        return value, slope, scales

    return jax.lax.map(one, draws)


def moved(family: FullRank, look: Look, share: float) -> FullRank:
    """A share of the step to the Gaussian that the slopes ask for."""
    values, vectors = np.linalg.eigh(look.bend)
    precision = 1 + share * (np.clip(values, WIDEST**-2, NARROWEST**-2) - 1)
    # Where the log-density bends upwards, as far as if it bent downwards.
    along = share * (vectors.T @ look.pull) / np.maximum(np.abs(values), precision)
    along = along * min(1.0, LONGEST * np.sqrt(len(along)) / max(np.linalg.norm(along), 1e-300))
    factor = np.asarray(family.factor())
    turned = factor @ vectors
    covariance = (turned / precision) @ turned.T
    return full_rank_of(
        family.mean + jnp.asarray(turned @ along), jnp.asarray(np.linalg.cholesky(covariance))
    )

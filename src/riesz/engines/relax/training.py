r"""The training of `relax` on the relaxed objective, eq. (13) of Tait & Damoulas (2020):

$F_\epsilon = E_q[-\log p(y \mid \mu)] + \mathrm{KL}(q \mid p)
+ E_q[r^\top A^{-1} r] / (2\epsilon^2)$, by draws of the unknowns and of mini-patches.

Steps of two optimisers, of the surrogate and of q, and a tail over which q is averaged. Where
$\epsilon$ falls along a path (annealing), the penalty gains weight; in the tail it has its end
value.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.engines.checkpoint import AbstractCheckpoint
from riesz.engines.emulate.start import equation_inputs, log_likelihoods
from riesz.engines.emulate.variational import match_normals
from riesz.engines.relax.schedule import AbstractSchedule, Learned
from riesz.engines.relax.states import LooseTrajectory
from riesz.engines.training import train
from riesz.penalty.in_time import StepPenalty
from riesz.penalty.penalty import AbstractPenalty
from riesz.posterior.family import AbstractGaussian, Draws
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.surrogate.surrogate import NodalSurrogate, Surrogate

AnyPenalty = AbstractPenalty | StepPenalty
AnySurrogate = Surrogate | NodalSurrogate | LooseTrajectory


class Terms(eqx.Module):
    """The three parts of the objective, kept apart so that a fit can be read."""

    misfit: Float[Array, ""]
    kl: Float[Array, ""]
    penalty: Float[Array, ""]

    def total(self) -> Float[Array, ""]:
        return self.misfit + self.kl + self.penalty


def objective_terms(
    problem: InverseProblem,
    penalty: AnyPenalty,
    surrogate: AnySurrogate,
    family: AbstractGaussian,
    key: PRNGKeyArray,
    normals: Draws,
    epsilon: Float[Array, ""],
) -> Terms:
    """The objective on given normal draws and a key for the patches."""
    draws = family.transform(normals)
    zs = equation_inputs(problem, draws)
    if isinstance(surrogate, NodalSurrogate):
        assert isinstance(penalty, AbstractPenalty)  # one in time has no nodal states
        states = jax.vmap(lambda one: surrogate.state(problem.forward, problem.latents, one))(draws)
        fits = jax.vmap(problem.log_likelihood)(draws, states)
        square = penalty.nodal(key, states, zs)
    else:
        own = surrogate.trajectory() if isinstance(surrogate, LooseTrajectory) else surrogate
        fits = log_likelihoods(problem, own, draws)
        square = penalty(key, own, zs)
    return Terms(-jnp.mean(fits), family.kl_to_prior(), square / (2 * epsilon**2))


def trainable_part(surrogate: AnySurrogate) -> PyTree:
    """What training moves."""
    if isinstance(surrogate, LooseTrajectory):
        return surrogate.change
    return surrogate.weights if isinstance(surrogate, NodalSurrogate) else surrogate.network


def with_part(surrogate: AnySurrogate, part: PyTree) -> AnySurrogate:
    """The surrogate with its trained part replaced."""
    return eqx.tree_at(trainable_part, surrogate, part)


class RelaxPace(NamedTuple):
    """What a step reads of the settings: hashable, as part of a compiled step must be."""

    num_samples: int
    prior_steps: int
    steps: int
    learning_rate: float
    family_learning_rate: float


class Watch(NamedTuple):
    """How a training is watched, stopped and kept."""

    block_steps: int
    patience: int | None
    progress: bool
    checkpoint: AbstractCheckpoint


class RelaxState(eqx.Module):
    """What a step changes."""

    part: PyTree  # of the surrogate
    part_memory: PyTree
    family: AbstractGaussian
    family_memory: PyTree
    count: Int[Array, ""]
    tail_sum: AbstractGaussian  # of the families since the tail began


class RelaxData(eqx.Module):
    """What a step reads."""

    problem: InverseProblem
    penalty: AnyPenalty
    surrogate: AnySurrogate  # with a trained part that is not read
    prior: AbstractGaussian
    unit: Float[Array, ""]  # the epsilon that stands for one
    path: Float[Array, " step"]  # of epsilon_rel
    tail_start: Int[Array, ""]


class RelaxStep(eqx.Module):
    """One step of both optimisers; on the prior, only the surrogate moves."""

    pace: RelaxPace = eqx.field(static=True)
    on_prior: bool = eqx.field(static=True)

    def __call__(
        self, state: RelaxState, key: PRNGKeyArray, data: RelaxData
    ) -> tuple[RelaxState, dict[str, Float[Array, ""]]]:
        draw_key, patch_key = jr.split(key)
        problem = data.problem
        # Draws with the right moments: q's spread would be noisy without.
        normals = match_normals(
            draw_key, self.pace.num_samples, problem.num_coordinates, problem.forward.dtype
        )
        relative = data.path[state.count]

        def objective(moving):
            part, family = moving
            surrogate = with_part(data.surrogate, part)
            epsilon = relative * data.unit
            terms = objective_terms(
                problem, data.penalty, surrogate, family, patch_key, normals, epsilon
            )
            return terms.penalty if self.on_prior else terms.total(), terms

        family = data.prior if self.on_prior else state.family
        gradient = eqx.filter_value_and_grad(objective, has_aux=True)
        (_, terms), (part_slope, family_slope) = gradient((state.part, family))
        part, part_memory = apply_update(
            part_optimiser(self.pace), part_slope, state.part_memory, state.part
        )
        if self.on_prior:
            after = dataclasses.replace(state, part=part, part_memory=part_memory)
            return after, {"penalty": terms.penalty}
        family, family_memory = apply_update(
            family_optimiser(self.pace), family_slope, state.family_memory, family
        )
        in_tail = (state.count >= data.tail_start).astype(relative.dtype)
        tail_sum = jax.tree.map(lambda total, one: total + in_tail * one, state.tail_sum, family)
        after = RelaxState(part, part_memory, family, family_memory, state.count + 1, tail_sum)
        curves = {"misfit": terms.misfit, "kl": terms.kl, "penalty": terms.penalty}
        return after, {**curves, "epsilon_rel": relative}


def apply_update(optimiser, slope: PyTree, memory: PyTree, part: PyTree):
    changes, memory = optimiser.update(slope, memory)
    return eqx.apply_updates(part, changes), memory


def part_optimiser(pace: RelaxPace) -> optax.GradientTransformation:
    return optax.adam(cosine(pace.learning_rate, pace.prior_steps + pace.steps))


def family_optimiser(pace: RelaxPace) -> optax.GradientTransformation:
    # A short memory of squared slopes: the first ones, of the prior, are larger by far.
    return optax.adam(cosine(pace.family_learning_rate, pace.steps), b2=0.99)


def cosine(rate: float, steps: int) -> optax.Schedule:
    # Not to zero: steps of the tail that did not move would not average anything.
    return optax.cosine_decay_schedule(rate, max(steps, 1), alpha=0.02)


def init_state(surrogate: AnySurrogate, family: AbstractGaussian, pace: RelaxPace) -> RelaxState:
    part = trainable_part(surrogate)
    return RelaxState(
        part=part,
        part_memory=part_optimiser(pace).init(eqx.filter(part, eqx.is_inexact_array)),
        family=family,
        family_memory=family_optimiser(pace).init(eqx.filter(family, eqx.is_inexact_array)),
        count=jnp.zeros((), jnp.int32),
        tail_sum=jax.tree.map(jnp.zeros_like, family),
    )


def initial_data(
    problem: InverseProblem,
    penalty: AnyPenalty,
    surrogate: AnySurrogate,
    prior: AbstractGaussian,
    unit: Float[Array, ""],
    schedule: AbstractSchedule,
    num_steps: int,
    tail: float,
) -> RelaxData:
    """Of so many steps a share is the tail."""
    tail_steps = max(1, round(tail * num_steps))
    before = num_steps - tail_steps
    path = np.concatenate([schedule.path(before), np.full(tail_steps, schedule.last)])
    return RelaxData(
        problem,
        penalty,
        surrogate,
        prior,
        unit,
        jnp.asarray(path, problem.forward.dtype),
        jnp.asarray(before, jnp.int32),
    )


def train_to_tail(
    schedule: AbstractSchedule,
    state: RelaxState,
    key: PRNGKeyArray,
    data: RelaxData,
    refreshed: Callable[[Coordinates], float],
    pace: RelaxPace,
    watch: Watch,
) -> tuple[RelaxState, RelaxData, dict[str, list[np.ndarray]]]:
    """The training up to the tail; a learned epsilon is found again after each block."""
    before = int(data.tail_start)
    curves: dict[str, list[np.ndarray]] = {}
    length = watch.block_steps if isinstance(schedule, Learned) else max(before, 1)
    for number, start in enumerate(range(0, before, length)):
        block_key = jr.fold_in(key, 2 + number)
        count, stage = min(length, before - start), f"approach {number}"
        state, terms = train_stage(pace, state, block_key, data, stage, watch, num_steps=count)
        for name, values in terms.items():
            curves.setdefault(name, []).append(values)
        if isinstance(schedule, Learned):
            result = refreshed(state.family.mean)
            data = dataclasses.replace(data, path=jnp.full_like(data.path, result))
    state = dataclasses.replace(state, count=data.tail_start)  # also where training stopped early
    return state, data, curves


def train_stage(
    pace: RelaxPace,
    state: RelaxState,
    key: PRNGKeyArray,
    data: RelaxData,
    stage: str,
    watch: Watch,
    *,
    num_steps: int | None = None,
    on_prior: bool = False,
) -> tuple[RelaxState, dict[str, Any]]:
    in_tail = not on_prior and num_steps is None
    if num_steps is None:
        tail_steps = len(data.path) - int(data.tail_start)
        num_steps = pace.prior_steps if on_prior else tail_steps
    # While epsilon moves, the penalty tells nothing about progress.
    still = on_prior or bool(jnp.all(data.path == data.path[-1]))
    return train(
        RelaxStep(pace, on_prior),
        state,
        key,
        data,
        num_steps=num_steps,
        block_steps=watch.block_steps,
        label="surrogate on the prior" if on_prior else "relaxed posterior",
        progress=watch.progress,
        patience=watch.patience if still and not in_tail else None,
        watched="penalty",
        checkpoint=watch.checkpoint,
        stage=stage,
    )

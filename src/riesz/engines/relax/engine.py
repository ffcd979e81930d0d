r"""The engine `relax`: the paper's joint objective at a finite $\epsilon$.

The surrogate and q are trained together on misfit, prior and penalty, and every gradient reaches
both. The posterior is that of a model in which the equation holds up to an error of scale
$\epsilon$; it is stated in units of the noise (`epsilon_rel`), and fixed, annealed or learned.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.emulate.start import default_penalty, initial_surrogate
from riesz.engines.emulate.variational import matched_normals
from riesz.engines.relax.error_scale import gram_factor, most_likely_epsilon
from riesz.engines.relax.objective import AnySurrogate, relaxed_terms, trained_part, with_part
from riesz.engines.relax.polish import never_negative, polished, without_noise
from riesz.engines.relax.schedule import AbstractSchedule, Learned, as_schedule
from riesz.engines.relax.setup import (
    check_problem,
    gram_matrix,
    median_units,
    told,
)
from riesz.engines.relax.states import RelaxedStates
from riesz.engines.training import train
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import AbstractPenalty
from riesz.posterior.family import AbstractGaussian, full_rank
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.surrogate.nodal import nodal_surrogate


@dataclasses.dataclass(frozen=True)
class RelaxSettings:
    """Sizes and lengths of a training; the defaults suit a handful of unknowns."""

    width: int = 32
    features: int = 32
    num_patches: int = 4
    patch_nodes: int = 64
    coarse_patch_nodes: int = 25
    num_samples: int = 16  # of the unknowns in a step
    prior_steps: int = 500  # of a network, on the equation alone
    steps: int = 2000
    tail: float = 0.25  # the share of them over which q is averaged, at the end value of epsilon
    block_steps: int = 250
    patience: int | None = None  # blocks without progress before training stops
    learning_rate: float = 5e-3
    family_learning_rate: float = 2e-2
    polishing_rounds: int = 2  # at the end, without sampling noise; 0 for none
    polishing_draws: int = 64


class RelaxState(eqx.Module):
    """What a step changes."""

    part: PyTree  # of the surrogate
    part_memory: optax.OptState
    family: AbstractGaussian
    family_memory: optax.OptState
    count: Int[Array, ""]
    tail_sum: AbstractGaussian  # of the families since the tail began


class RelaxData(eqx.Module):
    """What a step reads."""

    problem: InverseProblem
    penalty: AbstractPenalty
    surrogate: AnySurrogate  # with a trained part that is not read
    prior: AbstractGaussian
    unit: Float[Array, ""]  # the epsilon that stands for one
    path: Float[Array, " step"]  # of epsilon_rel
    tail_start: Int[Array, ""]


class RelaxStep(eqx.Module):
    """One step of both optimisers; on the prior, only the surrogate moves."""

    settings: RelaxSettings = eqx.field(static=True)
    on_prior: bool = eqx.field(static=True)

    def __call__(
        self, state: RelaxState, key: PRNGKeyArray, data: RelaxData
    ) -> tuple[RelaxState, dict[str, Float[Array, ""]]]:
        draw_key, patch_key = jr.split(key)
        problem = data.problem
        # Draws with the right moments: q's spread would be noisy without.
        normals = matched_normals(
            draw_key, self.settings.num_samples, problem.num_coordinates, problem.forward.dtype
        )
        relative = data.path[state.count]

        def objective(moving):
            part, family = moving
            surrogate = with_part(data.surrogate, part)
            epsilon = relative * data.unit
            terms = relaxed_terms(
                problem, data.penalty, surrogate, family, patch_key, normals, epsilon
            )
            return terms.penalty if self.on_prior else terms.total(), terms

        family = data.prior if self.on_prior else state.family
        gradient = eqx.filter_value_and_grad(objective, has_aux=True)
        (_, terms), (part_slope, family_slope) = gradient((state.part, family))
        part, part_memory = moved(
            part_optimiser(self.settings), part_slope, state.part_memory, state.part
        )
        if self.on_prior:
            after = dataclasses.replace(state, part=part, part_memory=part_memory)
            return after, {"penalty": terms.penalty}
        family, family_memory = moved(
            family_optimiser(self.settings), family_slope, state.family_memory, family
        )
        in_tail = (state.count >= data.tail_start).astype(relative.dtype)
        tail_sum = jax.tree.map(lambda total, one: total + in_tail * one, state.tail_sum, family)
        after = RelaxState(part, part_memory, family, family_memory, state.count + 1, tail_sum)
        curves = {"misfit": terms.misfit, "kl": terms.kl, "penalty": terms.penalty}
        return after, {**curves, "epsilon_rel": relative}


def moved(optimiser, slope: PyTree, memory: optax.OptState, part: PyTree):
    changes, memory = optimiser.update(slope, memory)
    return eqx.apply_updates(part, changes), memory


def part_optimiser(settings: RelaxSettings) -> optax.GradientTransformation:
    return optax.adam(cosine(settings.learning_rate, settings.prior_steps + settings.steps))


def family_optimiser(settings: RelaxSettings) -> optax.GradientTransformation:
    # A short memory of squared slopes: the first ones, of the prior, are larger by far.
    return optax.adam(cosine(settings.family_learning_rate, settings.steps), b2=0.99)


def cosine(rate: float, steps: int) -> optax.Schedule:
    # Not to zero: steps of the tail that did not move would not average anything.
    return optax.cosine_decay_schedule(rate, max(steps, 1), alpha=0.02)


def relax(
    problem: InverseProblem,
    *,
    epsilon_rel: float | AbstractSchedule = 0.1,
    seed: int = 0,
    settings: RelaxSettings | None = None,
    surrogate: Literal["network", "nodal"] = "network",
    gram: Gram | None = None,
    penalty: AbstractPenalty | None = None,
    family: AbstractGaussian | None = None,
    quiet: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """Infer the unknowns of an equation that may be wrong by `epsilon_rel`, in units of the noise.

    Errors of the equation move the state at the sensors by `epsilon_rel` noise sds, on average and
    before the data are seen: a number, or a schedule (`Annealed`, `Learned`). Needs a problem on a
    hierarchy of meshes, or a penalty of one's own, `exact_penalty(problem.forward)` for instance;
    `surrogate="nodal"` is a reference for small meshes and unknowns that are known closely.
    """
    settings = RelaxSettings() if settings is None else settings
    schedule = as_schedule(epsilon_rel)
    check_problem(problem)
    network_key, prior_key, key, polish_key = jr.split(jr.key(seed), 4)
    if penalty is None:
        penalty = default_penalty(problem, settings, gram, engine="relax")
    matrix = gram_matrix(penalty)
    factor = gram_factor(matrix)
    exact_unit, unit = median_units(problem, penalty, matrix, factor)
    if surrogate == "nodal":
        scale = schedule.last * exact_unit
        start = nodal_surrogate(problem.forward, problem.latents, matrix, scale)
    else:
        start = initial_surrogate(
            problem, network_key, width=settings.width, features=settings.features
        )
    prior = full_rank(problem.num_coordinates, problem.forward.dtype)
    state = initial_state(start, prior if family is None else family, settings)
    data = initial_data(problem, penalty, start, prior, unit, schedule, settings)
    if surrogate == "network":
        state, _ = run(
            RelaxStep(settings, True), state, prior_key, data, "prior", quiet, checkpoint
        )
    refreshed = partial(most_likely_epsilon, problem, factor, float(exact_unit))
    state, data, history = approached(
        schedule, state, key, data, refreshed, settings, quiet, checkpoint
    )
    last_step, tail_key = RelaxStep(settings, False), jr.fold_in(key, 1)
    state, tail = run(last_step, state, tail_key, data, "tail", quiet, checkpoint)
    curves = {name: np.concatenate([*history.get(name, ()), tail[name]]) for name in tail}
    last = float(data.path[-1])
    q = tail_average(state, len(tail["kl"]))
    q = polished_family(data, with_part(start, state.part), q, settings, polish_key)
    return Posterior(
        problem=problem,
        distribution=q,
        states=RelaxedStates(last * exact_unit, factor),
        history={name: jnp.asarray(curve) for name, curve in curves.items()},
        engine="relax",
        seed=seed,
        notes=told(problem, last),
    )


def initial_state(
    surrogate: AnySurrogate, family: AbstractGaussian, settings: RelaxSettings
) -> RelaxState:
    part = trained_part(surrogate)
    return RelaxState(
        part=part,
        part_memory=part_optimiser(settings).init(eqx.filter(part, eqx.is_inexact_array)),
        family=family,
        family_memory=family_optimiser(settings).init(eqx.filter(family, eqx.is_inexact_array)),
        count=jnp.zeros((), jnp.int32),
        tail_sum=jax.tree.map(jnp.zeros_like, family),
    )


def initial_data(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    prior: AbstractGaussian,
    unit: Float[Array, ""],
    schedule: AbstractSchedule,
    settings: RelaxSettings,
) -> RelaxData:
    tail_steps = max(1, round(settings.tail * settings.steps))
    before = settings.steps - tail_steps
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


def approached(
    schedule: AbstractSchedule,
    state: RelaxState,
    key: PRNGKeyArray,
    data: RelaxData,
    refreshed: Callable[[Coordinates], float],
    settings: RelaxSettings,
    quiet: bool,
    checkpoint: AbstractCheckpoint,
) -> tuple[RelaxState, RelaxData, dict[str, list[np.ndarray]]]:
    """The training up to the tail; a learned epsilon is found again after each block."""
    before, step = int(data.tail_start), RelaxStep(settings, False)
    curves: dict[str, list[np.ndarray]] = {}
    length = settings.block_steps if isinstance(schedule, Learned) else max(before, 1)
    for number, start in enumerate(range(0, before, length)):
        block_key = jr.fold_in(key, 2 + number)
        count, stage = min(length, before - start), f"approach {number}"
        state, terms = run(step, state, block_key, data, stage, quiet, checkpoint, num_steps=count)
        for name, values in terms.items():
            curves.setdefault(name, []).append(values)
        if isinstance(schedule, Learned):
            found = refreshed(state.family.mean)
            data = dataclasses.replace(data, path=jnp.full_like(data.path, found))
    state = dataclasses.replace(state, count=data.tail_start)  # also where training stopped early
    return state, data, curves


def run(
    step: RelaxStep,
    state: RelaxState,
    key: PRNGKeyArray,
    data: RelaxData,
    stage: str,
    quiet: bool,
    checkpoint: AbstractCheckpoint,
    *,
    num_steps: int | None = None,
) -> tuple[RelaxState, dict[str, Any]]:
    settings = step.settings
    in_tail = not step.on_prior and num_steps is None
    if num_steps is None:
        tail_steps = len(data.path) - int(data.tail_start)
        num_steps = settings.prior_steps if step.on_prior else tail_steps
    # While epsilon moves, the penalty tells nothing about progress.
    still = step.on_prior or bool(jnp.all(data.path == data.path[-1]))
    return train(
        step,
        state,
        key,
        data,
        num_steps=num_steps,
        block_steps=settings.block_steps,
        label="surrogate on the prior" if step.on_prior else "relaxed posterior",
        quiet=quiet,
        patience=settings.patience if still and not in_tail else None,
        watched="penalty",
        checkpoint=checkpoint,
        stage=stage,
    )


def tail_average(state: RelaxState, num_steps: int) -> AbstractGaussian:
    """The mean of q's parameters since epsilon has its end value and the tail began."""
    return jax.tree.map(lambda total: total / num_steps, state.tail_sum)


def polished_family(
    data: RelaxData,
    surrogate: AnySurrogate,
    family: AbstractGaussian,
    settings: RelaxSettings,
    key: PRNGKeyArray,
) -> AbstractGaussian:
    """q without sampling noise, where the norm allows it."""
    if not never_negative(data.penalty):
        return family
    patch_key, draw_key = jr.split(key)
    problem, epsilon = data.problem, data.path[-1] * data.unit
    normals = matched_normals(
        draw_key, settings.polishing_draws, problem.num_coordinates, problem.forward.dtype
    )
    penalty = without_noise(data.penalty, patch_key)
    rounds = settings.polishing_rounds
    _, q = polished(problem, penalty, surrogate, family, normals, epsilon, rounds=rounds)
    return q

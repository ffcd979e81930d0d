r"""The engine `relax`: the paper's joint objective at a finite $\epsilon$.

The surrogate and q are trained together on misfit, prior and penalty, and every gradient reaches
both. The posterior is that of a model in which the equation holds up to an error of scale
$\epsilon$; it is stated in units of the noise (`epsilon_rel`), and fixed, annealed or learned.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from pydantic import Field

from riesz.engines.base import (
    AbstractEngine,
    Count,
    CountOrNone,
    CountOrZero,
    InnerProduct,
    Share,
    ShareOrZero,
    as_gram,
)
from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.emulate.start import (
    check_nested,
    default_penalty,
    initial_surrogate,
    training_cost,
)
from riesz.engines.emulate.variational import matched_normals
from riesz.engines.relax.error_scale import gram_factor, most_likely_epsilon
from riesz.engines.relax.objective import AnySurrogate, relaxed_terms, trained_part, with_part
from riesz.engines.relax.polish import never_negative, polished, without_noise
from riesz.engines.relax.schedule import AbstractSchedule, Epsilon, Learned, as_schedule
from riesz.engines.relax.setup import (
    check_problem,
    gram_matrix,
    median_units,
    told,
)
from riesz.engines.relax.states import RelaxedStates
from riesz.engines.training import train
from riesz.penalty.penalty import AbstractPenalty, exact_penalty
from riesz.posterior.family import AbstractGaussian, full_rank
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import prescribed_values
from riesz.problem.problem import Coordinates, InverseProblem
from riesz.surrogate.nodal import nodal_surrogate


class Pace(NamedTuple):
    """What a step reads of the settings: hashable, as part of a compiled step must be."""

    num_samples: int
    prior_steps: int
    steps: int
    learning_rate: float
    family_learning_rate: float


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

    pace: Pace = eqx.field(static=True)
    on_prior: bool = eqx.field(static=True)

    def __call__(
        self, state: RelaxState, key: PRNGKeyArray, data: RelaxData
    ) -> tuple[RelaxState, dict[str, Float[Array, ""]]]:
        draw_key, patch_key = jr.split(key)
        problem = data.problem
        # Draws with the right moments: q's spread would be noisy without.
        normals = matched_normals(
            draw_key, self.pace.num_samples, problem.num_coordinates, problem.forward.dtype
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
            part_optimiser(self.pace), part_slope, state.part_memory, state.part
        )
        if self.on_prior:
            after = dataclasses.replace(state, part=part, part_memory=part_memory)
            return after, {"penalty": terms.penalty}
        family, family_memory = moved(
            family_optimiser(self.pace), family_slope, state.family_memory, family
        )
        in_tail = (state.count >= data.tail_start).astype(relative.dtype)
        tail_sum = jax.tree.map(lambda total, one: total + in_tail * one, state.tail_sum, family)
        after = RelaxState(part, part_memory, family, family_memory, state.count + 1, tail_sum)
        curves = {"misfit": terms.misfit, "kl": terms.kl, "penalty": terms.penalty}
        return after, {**curves, "epsilon_rel": relative}


def moved(optimiser, slope: PyTree, memory: optax.OptState, part: PyTree):
    changes, memory = optimiser.update(slope, memory)
    return eqx.apply_updates(part, changes), memory


def part_optimiser(pace: Pace) -> optax.GradientTransformation:
    return optax.adam(cosine(pace.learning_rate, pace.prior_steps + pace.steps))


def family_optimiser(pace: Pace) -> optax.GradientTransformation:
    # A short memory of squared slopes: the first ones, of the prior, are larger by far.
    return optax.adam(cosine(pace.family_learning_rate, pace.steps), b2=0.99)


def cosine(rate: float, steps: int) -> optax.Schedule:
    # Not to zero: steps of the tail that did not move would not average anything.
    return optax.cosine_decay_schedule(rate, max(steps, 1), alpha=0.02)


class Relax(AbstractEngine):
    """The posterior where the equation may be wrong by `epsilon_rel`, in units of the noise.

    Errors of the equation move the state at the sensors by `epsilon_rel` noise sds, on average and
    before the data are seen: a number, or a schedule (`Annealed`, `Learned`). The defaults suit a
    handful of unknowns. `norm` is that of residuals, estimated on mini-patches of a hierarchy of
    meshes or exact, with the inner product `gram`; diffusivity 0 and reaction 1 make errors of the
    source white. `surrogate="nodal"` is a reference for small meshes and unknowns that are known
    closely.
    """

    name: ClassVar[str] = "relax"
    is_exact: ClassVar[bool] = False  # training needs no solve, its units and states do
    compiling: ClassVar[float] = 120.0

    epsilon_rel: Epsilon = 0.1
    surrogate: Annotated[Literal["network", "nodal"], Field(description="network or nodal")] = (
        "network"
    )
    norm: Annotated[Literal["patches", "exact"], Field(description="patches or exact")] = "patches"
    gram: InnerProduct = None
    width: Count = 32
    features: Count = 32
    num_patches: Count = 4
    patch_nodes: Count = 64
    coarse_patch_nodes: Count = 25
    num_samples: Count = 16  # of the unknowns in a step
    prior_steps: CountOrZero = 500  # of a network, on the equation alone
    steps: Count = 2000
    tail: ShareOrZero = 0.25  # of them over which q is averaged, at the end value of epsilon
    block_steps: Count = 250
    patience: CountOrNone = None  # blocks without progress before training stops
    learning_rate: Share = 5e-3
    family_learning_rate: Share = 2e-2
    polishing_rounds: CountOrZero = 2  # at the end, without sampling noise; 0 for none
    polishing_draws: Count = 64

    def inert(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.surrogate == "nodal":
            unread = ("width", "features", "prior_steps")
            found |= dict.fromkeys(unread, "it goes with surrogate = 'network'")
        if self.norm == "exact":
            unread = ("num_patches", "patch_nodes", "coarse_patch_nodes")
            found |= dict.fromkeys(unread, "it goes with norm = 'patches'")
        if self.polishing_rounds == 0:
            found["polishing_draws"] = "polishing_rounds is 0"
        return found

    def pace(self) -> Pace:
        return Pace(
            self.num_samples,
            self.prior_steps,
            self.steps,
            self.learning_rate,
            self.family_learning_rate,
        )

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        check_problem(problem)
        if self.norm == "patches":
            check_nested(problem, self.name)
        else:
            prescribed_values(problem)

    def cost(self, solve: float, problem: InverseProblem) -> float:
        return training_cost(solve, problem)

    def run(
        self,
        problem: InverseProblem,
        *,
        seed: int = 0,
        progress: bool = False,
        checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
    ) -> Posterior:
        if self.norm == "exact":
            penalty = exact_penalty(problem.forward, as_gram(self.gram))
        else:
            penalty = default_penalty(problem, self, self.gram, engine=self.name)
        return relaxed(problem, self, penalty, seed=seed, progress=progress, checkpoint=checkpoint)


def relaxed(
    problem: InverseProblem,
    engine: Relax,
    penalty: AbstractPenalty,
    *,
    seed: int,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """The posterior with a penalty of any kind."""
    schedule = as_schedule(engine.epsilon_rel)
    check_problem(problem)
    network_key, prior_key, key, polish_key = jr.split(jr.key(seed), 4)
    matrix = gram_matrix(penalty)
    factor = gram_factor(matrix)
    exact_unit, unit = median_units(problem, penalty, matrix, factor)
    if engine.surrogate == "nodal":
        scale = schedule.last * exact_unit
        start = nodal_surrogate(problem.forward, problem.latents, matrix, scale)
    else:
        start = initial_surrogate(
            problem, network_key, width=engine.width, features=engine.features
        )
    prior = full_rank(problem.num_coordinates, problem.forward.dtype)
    state = initial_state(start, prior, engine.pace())
    data = initial_data(problem, penalty, start, prior, unit, schedule, engine)
    shown = Shown(progress, checkpoint)
    if engine.surrogate == "network":
        state, _ = run(engine, state, prior_key, data, "prior", shown, on_prior=True)
    refreshed = partial(most_likely_epsilon, problem, factor, float(exact_unit))
    state, data, history = approached(schedule, state, key, data, refreshed, engine, shown)
    state, tail = run(engine, state, jr.fold_in(key, 1), data, "tail", shown)
    curves = {name: np.concatenate([*history.get(name, ()), tail[name]]) for name in tail}
    last = float(data.path[-1])
    q = tail_average(state, len(tail["kl"]))
    q = polished_family(data, with_part(start, state.part), q, engine, polish_key)
    return Posterior(
        problem=problem,
        distribution=q,
        states=RelaxedStates(last * exact_unit, factor),
        history={name: jnp.asarray(curve) for name, curve in curves.items()},
        engine=engine.name,
        seed=seed,
        notes=told(problem, last),
    )


def initial_state(surrogate: AnySurrogate, family: AbstractGaussian, pace: Pace) -> RelaxState:
    part = trained_part(surrogate)
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
    penalty: AbstractPenalty,
    surrogate: AnySurrogate,
    prior: AbstractGaussian,
    unit: Float[Array, ""],
    schedule: AbstractSchedule,
    engine: Relax,
) -> RelaxData:
    tail_steps = max(1, round(engine.tail * engine.steps))
    before = engine.steps - tail_steps
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


class Shown(NamedTuple):
    """How a training is watched and kept."""

    progress: bool
    checkpoint: AbstractCheckpoint


def approached(
    schedule: AbstractSchedule,
    state: RelaxState,
    key: PRNGKeyArray,
    data: RelaxData,
    refreshed: Callable[[Coordinates], float],
    engine: Relax,
    shown: Shown,
) -> tuple[RelaxState, RelaxData, dict[str, list[np.ndarray]]]:
    """The training up to the tail; a learned epsilon is found again after each block."""
    before = int(data.tail_start)
    curves: dict[str, list[np.ndarray]] = {}
    length = engine.block_steps if isinstance(schedule, Learned) else max(before, 1)
    for number, start in enumerate(range(0, before, length)):
        block_key = jr.fold_in(key, 2 + number)
        count, stage = min(length, before - start), f"approach {number}"
        state, terms = run(engine, state, block_key, data, stage, shown, num_steps=count)
        for name, values in terms.items():
            curves.setdefault(name, []).append(values)
        if isinstance(schedule, Learned):
            found = refreshed(state.family.mean)
            data = dataclasses.replace(data, path=jnp.full_like(data.path, found))
    state = dataclasses.replace(state, count=data.tail_start)  # also where training stopped early
    return state, data, curves


def run(
    engine: Relax,
    state: RelaxState,
    key: PRNGKeyArray,
    data: RelaxData,
    stage: str,
    shown: Shown,
    *,
    num_steps: int | None = None,
    on_prior: bool = False,
) -> tuple[RelaxState, dict[str, Any]]:
    in_tail = not on_prior and num_steps is None
    if num_steps is None:
        tail_steps = len(data.path) - int(data.tail_start)
        num_steps = engine.prior_steps if on_prior else tail_steps
    # While epsilon moves, the penalty tells nothing about progress.
    still = on_prior or bool(jnp.all(data.path == data.path[-1]))
    return train(
        RelaxStep(engine.pace(), on_prior),
        state,
        key,
        data,
        num_steps=num_steps,
        block_steps=engine.block_steps,
        label="surrogate on the prior" if on_prior else "relaxed posterior",
        progress=shown.progress,
        patience=engine.patience if still and not in_tail else None,
        watched="penalty",
        checkpoint=shown.checkpoint,
        stage=stage,
    )


def tail_average(state: RelaxState, num_steps: int) -> AbstractGaussian:
    """The mean of q's parameters since epsilon has its end value and the tail began."""
    return jax.tree.map(lambda total: total / num_steps, state.tail_sum)


def polished_family(
    data: RelaxData,
    surrogate: AnySurrogate,
    family: AbstractGaussian,
    engine: Relax,
    key: PRNGKeyArray,
) -> AbstractGaussian:
    """q without sampling noise, where the norm allows it."""
    if not never_negative(data.penalty):
        return family
    patch_key, draw_key = jr.split(key)
    problem, epsilon = data.problem, data.path[-1] * data.unit
    normals = matched_normals(
        draw_key, engine.polishing_draws, problem.num_coordinates, problem.forward.dtype
    )
    penalty = without_noise(data.penalty, patch_key)
    rounds = engine.polishing_rounds
    _, q = polished(problem, penalty, surrogate, family, normals, epsilon, rounds=rounds)
    return q

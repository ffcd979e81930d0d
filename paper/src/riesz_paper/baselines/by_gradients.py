"""A surrogate and q by gradient descent: for networks and norms whose readout cannot be solved for.

The surrogate is trained on the weak-form penalty alone, for unknowns drawn from the prior first and
from (a little around) q then; q is trained on likelihood and prior, through a surrogate whose
gradients are stopped. Were the penalty's gradient to reach q, it would shrink q to where the
surrogate is best.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.density.surrogate.rounds import WIDENED
from riesz.density.surrogate.start import (
    SurrogateDensity,
    equation_inputs,
    initial_surrogate,
    reference_penalty,
)
from riesz.density.surrogate.surrogate import num_features
from riesz.density.surrogate.variational import match_normals, maximise_elbo
from riesz.method.training import train
from riesz.penalty.penalty import AbstractPenalty
from riesz.penalty.rows import full_precision
from riesz.posterior.family import Draws, FullRank, antithetic, full_rank
from riesz.posterior.posterior import Posterior, SurrogateStates
from riesz.problem.problem import InverseProblem
from riesz.surrogate.networks import TrunkBranch
from riesz.surrogate.surrogate import SteadySurrogate


@dataclasses.dataclass(frozen=True)
class GradientSettings:
    """Sizes and lengths of a training."""

    width: int = 32
    features: int = 64
    num_bends: int = 16
    num_patches: int = 4
    num_samples: int = 16  # of the unknowns in a batch
    refining_draws: int = 512
    prior_steps: int = 400
    steps: int = 800
    block_steps: int = 200
    patience: int | None = None  # blocks without progress before training stops
    learning_rate: float = 5e-3
    family_learning_rate: float = 2e-2


def emulate_by_gradients(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    *,
    seed: int = 0,
    settings: GradientSettings | None = None,
    surrogate: SteadySurrogate | None = None,
    progress: bool = False,
) -> Posterior:
    """Infer the unknowns with a surrogate that is trained on any penalty."""
    settings = GradientSettings() if settings is None else settings
    network_key, key, refine_key = jr.split(jr.key(seed), 3)
    if surrogate is None:
        features = num_features(problem, settings.num_bends, settings.features)
        surrogate = initial_surrogate(problem, network_key, width=settings.width, features=features)
    size = problem.num_coordinates
    family = full_rank(size, problem.forward.dtype)
    with full_precision():
        reference = reference_penalty(problem, penalty, surrogate)
        surrogate, family, curves = trained(
            *(problem, penalty, surrogate, family, settings, reference, key), progress=progress
        )
        normals = match_normals(refine_key, settings.refining_draws, size, family.dtype)
        family = maximise_elbo(SurrogateDensity(problem, surrogate), family, normals)
    history = {name: jnp.asarray(curve) for name, curve in curves.items()}
    return Posterior(problem, family, SurrogateStates(surrogate), history, "emulate", seed)


class EmulateState(eqx.Module):
    """What a step changes."""

    network: TrunkBranch
    network_memory: optax.OptState
    family: FullRank
    family_memory: optax.OptState


class EmulateData(eqx.Module):
    """What a step reads."""

    problem: InverseProblem
    penalty: AbstractPenalty
    surrogate: SteadySurrogate  # with a network that is not read
    reference: Float[Array, ""]  # the penalty before training, which makes the loss one


class EmulateStep(eqx.Module):
    """One step of both optimisers; on the prior, only the surrogate moves."""

    settings: GradientSettings = eqx.field(static=True)
    on_prior: bool = eqx.field(static=True)

    def __call__(
        self, state: EmulateState, key: PRNGKeyArray, data: EmulateData
    ) -> tuple[EmulateState, dict[str, Float[Array, ""]]]:
        draw_key, patch_key, family_key = jr.split(key, 3)
        normals = self.normals(draw_key, data)
        draws = normals if self.on_prior else state.family.transform(WIDENED * normals)
        network, memory, physics = self.network_step(state, patch_key, draws, data)
        terms = {"physics": physics}
        if self.on_prior:
            moved = dataclasses.replace(state, network=network, network_memory=memory)
            return moved, terms
        family, family_memory, bound = self.family_step(state, self.normals(family_key, data), data)
        return EmulateState(network, memory, family, family_memory), {**terms, "bound": bound}

    def normals(self, key: PRNGKeyArray, data: EmulateData) -> Draws:
        problem = data.problem
        count = self.settings.num_samples
        return antithetic(key, count, problem.num_coordinates, problem.forward.dtype)

    def network_step(
        self, state: EmulateState, key: PRNGKeyArray, draws: Draws, data: EmulateData
    ) -> tuple[TrunkBranch, optax.OptState, Float[Array, ""]]:
        @eqx.filter_value_and_grad
        def loss(network):
            surrogate = dataclasses.replace(data.surrogate, network=network)
            zs = equation_inputs(data.problem, jax.lax.stop_gradient(draws))
            return data.penalty(key, surrogate, zs) / data.reference

        value, slope = loss(state.network)
        changes, memory = network_optimiser(self.settings).update(slope, state.network_memory)
        return eqx.apply_updates(state.network, changes), memory, value

    def family_step(
        self, state: EmulateState, normals: Draws, data: EmulateData
    ) -> tuple[FullRank, optax.OptState, Float[Array, ""]]:
        surrogate = dataclasses.replace(data.surrogate, network=state.network)

        @eqx.filter_value_and_grad
        def loss(family):
            density = SurrogateDensity(data.problem, surrogate)
            fits = jax.vmap(density.log_likelihood)(family.transform(normals))
            return family.kl_to_prior() - jnp.mean(fits)

        value, slope = loss(state.family)
        changes, memory = family_optimiser(self.settings).update(slope, state.family_memory)
        return eqx.apply_updates(state.family, changes), memory, -value


def network_optimiser(settings: GradientSettings) -> optax.GradientTransformation:
    steps = settings.prior_steps + settings.steps
    return optax.adam(optax.cosine_decay_schedule(settings.learning_rate, max(steps, 1)))


def family_optimiser(settings: GradientSettings) -> optax.GradientTransformation:
    schedule = optax.cosine_decay_schedule(settings.family_learning_rate, max(settings.steps, 1))
    return optax.adam(schedule)


def trained(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: SteadySurrogate,
    family: FullRank,
    settings: GradientSettings,
    reference: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    progress: bool,
) -> tuple[SteadySurrogate, FullRank, dict[str, Float[np.ndarray, " step"]]]:
    """Surrogate and q after both stages, and the curves of the terms."""
    prior_key, key = jr.split(key)
    state = EmulateState(
        surrogate.network,
        network_optimiser(settings).init(eqx.filter(surrogate.network, eqx.is_inexact_array)),
        family,
        family_optimiser(settings).init(eqx.filter(family, eqx.is_inexact_array)),
    )
    data = EmulateData(problem, penalty, surrogate, reference)
    first, second = EmulateStep(settings, True), EmulateStep(settings, False)
    before, on_prior = run(first, state, prior_key, data, progress=progress)
    after, on_family = run(second, before, key, data, progress=progress)
    physics = np.concatenate([on_prior.get("physics", []), on_family.get("physics", [])])
    history = {"physics": physics, "bound": on_family["bound"]}
    return dataclasses.replace(surrogate, network=after.network), after.family, history


def run(
    step: EmulateStep,
    state: EmulateState,
    key: PRNGKeyArray,
    data: EmulateData,
    *,
    progress: bool,
) -> tuple[EmulateState, dict[str, Any]]:
    settings = step.settings
    return train(
        step,
        state,
        key,
        data,
        num_steps=settings.prior_steps if step.on_prior else settings.steps,
        block_steps=settings.block_steps,
        label="surrogate on the prior" if step.on_prior else "surrogate and posterior",
        progress=progress,
        patience=settings.patience,
        watched="physics",
        stage="prior" if step.on_prior else "posterior",
    )

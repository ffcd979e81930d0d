r"""The engine `emulate`: the limit $\epsilon \to 0$ of the relaxed objective; no PDE is solved.

The surrogate is trained on the weak-form penalty alone, for unknowns drawn from the prior first and
from (a little around) q then; q is trained on likelihood and prior, through a surrogate whose
gradients are stopped. Were the penalty's gradient to reach q, it would shrink q to where the
surrogate is best. At the end the readout takes Gauss-Newton steps, and q is refined without noise.
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

from riesz.errors import RieszError
from riesz.infer.family import AbstractGaussian, Draws, antithetic, full_rank
from riesz.infer.posterior import Posterior
from riesz.infer.problem import InverseProblem
from riesz.infer.readout import applies_to, stepped_readout
from riesz.infer.refine import matched_normals, refined
from riesz.infer.setup import equation_inputs, initial_surrogate, log_likelihoods
from riesz.infer.surrogate_states import SurrogateStates
from riesz.infer.training import train
from riesz.penalty.penalty import AbstractPenalty, WeakFormPenalty, weak_form_penalty
from riesz.penalty.precision import full_precision
from riesz.penalty.schwarz_patches import Gram
from riesz.surrogate.networks import AbstractNetwork
from riesz.surrogate.surrogate import Surrogate

WIDENED = 1.3
"""The surrogate is trained on draws this much wider than q, so that q's tails can be trusted."""

WHOLE_MESH_NODES = 2000
"""Meshes up to here are evaluated whole in each step: cheaper than quadrature on coarse levels, and
consistent with exact solves where their discretisation error matters most."""


@dataclasses.dataclass(frozen=True)
class EmulateSettings:
    """Sizes and lengths of a training; the defaults suit a handful of unknowns."""

    width: int = 32
    features: int = 32
    num_patches: int = 4
    patch_nodes: int = 64
    coarse_patch_nodes: int = 25
    num_samples: int = 16  # of the unknowns in a step
    prior_steps: int = 400
    steps: int = 800
    block_steps: int = 200
    patience: int | None = None  # blocks without progress before training stops
    learning_rate: float = 5e-3
    family_learning_rate: float = 2e-2
    readout_batches: int = 100  # of a Gauss-Newton step
    readout_steps: int = 1  # 0 for none
    refining_draws: int = 512


class EmulateState(eqx.Module):
    """What a step changes."""

    network: AbstractNetwork
    network_memory: optax.OptState
    family: AbstractGaussian
    family_memory: optax.OptState


class EmulateData(eqx.Module):
    """What a step reads."""

    problem: InverseProblem
    penalty: AbstractPenalty
    surrogate: Surrogate  # with a network that is not read
    reference: Float[Array, ""]  # the penalty before training, which makes the loss one


class EmulateStep(eqx.Module):
    """One step of both optimisers; on the prior, only the surrogate moves."""

    settings: EmulateSettings = eqx.field(static=True)
    on_prior: bool = eqx.field(static=True)

    def __call__(
        self, state: EmulateState, key: PRNGKeyArray, data: EmulateData
    ) -> tuple[EmulateState, dict[str, Float[Array, ""]]]:
        draw_key, patch_key, family_key = jr.split(key, 3)
        normals = self.normals(draw_key, data)
        draws = normals if self.on_prior else widened(state.family, normals)
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
    ) -> tuple[AbstractNetwork, optax.OptState, Float[Array, ""]]:
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
    ) -> tuple[AbstractGaussian, optax.OptState, Float[Array, ""]]:
        surrogate = dataclasses.replace(data.surrogate, network=state.network)

        @eqx.filter_value_and_grad
        def loss(family):
            fits = log_likelihoods(data.problem, surrogate, family.transformed(normals))
            return family.kl_to_prior() - jnp.mean(fits)

        value, slope = loss(state.family)
        changes, memory = family_optimiser(self.settings).update(slope, state.family_memory)
        return eqx.apply_updates(state.family, changes), memory, -value


def widened(family: AbstractGaussian, normals: Draws) -> Draws:
    return family.transformed(WIDENED * normals)


def network_optimiser(settings: EmulateSettings) -> optax.GradientTransformation:
    steps = settings.prior_steps + settings.steps
    return optax.adam(optax.cosine_decay_schedule(settings.learning_rate, max(steps, 1)))


def family_optimiser(settings: EmulateSettings) -> optax.GradientTransformation:
    schedule = optax.cosine_decay_schedule(settings.family_learning_rate, max(settings.steps, 1))
    return optax.adam(schedule)


def emulate(
    problem: InverseProblem,
    *,
    seed: int = 0,
    settings: EmulateSettings | None = None,
    gram: Gram | None = None,
    penalty: AbstractPenalty | None = None,
    surrogate: Surrogate | None = None,
    family: AbstractGaussian | None = None,
    quiet: bool = False,
) -> Posterior:
    """Infer the unknowns with a trained surrogate.

    Needs a problem on a hierarchy of meshes, or a penalty of one's own; `gram` is the inner
    product behind the norm, for rough coefficients; `surrogate` and `family` are where training
    starts.
    """
    settings = EmulateSettings() if settings is None else settings
    network_key, prior_key, key, readout_key, refine_key = jr.split(jr.key(seed), 5)
    dtype = problem.forward.dtype
    penalty = default_penalty(problem, settings, gram) if penalty is None else penalty
    if surrogate is None:
        surrogate = initial_surrogate(
            problem, network_key, width=settings.width, features=settings.features
        )
    family = full_rank(problem.num_coordinates, dtype) if family is None else family
    trainable = eqx.filter(surrogate.network, eqx.is_inexact_array)
    state = EmulateState(
        surrogate.network,
        network_optimiser(settings).init(trainable),
        family,
        family_optimiser(settings).init(eqx.filter(family, eqx.is_inexact_array)),
    )
    with full_precision():
        reference = reference_penalty(problem, penalty, surrogate)
        data = EmulateData(problem, penalty, surrogate, reference)
        before, on_prior = run(EmulateStep(settings, True), state, prior_key, data, quiet=quiet)
        after, on_family = run(EmulateStep(settings, False), before, key, data, quiet=quiet)
        surrogate = dataclasses.replace(surrogate, network=after.network)
        surrogate, family = polished_in_double(
            problem, penalty, surrogate, after.family, settings, readout_key, refine_key
        )
    physics = np.concatenate([on_prior.get("physics", []), on_family.get("physics", [])])
    history = {"physics": jnp.asarray(physics), "bound": jnp.asarray(on_family["bound"])}
    return Posterior(problem, family, SurrogateStates(surrogate), history, "emulate", seed)


def run(
    step: EmulateStep, state: EmulateState, key: PRNGKeyArray, data: EmulateData, *, quiet: bool
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
        quiet=quiet,
        patience=settings.patience,
        watched="physics",
    )


def default_penalty(
    problem: InverseProblem, settings: EmulateSettings, gram: Gram | None
) -> WeakFormPenalty:
    if problem.hierarchy is None:
        raise RieszError(
            "emulate trains on mini-patches of a hierarchy of meshes: build the problem on "
            "rz.hierarchy(coarse_mesh, levels), or pass penalty=rz.exact_penalty(problem.forward)."
        )
    return weak_form_penalty(
        problem.forward,
        problem.hierarchy,
        num_patches=settings.num_patches,
        patch_nodes=min(settings.patch_nodes, problem.forward.num_free),
        coarse_patch_nodes=settings.coarse_patch_nodes,
        gram=gram,
        whole_mesh=problem.forward.space.num_dofs <= WHOLE_MESH_NODES,
    )


@eqx.filter_jit
def reference_penalty(
    problem: InverseProblem, penalty: AbstractPenalty, surrogate: Surrogate
) -> Float[Array, ""]:
    """The penalty of the lifting alone, over the prior: the unit of the loss."""
    key, draw_key = jr.split(jr.key(0))
    draws = antithetic(draw_key, 64, problem.num_coordinates, problem.forward.dtype)
    zs = equation_inputs(problem, draws)
    nothing = eqx.tree_at(lambda s: s.frame.output_scale, surrogate, replace_fn=jnp.zeros_like)
    values = jax.lax.map(lambda one: penalty(one, nothing, zs), jr.split(key, 16))
    return jnp.mean(values)


def polished_in_double(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: Surrogate,
    family: AbstractGaussian,
    settings: EmulateSettings,
    key: PRNGKeyArray,
    refine_key: PRNGKeyArray,
) -> tuple[Surrogate, AbstractGaussian]:
    """The same in double precision, whatever that of the training.

    Normal equations square the condition number; in single precision nothing would be left.
    """
    with jax.enable_x64(True):
        double = polished(
            in_precision(problem, jnp.float64),
            in_precision(penalty, jnp.float64),
            in_precision(surrogate, jnp.float64),
            in_precision(family, jnp.float64),
            settings,
            key,
            refine_key,
        )
    return in_precision(double, problem.forward.dtype)


def in_precision(tree: Any, dtype: Any) -> Any:
    """All floating-point arrays of a tree in a given precision."""
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, tree
    )


def polished(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: Surrogate,
    family: AbstractGaussian,
    settings: EmulateSettings,
    key: PRNGKeyArray,
    refine_key: PRNGKeyArray,
) -> tuple[Surrogate, AbstractGaussian]:
    """Gauss-Newton steps of the readout, each followed by q without sampling noise."""
    dtype, size = problem.forward.dtype, problem.num_coordinates
    normals = matched_normals(refine_key, settings.refining_draws, size, dtype)
    family = refined(problem, surrogate, family, normals)
    if not isinstance(penalty, WeakFormPenalty) or not applies_to(penalty, surrogate):
        return surrogate, family
    for one in jr.split(key, settings.readout_steps):
        draw_key, patch_key = jr.split(one)
        count = settings.readout_batches * settings.num_samples
        draws = widened(family, antithetic(draw_key, count, size, dtype))
        batches = draws.reshape(settings.readout_batches, settings.num_samples, size)
        surrogate = stepped_readout(problem, penalty, surrogate, patch_key, batches)
        family = refined(problem, surrogate, family, normals)
    return surrogate, family

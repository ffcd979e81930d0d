r"""Training of the paper's models of the aquifer, and of their surrogate alone.

The objective is $-\sum_n \log N(y_n; \mu(x_n), \sigma^2) + KL(q(f) q(g) q(\tau) | p) +
E_q\|L[e^g, \tau]\mu - f\|_{-1}^2 / 2\epsilon^2$. The surrogate $\mu$ does not see the fields: they
meet in the last term only. The same seed gives the same surrogate, with and without an equation
that may err without bound.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.method.training import History, Terms, train
from riesz.penalty.penalty import AbstractPenalty
from riesz.posterior.family import FullRank
from riesz_paper.baselines.gp_physics.drawn_fields import DrawnField
from riesz_paper.baselines.gp_physics.settings import GpPhysicsSettings
from riesz_paper.baselines.gp_physics.sparse_process import Frame
from riesz_paper.baselines.gp_physics.spatial_surrogate import Places, SpatialSurrogate

Scalar = Float[Array, ""]


class Fields(eqx.Module):
    """q of the equation's unknowns, each independent of the others, in whitened coordinates."""

    log_diffusivity: FullRank
    source: FullRank
    transport: FullRank | None

    def divergence(self) -> Scalar:
        total = self.log_diffusivity.kl_to_prior() + self.source.kl_to_prior()
        return total if self.transport is None else total + self.transport.kl_to_prior()

    def draws(self, frame: Frame, key: PRNGKeyArray, count: int) -> PyTree:
        """What the weak form reads by name, with a leading axis of samples."""
        diffusivity_key, source_key, transport_key = jr.split(key, 3)

        def drawn(q: FullRank, key: PRNGKeyArray) -> DrawnField:
            one = frame.projection(q)
            same = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), one)
            return jax.vmap(DrawnField)(same, jr.split(key, count))

        zs: dict[str, PyTree] = {
            "log_diffusivity": drawn(self.log_diffusivity, diffusivity_key),
            "source": drawn(self.source, source_key),
        }
        if self.transport is not None:
            zs["transport"] = self.transport.sample(transport_key, count)
        return zs


class Trained(eqx.Module):
    """All that the optimiser moves."""

    surrogate: SpatialSurrogate
    fields: Fields | None = None


class TrainingState(eqx.Module):
    trained: Trained
    moments: optax.OptState
    epoch: Int[Array, ""]


class Physics(eqx.Module):
    """The equation's penalty, and the prior of its two fields."""

    penalty: AbstractPenalty
    frame: Frame


class Task(eqx.Module):
    """What training reads: arguments of the compiled steps, not constants in them."""

    places: Places
    target: Float[Array, " place"]
    physics: Physics | None
    settings: GpPhysicsSettings = eqx.field(static=True)


def epsilon_at(epoch: Int[Array, "*epoch"], settings: GpPhysicsSettings) -> Float[Array, "*epoch"]:
    """From the first to the last value over each cycle."""
    through = (epoch % settings.cycle) / max(settings.cycle - 1, 1)
    return settings.first_epsilon * (settings.last_epsilon / settings.first_epsilon) ** through


def objective(
    trained: Trained, epsilon: Scalar, key: PRNGKeyArray, task: Task
) -> tuple[Scalar, Terms]:
    """Misfit, divergence and penalty, and each of them apart."""
    surrogate, fields = trained.surrogate, trained.fields
    terms = {"misfit": surrogate.misfit(task.places, task.target)}
    if task.physics is None or fields is None:
        return terms["misfit"], terms
    draw_key, patch_key = jr.split(key)
    zs = fields.draws(task.physics.frame, draw_key, task.settings.num_draws)
    terms["kl"] = fields.divergence()
    terms["penalty"] = task.physics.penalty(patch_key, lambda x, z: surrogate.mean(x), zs)
    return terms["misfit"] + terms["kl"] + terms["penalty"] / (2 * epsilon**2), terms


def step(state: TrainingState, key: PRNGKeyArray, task: Task) -> tuple[TrainingState, Terms]:
    """One step of Adam on all measurements and a few mini-patches: an epoch."""
    epsilon = epsilon_at(state.epoch, task.settings)
    gradients, terms = eqx.filter_grad(objective, has_aux=True)(state.trained, epsilon, key, task)
    updates, moments = optimiser(task.settings).update(gradients, state.moments)
    trained = eqx.apply_updates(state.trained, updates)
    return TrainingState(trained, moments, state.epoch + 1), terms


def optimiser(settings: GpPhysicsSettings) -> optax.GradientTransformation:
    return optax.adam(settings.learning_rate)


def start_of(trained: Trained, settings: GpPhysicsSettings) -> TrainingState:
    moments = optimiser(settings).init(eqx.filter(trained, eqx.is_inexact_array))
    return TrainingState(trained, moments, jnp.zeros((), jnp.int32))


def fitted(start: Trained, task: Task, key: PRNGKeyArray) -> tuple[Trained, History]:
    """All after training, and the terms of the objective at each epoch."""
    settings = task.settings
    state, history = train(
        step,
        start_of(start, settings),
        key,
        task,
        num_steps=settings.num_epochs,
        block_steps=min(settings.cycle, settings.num_epochs),
        label="aquifer",
        progress=False,
    )
    return state.trained, history


PURPOSES = ("surrogate", "steps")


def key_for(seed: int, purpose: Literal["surrogate", "steps"]) -> PRNGKeyArray:
    """Keys that no other purpose can change."""
    return jr.fold_in(jr.key(seed), PURPOSES.index(purpose))

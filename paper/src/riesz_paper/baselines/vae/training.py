r"""Training of a conditional variational autoencoder, with or without an equation.

For each sample $n$ the objective holds $-\log p(y_n \mid x_n, z) + \beta\,\mathrm{KL}(q_n | p)$
and, where there is an equation, $\|L[z]u(\cdot, z) - f\|_{-1}^2 / 2\epsilon^2$, all with $z$ drawn
from $q_n = q(z \mid x_n, s_n)$. The same key gives the same batches and draws, with and without.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.method.training import History, Terms, train
from riesz.penalty.penalty import AbstractPenalty
from riesz_paper.baselines.vae.networks import Code, Networks
from riesz_paper.baselines.vae.settings import VaeSettings


class AbstractCoefficients(eqx.Module):
    """Networks of an equation's coefficients."""

    @abstractmethod
    def latents(self, nodes: Float[Array, "node dim"], code: Code) -> dict[str, PyTree]:
        """What the weak form reads by name, for one code."""


class Trained(eqx.Module):
    """All that the optimiser moves."""

    networks: Networks
    coefficients: AbstractCoefficients | None = None


class TrainingState(eqx.Module):
    trained: Trained
    moments: optax.OptState


class Task(eqx.Module):
    """What training reads: arguments of the compiled steps, not constants in them."""

    places: Float[Array, "sample dim"]
    known: Float[Array, "sample known"]
    target: Float[Array, " sample"]
    penalty: AbstractPenalty | None
    penalty_weight: Float[Array, ""]
    settings: VaeSettings = eqx.field(static=True)


def fitted(start: Trained, task: Task, key: PRNGKeyArray) -> tuple[Trained, History]:
    """Networks after training, and the terms of the objective at each step."""
    moments = optimiser(task.settings).init(eqx.filter(start, eqx.is_inexact_array))
    steps = task.settings.num_steps
    state, history = train(
        step,
        TrainingState(start, moments),
        key,
        task,
        num_steps=steps,
        block_steps=steps,
        label="autoencoder",
        progress=False,
    )
    return state.trained, history


def optimiser(settings: VaeSettings) -> optax.GradientTransformation:
    rate = settings.learning_rate
    schedule = optax.cosine_decay_schedule(rate, settings.num_steps) if settings.cosine else rate
    return optax.adamw(schedule, weight_decay=settings.weight_decay)


def step(state: TrainingState, key: PRNGKeyArray, task: Task) -> tuple[TrainingState, Terms]:
    """One step of Adam on one batch."""
    gradients, terms = eqx.filter_grad(objective, has_aux=True)(state.trained, key, task)
    parameters = eqx.filter(state.trained, eqx.is_inexact_array)
    updates, moments = optimiser(task.settings).update(gradients, state.moments, parameters)
    return TrainingState(eqx.apply_updates(state.trained, updates), moments), terms


def objective(trained: Trained, key: PRNGKeyArray, task: Task) -> tuple[Float[Array, ""], Terms]:
    """Misfit, divergence and penalty, and each of them apart."""
    batch_key, code_key, patch_key = jr.split(key, 3)
    settings, num_samples = task.settings, len(task.target)
    chosen = jr.permutation(batch_key, num_samples)[: settings.batch]
    places, known, target = task.places[chosen], task.known[chosen], task.target[chosen]
    normals = jr.normal(code_key, (len(chosen), 1, settings.num_codes), places.dtype)

    def encoded(x, known, normals):
        q = trained.networks.encoded(x, known)
        return q.transform(normals)[0], q.kl_to_prior()

    codes, divergences = jax.vmap(encoded)(places, known, normals)
    log_densities = trained.networks.observed(places, codes).log_prob(target)
    terms = {"misfit": -jnp.mean(log_densities), "kl": jnp.mean(divergences)}
    total = terms["misfit"] + settings.kl_weight * terms["kl"]
    if task.penalty is None or trained.coefficients is None:
        return total, terms
    codes = codes[: settings.num_physics_draws]
    codes = codes if settings.moves_encoder else jax.lax.stop_gradient(codes)
    terms["penalty"] = equation_error(
        trained.networks, trained.coefficients, codes, patch_key, task.penalty
    )
    return total + task.penalty_weight * terms["penalty"], terms


def equation_error(
    networks: Networks,
    coefficients: AbstractCoefficients,
    codes: Float[Array, "sample code"],
    key: PRNGKeyArray,
    penalty: AbstractPenalty,
) -> Float[Array, ""]:
    """The plug-in, called with the decoder's mean at some codes."""
    nodes = penalty.problem.cells.domain.nodes.T
    zs = jax.vmap(lambda code: {"code": code, **coefficients.latents(nodes, code)})(codes)
    return penalty(key, lambda x, z: networks.mean(x, z["code"]), zs)

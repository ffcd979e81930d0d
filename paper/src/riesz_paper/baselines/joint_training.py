r"""The paper's training: surrogate and q together on the relaxed objective (its eq. 13),

$F_\epsilon = E_q[-\log p(y \mid \mu)] + \mathrm{KL}(q \mid p)
+ E_q[r^\top A^{-1} r] / (2\epsilon^2)$, by draws of the unknowns and of mini-patches. Every
gradient reaches both, where `rz.Surrogate` stops that of the penalty before q. Steps of two
optimisers, and a tail over which q is averaged. What it leaves out, the log-determinant of the
data's covariance, the density `rz.Relaxed` has.
"""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.density.relaxed.relaxed import Epsilon, median_unit
from riesz.density.relaxed.states import RelaxedStates, error_grams
from riesz.density.surrogate.start import (
    PatchSettings,
    SurrogateDensity,
    default_penalty,
    equation_inputs,
    initial_surrogate,
)
from riesz.density.surrogate.variational import match_normals
from riesz.method.settings import Count, CountOrZero, Share, ShareOrZero, as_gram
from riesz.method.training import train
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import AbstractPenalty
from riesz.posterior.family import AbstractGaussian, Draws, full_rank
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import SteadySurrogate


class JointTraining(PatchSettings):
    """Sizes and lengths of a training at a fixed `epsilon_rel`, in units of the noise."""

    name: ClassVar[str] = "joint training"

    epsilon_rel: Epsilon = 0.1
    width: Count = 32
    features: Count = 32
    prior_steps: CountOrZero = 500  # on the equation alone
    steps: Count = 2000
    tail: ShareOrZero = 0.25  # of them over which q is averaged
    block_steps: Count = 250
    learning_rate: Share = 5e-3
    family_learning_rate: Share = 2e-2


class Terms(eqx.Module):
    """The three parts of the objective, kept apart so that a fit can be read."""

    misfit: Float[Array, ""]
    kl: Float[Array, ""]
    penalty: Float[Array, ""]

    def total(self) -> Float[Array, ""]:
        return self.misfit + self.kl + self.penalty


class JointState(eqx.Module):
    """What a step changes."""

    network: PyTree
    network_memory: PyTree
    family: AbstractGaussian
    family_memory: PyTree
    count: Int[Array, ""]
    tail_sum: AbstractGaussian  # of the families since the tail began


class JointData(eqx.Module):
    """What a step reads."""

    problem: InverseProblem
    penalty: AbstractPenalty
    surrogate: SteadySurrogate  # with a network that is not read
    prior: AbstractGaussian
    epsilon: Float[Array, ""]
    tail_start: Int[Array, ""]


def objective_terms(
    data: JointData, network: PyTree, family: AbstractGaussian, key: PRNGKeyArray, normals: Draws
) -> Terms:
    """The objective on given normal draws and a key for the patches."""
    problem, draws = data.problem, family.transform(normals)
    surrogate = eqx.tree_at(lambda s: s.network, data.surrogate, network)
    fits = jax.vmap(SurrogateDensity(problem, surrogate).log_likelihood)(draws)
    square = data.penalty(key, surrogate, equation_inputs(problem, draws))
    return Terms(-jnp.mean(fits), family.kl_to_prior(), square / (2 * data.epsilon**2))


class JointStep(eqx.Module):
    """One step of both optimisers; on the prior, only the surrogate moves."""

    settings: JointTraining = eqx.field(static=True)
    on_prior: bool = eqx.field(static=True)

    def __call__(
        self, state: JointState, key: PRNGKeyArray, data: JointData
    ) -> tuple[JointState, dict[str, Float[Array, ""]]]:
        draw_key, patch_key = jr.split(key)
        problem, how = data.problem, self.settings
        # Draws with the right moments: q's spread would be noisy without.
        normals = match_normals(
            draw_key, how.num_samples, problem.num_coordinates, problem.forward.dtype
        )

        def objective(moving: tuple[PyTree, AbstractGaussian]):
            terms = objective_terms(data, *moving, patch_key, normals)
            return terms.penalty if self.on_prior else terms.total(), terms

        family = data.prior if self.on_prior else state.family
        gradient = eqx.filter_value_and_grad(objective, has_aux=True)
        (_, terms), (network_slope, family_slope) = gradient((state.network, family))
        network, network_memory = apply_update(
            network_optimiser(how), network_slope, state.network_memory, state.network
        )
        if self.on_prior:
            after = dataclasses.replace(state, network=network, network_memory=network_memory)
            return after, {"penalty": terms.penalty}
        family, family_memory = apply_update(
            family_optimiser(how), family_slope, state.family_memory, family
        )
        in_tail = (state.count >= data.tail_start).astype(problem.forward.dtype)
        tail_sum = jax.tree.map(lambda total, one: total + in_tail * one, state.tail_sum, family)
        after = JointState(
            network, network_memory, family, family_memory, state.count + 1, tail_sum
        )
        return after, {"misfit": terms.misfit, "kl": terms.kl, "penalty": terms.penalty}


def apply_update(optimiser: Any, slope: PyTree, memory: PyTree, part: PyTree):
    changes, memory = optimiser.update(slope, memory)
    return eqx.apply_updates(part, changes), memory


def network_optimiser(how: JointTraining) -> optax.GradientTransformation:
    return optax.adam(cosine(how.learning_rate, how.prior_steps + how.steps))


def family_optimiser(how: JointTraining) -> optax.GradientTransformation:
    # A short memory of squared slopes: the first ones, of the prior, are larger by far.
    return optax.adam(cosine(how.family_learning_rate, how.steps), b2=0.99)


def cosine(rate: float, steps: int) -> optax.Schedule:
    # Not to zero: steps of the tail that did not move would not average anything.
    return optax.cosine_decay_schedule(rate, max(steps, 1), alpha=0.02)


def train_jointly(
    problem: InverseProblem,
    how: JointTraining,
    penalty: AbstractPenalty | None = None,
    *,
    seed: int,
    progress: bool = False,
) -> Posterior:
    """The posterior with a penalty of any kind, by default that of mini-patches."""
    assert isinstance(how.epsilon_rel, float)
    penalty = default_penalty(problem, how) if penalty is None else penalty
    network_key, prior_key, key = jr.split(jr.key(seed), 3)
    errors = error_grams(problem, as_gram(how.gram) or Gram())
    epsilon = how.epsilon_rel * median_unit(problem, errors)
    surrogate = initial_surrogate(problem, network_key, width=how.width, features=how.features)
    prior = full_rank(problem.num_coordinates, problem.forward.dtype)
    tail_start = how.steps - max(1, round(how.tail * how.steps))
    data = JointData(problem, penalty, surrogate, prior, epsilon, jnp.asarray(tail_start))
    trainable = eqx.filter(surrogate.network, eqx.is_inexact_array)
    state = JointState(
        network=surrogate.network,
        network_memory=network_optimiser(how).init(trainable),
        family=prior,
        family_memory=family_optimiser(how).init(eqx.filter(prior, eqx.is_inexact_array)),
        count=jnp.zeros((), jnp.int32),
        tail_sum=jax.tree.map(jnp.zeros_like, prior),
    )
    blocks = {"block_steps": how.block_steps, "progress": progress}
    if how.prior_steps:
        state, _ = train(
            JointStep(how, on_prior=True),
            state,
            prior_key,
            data,
            num_steps=how.prior_steps,
            label="surrogate on the prior",
            **blocks,
        )
    state, history = train(
        JointStep(how, on_prior=False),
        state,
        key,
        data,
        num_steps=how.steps,
        label="relaxed posterior",
        **blocks,
    )
    # The mean of q's parameters since the tail began.
    q = jax.tree.map(lambda total: total / (how.steps - tail_start), state.tail_sum)
    states = RelaxedStates(epsilon[None], jnp.zeros(1), errors)
    curves = {name: jnp.asarray(curve) for name, curve in history.items()}
    return Posterior(problem, q, states, curves, "joint-training", seed)

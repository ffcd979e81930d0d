r"""Preconditioned HMC: steps that rotate a Gaussian exactly, and jumps between modes.

In coordinates $e$ in which the posterior is nearly a standard normal distribution, its potential is
$\tfrac12 |e|^2 + \psi(e)$ with a small $\psi$. A step kicks the momentum by $\psi$ alone, and
rotates $(e, v)$ in between, which solves the rest exactly: its error, and so its length, does not
depend on the number of unknowns (Beskos, Pinski, Sanz-Serna & Stuart 2011).

Where the posterior has several modes, each has its own coordinates, those of the normal
distribution that is the most likely there. A trajectory that ends nearer to another mode is
refused, so that the way back is that of the way there; and a draw of the mixture of these normal
distributions is proposed before each trajectory, and taken as Metropolis and Hastings ask. With few
unknowns the prior is part of that mixture, also where there is one mode: errors with heavy tails
leave a little of the posterior as wide as the prior, where no trajectory from the mode arrives.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from riesz.method.mcmc.diagnostics import Transition
from riesz.method.mcmc.metric import Metric
from riesz.posterior.density import AbstractDensity
from riesz.problem.problem import Coordinates

BLOCK = 20
"""Transitions between two looks at the progress."""

ANGLE = 2.8
"""How far a trajectory turns, on the mean. Of a normal distribution half as much would do; others
have directions in which they reach farther than their coordinates say."""

JITTER = (0.1, 1.9)
"""Parts of it, drawn anew each time, so that no direction comes back to where it was."""

FIRST_STEP, LONGEST_STEP = 0.3, 1.2

MAX_STEPS, MAX_STEPS_LEARNING = 200, 30
"""Of a trajectory: as long as coordinates are not white, long ones are a waste."""

PRIOR_UP_TO, PRIOR_PART = 8, 0.1
"""Unknowns up to which the prior is proposed from, and its part: a draw of the prior of many
unknowns is never taken."""

DIVERGING = 1000.0
"""An error of the energy that no acceptable step makes."""

DECAY, STEADINESS, SCALE = 0.75, 10.0, 0.05
"""Of dual averaging (Nesterov 2009; Hoffman & Gelman 2014): kappa, t_0 and gamma."""


class StepSize(eqx.Module):
    """The length of steps, as it is learnt in a warm-up."""

    log_step: Float[Array, ""]
    log_mean: Float[Array, ""]
    error: Float[Array, ""]
    target: Float[Array, ""]  # towards which it is drawn, in logarithms
    count: Float[Array, ""]

    def update(self, accepted: Float[Array, ""], wanted: Float[Array, ""]) -> "StepSize":
        count = self.count + 1
        share = 1 / (count + STEADINESS)
        error = (1 - share) * self.error + share * (wanted - accepted)
        log_step = self.target - jnp.sqrt(count) / SCALE * error
        log_step = jnp.minimum(log_step, np.log(LONGEST_STEP))
        weight = count**-DECAY
        mean = weight * log_step + (1 - weight) * self.log_mean
        return StepSize(log_step, mean, error, self.target, count)


def init_step_size(step: Float[Array, ""]) -> StepSize:
    """Learning begins with the attempt to make steps longer."""
    start, zero = jnp.log(step), jnp.zeros(())
    return StepSize(start, start, zero, jnp.log(3.0) + start, zero)


class Chain(eqx.Module):
    """Where a chain stands."""

    key: PRNGKeyArray
    position: Coordinates
    log_density: Float[Array, ""]
    gradient: Coordinates
    step_size: StepSize


class Modes(eqx.Module):
    """Normal distributions about the modes of a posterior, stacked."""

    metrics: Metric  # a leading axis for each of its arrays
    log_weights: Float[Array, " mode"]

    @property
    def count(self) -> int:
        return len(self.log_weights)

    def metric(self, number: Int[Array, ""] | int) -> Metric:
        return jax.tree.map(lambda array: array[number], self.metrics)

    def log_densities(self, position: Coordinates) -> Float[Array, " mode"]:
        each = jax.vmap(lambda metric: metric.log_density(position))(self.metrics)
        return self.log_weights + each

    @property
    def prior_part(self) -> float:
        """Of the mixture that jumps are drawn from."""
        return PRIOR_PART if self.metrics.centre.shape[-1] <= PRIOR_UP_TO else 0.0

    @property
    def has_jumps(self) -> bool:
        return self.count > 1 or self.prior_part > 0

    def proposal(self, key: PRNGKeyArray) -> Coordinates:
        """A draw of the normal distributions, by weight, or of the prior."""
        which, wide, normal = jr.split(key, 3)
        normals = jr.normal(normal, self.metrics.centre.shape[1:])
        position = self.metric(jr.categorical(which, self.log_weights)).unwhiten(normals)
        return jnp.where(jr.uniform(wide) < self.prior_part, normals, position)

    def log_proposal(self, position: Coordinates) -> Float[Array, ""]:
        """The density of such draws, up to a constant."""
        own = jax.scipy.special.logsumexp(self.log_densities(position))
        if self.prior_part == 0.0:
            return own
        prior = jnp.log(self.prior_part) - 0.5 * position @ position
        return jnp.logaddexp(jnp.log1p(-self.prior_part) + own, prior)

    def nearest(self, position: Coordinates) -> Int[Array, ""]:
        if self.count == 1:
            return jnp.zeros((), int)
        return jnp.argmax(self.log_densities(position))


class HMCTransition(eqx.Module):
    """What is kept of one transition."""

    transition: Transition
    gradient: Coordinates
    mode: Int[Array, ""]


def value_and_gradient(
    density: AbstractDensity, position: Coordinates
) -> tuple[Float[Array, ""], Coordinates]:
    """Minus infinity, and flat, where there is no density."""
    value, gradient = jax.value_and_grad(density)(position)
    exists = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    return jnp.where(exists, value, -jnp.inf), jnp.where(exists, gradient, 0.0)


@eqx.filter_jit
def init(density: AbstractDensity, key: PRNGKeyArray, position: Coordinates) -> Chain:
    # A weak type would be compiled for anew.
    step_size = init_step_size(jnp.asarray(FIRST_STEP, float))
    return Chain(key, position, *value_and_gradient(density, position), step_size)


@eqx.filter_jit
def step(
    density: AbstractDensity,
    modes: Modes,
    chain: Chain,
    wanted: Float[Array, ""],
    learning: Bool[Array, ""],
    count: Int[Array, ""],
) -> tuple[Chain, HMCTransition]:
    """Up to a block of transitions; a loop of traced length serves the last, shorter block."""

    def move(i, chain_and_rows):
        chain, kept = chain_and_rows
        chain, row = transition(density, modes, chain, wanted, learning)
        return chain, jax.tree.map(lambda rows, row: rows.at[i].set(row), kept, row)

    shapes = eqx.filter_eval_shape(transition, density, modes, chain, wanted, learning)[1]
    empty = jax.tree.map(lambda x: jnp.zeros((BLOCK, *x.shape), x.dtype), shapes)
    return jax.lax.fori_loop(0, count, move, (chain, empty))


def transition(
    density: AbstractDensity,
    modes: Modes,
    chain: Chain,
    wanted: Float[Array, ""],
    learning: Bool[Array, ""],
) -> tuple[Chain, HMCTransition]:
    """A jump, where one can be of use, and a trajectory."""
    key, jump_key, own = jr.split(chain.key, 3)
    if modes.has_jumps:
        chain = jump(density, modes, chain, jump_key)
    step = jnp.exp(jnp.where(learning, chain.step_size.log_step, chain.step_size.log_mean))
    momentum_key, length_key, accept_key = jr.split(own, 3)
    mode = modes.nearest(chain.position)
    metric = modes.metric(mode)
    low, high = JITTER
    angle = ANGLE * jr.uniform(length_key, minval=low, maxval=high)
    longest = jnp.where(learning, MAX_STEPS_LEARNING, MAX_STEPS)
    num_steps = jnp.clip(jnp.ceil(angle / step), 1, longest).astype(int)
    momentum = jr.normal(momentum_key, chain.position.shape)
    energy = 0.5 * momentum @ momentum - chain.log_density

    def is_lost(energy_now):
        return ~(energy_now - energy < DIVERGING)

    def is_running(at):
        return (at[0] < num_steps) & ~is_lost(at[-1])

    def one_step(at):
        number, whitened, momentum, gradient, _, _ = at
        momentum = momentum + 0.5 * step * (metric.whitened_gradient(gradient) + whitened)
        turned = jnp.cos(step) * whitened + jnp.sin(step) * momentum
        momentum = jnp.cos(step) * momentum - jnp.sin(step) * whitened
        value, gradient = value_and_gradient(density, metric.unwhiten(turned))
        momentum = momentum + 0.5 * step * (metric.whitened_gradient(gradient) + turned)
        return number + 1, turned, momentum, gradient, value, 0.5 * momentum @ momentum - value

    begin = (
        *(jnp.zeros((), int), metric.whiten(chain.position), momentum),
        *(chain.gradient, chain.log_density, energy),
    )
    taken, whitened, _, gradient, value, last = jax.lax.while_loop(is_running, one_step, begin)
    position = metric.unwhiten(whitened)
    diverged = is_lost(last)
    probability = jnp.where(diverged, 0.0, jnp.exp(jnp.minimum(0.0, energy - last)))
    probability = jnp.where(modes.nearest(position) == mode, probability, 0.0)
    accepted = jr.uniform(accept_key) < probability
    step_size = chain.step_size.update(probability, wanted)
    after = Chain(
        key,
        jnp.where(accepted, position, chain.position),
        jnp.where(accepted, value, chain.log_density),
        jnp.where(accepted, gradient, chain.gradient),
        jax.tree.map(lambda new, old: jnp.where(learning, new, old), step_size, chain.step_size),
    )
    row = Transition(
        coordinates=after.position,
        log_density=after.log_density,
        num_steps=taken + modes.has_jumps,
        accept_probability=probability,
        diverging=diverged,
        step_size=step,
    )
    return after, HMCTransition(row, after.gradient, mode)


def jump(density: AbstractDensity, modes: Modes, chain: Chain, key: PRNGKeyArray) -> Chain:
    """A draw of the mixture, taken or not."""
    propose, accept = jr.split(key)
    position = modes.proposal(propose)
    value, gradient = value_and_gradient(density, position)
    here, there = modes.log_proposal(chain.position), modes.log_proposal(position)
    gain = value - chain.log_density + here - there
    taken = jnp.log(jr.uniform(accept)) < gain
    return Chain(
        chain.key,
        jnp.where(taken, position, chain.position),
        jnp.where(taken, value, chain.log_density),
        jnp.where(taken, gradient, chain.gradient),
        chain.step_size,
    )

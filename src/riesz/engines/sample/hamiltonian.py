r"""Hamiltonian steps that rotate a Gaussian exactly, and jumps between peaks.

In coordinates $e$ in which the posterior is nearly a standard normal distribution, its potential is
$\tfrac12 |e|^2 + \psi(e)$ with a small $\psi$. A step kicks the momentum by $\psi$ alone, and
rotates $(e, v)$ in between, which solves the rest exactly: its error, and so its length, does not
depend on the number of unknowns (Beskos, Pinski, Sanz-Serna & Stuart 2011).

Where the posterior has several peaks, each has its own coordinates, those of the normal
distribution that is the most likely there. A trajectory that ends nearer to another peak is
refused, so that the way back is that of the way there; and a draw of the mixture of these normal
distributions is proposed before each trajectory, and taken as Metropolis and Hastings ask. With few
unknowns the prior is part of that mixture, also where there is one peak: errors with heavy tails
leave a little of the posterior as wide as the prior, where no trajectory from the peak arrives.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from riesz.engines.nuts.engine import AbstractDensity, Transition
from riesz.engines.sample.metric import Metric
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
"""Of a trajectory: as long as coordinates are not round, long ones are a waste."""

PRIOR_UP_TO, PRIOR_PART = 8, 0.1
"""Unknowns up to which the prior is proposed from, and its part: a draw of the prior of many
unknowns is never taken."""

DIVERGING = 1000.0
"""An error of the energy that no acceptable step makes."""

DECAY, STEADINESS, SCALE = 0.75, 10.0, 0.05
"""Of dual averaging (Nesterov 2009; Hoffman & Gelman 2014): kappa, t_0 and gamma."""


class Pace(eqx.Module):
    """The length of steps, as it is learnt in a warm-up."""

    log_step: Float[Array, ""]
    log_mean: Float[Array, ""]
    error: Float[Array, ""]
    target: Float[Array, ""]  # towards which it is drawn, in logarithms
    count: Float[Array, ""]

    def learnt(self, accepted: Float[Array, ""], wanted: Float[Array, ""]) -> "Pace":
        count = self.count + 1
        share = 1 / (count + STEADINESS)
        error = (1 - share) * self.error + share * (wanted - accepted)
        log_step = self.target - jnp.sqrt(count) / SCALE * error
        log_step = jnp.minimum(log_step, np.log(LONGEST_STEP))
        weight = count**-DECAY
        mean = weight * log_step + (1 - weight) * self.log_mean
        return Pace(log_step, mean, error, self.target, count)


def pace_from(step: Float[Array, ""]) -> Pace:
    """Learning begins with the attempt to make steps longer."""
    start, zero = jnp.log(step), jnp.zeros(())
    return Pace(start, start, zero, jnp.log(3.0) + start, zero)


class Chain(eqx.Module):
    """Where a chain stands."""

    key: PRNGKeyArray
    place: Coordinates
    log_density: Float[Array, ""]
    slope: Coordinates
    pace: Pace


class Peaks(eqx.Module):
    """Normal distributions about the peaks of a posterior, stacked."""

    metrics: Metric  # a leading axis for each of its arrays
    log_weights: Float[Array, " peak"]

    @property
    def count(self) -> int:
        return len(self.log_weights)

    def metric(self, number: Int[Array, ""] | int) -> Metric:
        return jax.tree.map(lambda array: array[number], self.metrics)

    def log_densities(self, place: Coordinates) -> Float[Array, " peak"]:
        each = jax.vmap(lambda metric: metric.log_density(place))(self.metrics)
        return self.log_weights + each

    @property
    def prior_part(self) -> float:
        """Of the mixture that jumps are drawn from."""
        return PRIOR_PART if self.metrics.centre.shape[-1] <= PRIOR_UP_TO else 0.0

    @property
    def jumps(self) -> bool:
        return self.count > 1 or self.prior_part > 0

    def proposal(self, key: PRNGKeyArray) -> Coordinates:
        """A draw of the normal distributions, by weight, or of the prior."""
        which, wide, normal = jr.split(key, 3)
        normals = jr.normal(normal, self.metrics.centre.shape[1:])
        place = self.metric(jr.categorical(which, self.log_weights)).place(normals)
        return jnp.where(jr.uniform(wide) < self.prior_part, normals, place)

    def log_proposal(self, place: Coordinates) -> Float[Array, ""]:
        """The density of such draws, up to a constant."""
        own = jax.scipy.special.logsumexp(self.log_densities(place))
        if self.prior_part == 0.0:
            return own
        prior = jnp.log(self.prior_part) - 0.5 * place @ place
        return jnp.logaddexp(jnp.log1p(-self.prior_part) + own, prior)

    def nearest(self, place: Coordinates) -> Int[Array, ""]:
        if self.count == 1:
            return jnp.zeros((), int)
        return jnp.argmax(self.log_densities(place))


class Seen(eqx.Module):
    """What is kept of one transition."""

    transition: Transition
    slope: Coordinates
    peak: Int[Array, ""]


def value_and_slope(
    density: AbstractDensity, place: Coordinates
) -> tuple[Float[Array, ""], Coordinates]:
    """Minus infinity, and flat, where there is no density."""
    value, slope = jax.value_and_grad(density)(place)
    exists = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope))
    return jnp.where(exists, value, -jnp.inf), jnp.where(exists, slope, 0.0)


@eqx.filter_jit
def begun(density: AbstractDensity, key: PRNGKeyArray, place: Coordinates) -> Chain:
    pace = pace_from(jnp.asarray(FIRST_STEP, float))  # a weak type would be compiled for anew
    return Chain(key, place, *value_and_slope(density, place), pace)


@eqx.filter_jit
def advance(
    density: AbstractDensity,
    peaks: Peaks,
    chain: Chain,
    wanted: Float[Array, ""],
    learning: Bool[Array, ""],
    count: Int[Array, ""],
) -> tuple[Chain, Seen]:
    """Up to a block of transitions; a loop of traced length serves the last, shorter block."""

    def move(i, chain_and_kept):
        chain, kept = chain_and_kept
        moved, seen = transition(density, peaks, chain, wanted, learning)
        return moved, jax.tree.map(lambda rows, row: rows.at[i].set(row), kept, seen)

    shapes = eqx.filter_eval_shape(transition, density, peaks, chain, wanted, learning)[1]
    empty = jax.tree.map(lambda x: jnp.zeros((BLOCK, *x.shape), x.dtype), shapes)
    return jax.lax.fori_loop(0, count, move, (chain, empty))


def transition(
    density: AbstractDensity,
    peaks: Peaks,
    chain: Chain,
    wanted: Float[Array, ""],
    learning: Bool[Array, ""],
) -> tuple[Chain, Seen]:
    """A jump, where one can be of use, and a trajectory."""
    key, jump_key, own = jr.split(chain.key, 3)
    if peaks.jumps:
        chain = jump(density, peaks, chain, jump_key)
    step = jnp.exp(jnp.where(learning, chain.pace.log_step, chain.pace.log_mean))
    momentum_key, length_key, accept_key = jr.split(own, 3)
    peak = peaks.nearest(chain.place)
    metric = peaks.metric(peak)
    low, high = JITTER
    angle = ANGLE * jr.uniform(length_key, minval=low, maxval=high)
    longest = jnp.where(learning, MAX_STEPS_LEARNING, MAX_STEPS)
    num_steps = jnp.clip(jnp.ceil(angle / step), 1, longest).astype(int)
    momentum = jr.normal(momentum_key, chain.place.shape)
    energy = 0.5 * momentum @ momentum - chain.log_density

    def lost(energy_now):
        return ~(energy_now - energy < DIVERGING)

    def unfinished(at):
        return (at[0] < num_steps) & ~lost(at[-1])

    def one_step(at):
        number, rounded, momentum, slope, _, _ = at
        momentum = momentum + 0.5 * step * (metric.slope(slope) + rounded)
        turned = jnp.cos(step) * rounded + jnp.sin(step) * momentum
        momentum = jnp.cos(step) * momentum - jnp.sin(step) * rounded
        value, slope = value_and_slope(density, metric.place(turned))
        momentum = momentum + 0.5 * step * (metric.slope(slope) + turned)
        return number + 1, turned, momentum, slope, value, 0.5 * momentum @ momentum - value

    begin = (
        *(jnp.zeros((), int), metric.rounded(chain.place), momentum),
        *(chain.slope, chain.log_density, energy),
    )
    taken, rounded, _, slope, value, last = jax.lax.while_loop(unfinished, one_step, begin)
    place = metric.place(rounded)
    diverged = lost(last)
    probability = jnp.where(diverged, 0.0, jnp.exp(jnp.minimum(0.0, energy - last)))
    probability = jnp.where(peaks.nearest(place) == peak, probability, 0.0)
    accepted = jr.uniform(accept_key) < probability
    pace = chain.pace.learnt(probability, wanted)
    after = Chain(
        key,
        jnp.where(accepted, place, chain.place),
        jnp.where(accepted, value, chain.log_density),
        jnp.where(accepted, slope, chain.slope),
        jax.tree.map(lambda new, old: jnp.where(learning, new, old), pace, chain.pace),
    )
    row = Transition(
        coordinates=after.place,
        log_density=after.log_density,
        num_steps=taken + peaks.jumps,
        accept_probability=probability,
        diverging=diverged,
        step_size=step,
    )
    return after, Seen(row, after.slope, peak)


def jump(density: AbstractDensity, peaks: Peaks, chain: Chain, key: PRNGKeyArray) -> Chain:
    """A draw of the mixture, taken or not."""
    propose, accept = jr.split(key)
    place = peaks.proposal(propose)
    value, slope = value_and_slope(density, place)
    gain = value - chain.log_density + peaks.log_proposal(chain.place) - peaks.log_proposal(place)
    taken = jnp.log(jr.uniform(accept)) < gain
    return Chain(
        chain.key,
        jnp.where(taken, place, chain.place),
        jnp.where(taken, value, chain.log_density),
        jnp.where(taken, slope, chain.slope),
        chain.pace,
    )

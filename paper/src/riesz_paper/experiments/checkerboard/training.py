"""Training for a given number of processor seconds, the same way for every loss.

Adam on all weights, its rate falling as a cosine of the seconds spent; and, as every loss here is
quadratic in the last layer, Newton's step for that layer from as many draws as there is time for.
"""

import dataclasses
from dataclasses import dataclass
from time import perf_counter, process_time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from riesz_paper.baselines.strong_form.forward import AbstractForwardLoss
from riesz_paper.experiments.checkerboard.network import CuspNetwork
from riesz_paper.experiments.checkerboard.weak_form import WeakFormLoss, patch_equations

BLOCK = 10
"""Steps between two looks at the clock."""

# Losses differ in size by orders of magnitude; the usual 1e-8 would slow some of them down.
ADAM = optax.scale_by_adam(eps=1e-30)


@dataclass(frozen=True)
class Schedule:
    """How the processor seconds of a training are spent."""

    rate: float  # of Adam, at the start
    newton_share: float = 0.0  # of the seconds; zero for no step of Newton
    ridge: float = 0.0  # added to Newton's matrix, relative to the mean of its diagonal


@dataclass(frozen=True)
class Trained:
    """A network, and what it took."""

    network: CuspNetwork
    steps: int  # of Adam
    draws: int  # that Newton's step was taken from
    seconds: float
    cpu_seconds: float


class LastLayer(eqx.Module):
    """The network as a function of the weights of its last layer, in which it is linear."""

    network: CuspNetwork

    def __call__(self, weights: Float[Array, " weight"]) -> CuspNetwork:
        readout = weights.reshape(self.network.readout.shape)
        return dataclasses.replace(self.network, readout=readout)


def fresh_memory(network: CuspNetwork) -> optax.OptState:
    return ADAM.init(eqx.filter(network, eqx.is_inexact_array))


@eqx.filter_jit
def adam_block(
    loss: AbstractForwardLoss,
    network: CuspNetwork,
    memory: optax.OptState,
    keys: Key[Array, " step"],
    rate: Float[Array, ""],
) -> tuple[CuspNetwork, optax.OptState]:
    def step(state, key):
        network, memory = state
        slope = jax.grad(lambda n: loss(key, n))(network)
        changes, memory = ADAM.update(slope, memory)
        return (jax.tree.map(lambda w, c: w - rate * c, network, changes), memory), None

    return jax.lax.scan(step, (network, memory), keys)[0]


@eqx.filter_jit
def drawn_equations(
    loss: AbstractForwardLoss,
    field_of: LastLayer,
    weights: Float[Array, " weight"],
    key: PRNGKeyArray,
) -> tuple[Float[Array, "weight weight"], Float[Array, " weight"]]:
    """Second and first derivatives of a loss from one draw."""
    slope, change = jax.linearize(jax.grad(lambda w: loss(key, field_of(w))), weights)
    return jax.vmap(change)(jnp.eye(weights.size, dtype=weights.dtype)), slope


def newton_step(
    loss: AbstractForwardLoss,
    network: CuspNetwork,
    key: PRNGKeyArray,
    cpu_seconds: float,
    ridge: float,
) -> tuple[CuspNetwork, int]:
    """The last layer that minimises the mean of the loss over draws, and how many there were."""
    start, draws, size = process_time(), 0, network.readout.size
    matrix, slope = np.zeros((size, size)), np.zeros(size)
    while draws == 0 or process_time() - start < cpu_seconds:
        parts = equations(loss, network, jr.fold_in(key, draws))
        matrix, slope = (total + part for total, part in zip((matrix, slope), parts, strict=True))
        draws += 1
        if isinstance(loss, WeakFormLoss):  # from all patches: there is nothing to average
            break
    matrix[np.diag_indices(size)] += ridge * np.trace(matrix) / size
    change = np.linalg.solve(matrix, slope).reshape(network.readout.shape)
    return dataclasses.replace(network, readout=network.readout - change), draws


def equations(
    loss: AbstractForwardLoss, network: CuspNetwork, key: PRNGKeyArray
) -> tuple[Float[np.ndarray, "weight weight"], Float[np.ndarray, " weight"]]:
    field_of, weights = LastLayer(network), network.readout.ravel()
    if isinstance(loss, WeakFormLoss):
        matrix, slope = patch_equations(loss, field_of, weights)
    else:
        matrix, slope = drawn_equations(loss, field_of, weights, key)
    return np.asarray(matrix), np.asarray(slope)


def train(
    loss: AbstractForwardLoss,
    last_loss: AbstractForwardLoss,
    network: CuspNetwork,
    key: PRNGKeyArray,
    schedule: Schedule,
    cpu_seconds: float,
) -> Trained:
    """Adam on one loss, then Newton's step on another, the same one with more points."""
    adam_key, newton_key = jr.split(key)
    compile_for(loss, last_loss, network, schedule)
    clock, start = perf_counter(), process_time()
    whole = (1 - schedule.newton_share) * cpu_seconds
    memory, steps, draws = fresh_memory(network), 0, 0
    while (spent := process_time() - start) < whole:
        keys = jr.split(jr.fold_in(adam_key, steps), BLOCK)
        rate = jnp.asarray(schedule.rate * (1 + np.cos(np.pi * spent / whole)) / 2)
        network, memory = jax.block_until_ready(adam_block(loss, network, memory, keys, rate))
        steps += BLOCK
    if schedule.newton_share:
        left = cpu_seconds - (process_time() - start)
        network, draws = newton_step(last_loss, network, newton_key, left, schedule.ridge)
    return Trained(network, steps, draws, perf_counter() - clock, process_time() - start)


def compile_for(
    loss: AbstractForwardLoss,
    last_loss: AbstractForwardLoss,
    network: CuspNetwork,
    schedule: Schedule,
) -> None:
    """Leaves compilation out of the seconds that follow."""
    keys, memory = jr.split(jr.key(0), BLOCK), fresh_memory(network)
    if schedule.newton_share < 1:
        jax.block_until_ready(adam_block(loss, network, memory, keys, jnp.zeros(())))
    if schedule.newton_share:
        equations(last_loss, network, jr.key(0))

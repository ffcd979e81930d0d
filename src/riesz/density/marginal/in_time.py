"""Problems in time whose matrix depends on few unknowns: the march and the algebra are apart.

How records respond to linear unknowns is a march of all of them together, for values of those
unknowns that the equation reads, such as storage and conductivity. Noise moves none of it. So the
march is one small compiled function without derivatives, which differences make; the algebra is
another, and takes milliseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.density.marginal.linear import DataMap, MarginalDensity, Others
from riesz.density.marginal.points import TimePoints
from riesz.density.marginal.systems import AbstractDataSystem
from riesz.method.training import minimise
from riesz.problem.linearity import read_by_state

STEP = 1e-4
"""Of central differences of responses, in prior standard deviations."""

MOST_MOVING = 6
"""Unknowns that differences are taken by; by more, derivatives of the march are quicker."""

KEPT_NUMBERS = 50_000_000
"""In responses that are kept, for values that come again."""


LONGEST = 2.0
"""Step of a search, in prior standard deviations."""

FLAT, LEAST_GAIN = 0.04, 1e-3
"""A slope, and a gain in log-density, at which a search ends."""

DIFFERENCE = 1e-3
"""Of slopes, in prior standard deviations."""


class CostTerms(NamedTuple):
    """The negative log-density, infinite where there is none; its slope; and what data and prior
    tell of the unknowns that move marches, the expected curvature."""

    value: Any
    gradient: Float[np.ndarray, " other"]
    information: Float[np.ndarray, "moving moving"]


@dataclass(frozen=True, eq=False)
class TimeSteppingModel:
    """The data of a problem in time, by marches for values of the unknowns that these read."""

    density: MarginalDensity
    moving: Int[np.ndarray, " moving"]  # which of the other unknowns marches read
    known: dict[bytes, DataMap] = field(default_factory=dict)

    def data(self, others: Others) -> DataMap:
        """How data respond, remembered: noise may differ."""
        key = np.asarray(others, float)[self.moving].tobytes()
        if key not in self.known:
            result = responses_at(self.density, others)
            fitting = max(KEPT_NUMBERS // result.responses.size, 4 * len(self.moving) + 2)
            while len(self.known) >= fitting:
                self.known.pop(next(iter(self.known)))
            self.known[key] = result
        return self.known[key]

    def cost(self, others: Others) -> CostTerms:
        value, slope, by_data = self.cost_terms(others)
        changes = []
        for number in self.moving:
            step = STEP * np.eye(len(slope))[number]
            ahead, behind = (self.data(jnp.asarray(others + own)) for own in (step, -step))
            changes.append(jax.tree.map(lambda a, b: (a - b) / (2 * STEP), ahead, behind))
            slope[number] += sum(
                float(jnp.vdot(*both)) for both in zip(by_data, changes[-1], strict=True)
            )
        if not np.isfinite(slope).all() or not np.isfinite(value):
            return CostTerms(np.inf, np.zeros_like(slope), np.eye(len(self.moving)))
        information = np.zeros((0, 0))
        if changes:
            given, every = jnp.asarray(others), jax.tree.map(lambda *own: jnp.stack(own), *changes)
            information = hyper_information(self.density, given, self.data(given), every)
        return CostTerms(value, slope, np.asarray(information) + np.eye(len(self.moving)))

    def cost_terms(self, others: Others) -> tuple[float, Float[np.ndarray, " other"], DataMap]:
        """The cost, and its slopes by unknowns with the responses held, and by the responses."""
        given = jnp.asarray(others)
        value, (slope, by_data) = cost_and_gradients(given, self.data(given), self.density)
        exists = bool(jnp.isfinite(value))
        own = np.array(slope) if exists else np.zeros(len(given))
        return float(value) if exists else np.inf, own, by_data

    def log_density(self, others: Others) -> float:
        return -self.cost_terms(others)[0]

    def with_best_noise(self, others: Others) -> Others:
        """The most probable values of what moves no march, given the rest."""
        still = np.setdiff1d(np.arange(len(others)), self.moving)
        if not len(still):
            return others

        def cost(own: Float[Array, " still"]) -> tuple[float, Float[np.ndarray, " still"]]:
            value, slope, _ = self.cost_terms(others.at[still].set(own))
            return value, slope[still]

        return others.at[still].set(minimise(others[still], cost))

    def mode(
        self,
        origin: Others,
        best: Callable[[Others], Any],
        cost: Callable[[Others], Any],
        max_steps: int,
    ) -> Others:
        """The most probable values, by Gauss and Newton's steps in what moves marches, damped
        (Levenberg and Marquardt); each time, what does not is at its `best`."""
        others = jnp.asarray(best(origin))
        here, damping = CostTerms(*cost(others)), 0.0
        for _ in range(max_steps):
            if not len(self.moving) or np.linalg.norm(here.gradient) < FLAT:
                break
            matrix = here.information + damping * np.diag(np.diag(here.information))
            step = -np.linalg.solve(matrix, here.gradient[self.moving])
            step *= min(1.0, LONGEST / float(np.linalg.norm(step)))
            trial = jnp.asarray(best(others.at[self.moving].add(step)))
            there = CostTerms(*cost(trial))
            gain = float(here.value - there.value)
            # Steps that gain less than half of what they promise are too long.
            promised = -0.5 * float(here.gradient[self.moving] @ step)
            damping = damping / 10 if gain > promised / 2 else max(4 * damping, 1.0)
            if gain > 0:
                others, here = trial, there
            if abs(gain) < LEAST_GAIN:
                break
        return others

    def curvature(
        self, cost: Callable[[Others], Any], mode: Others
    ) -> Float[np.ndarray, "other other"]:
        """Of the cost: by differences of slopes, but for what takes marches by what data tell."""
        here, count = CostTerms(*cost(mode)), len(mode)
        matrix = np.zeros((count, count))
        still = np.setdiff1d(np.arange(count), self.moving)
        for number in still:
            ahead = self.cost(mode.at[number].add(DIFFERENCE)).gradient
            matrix[number] = (ahead - here.gradient) / DIFFERENCE
        matrix[np.ix_(self.moving, still)] = matrix[np.ix_(still, self.moving)].T
        matrix[np.ix_(self.moving, self.moving)] = here.information
        return (matrix + matrix.T) / 2

    def system(self, others: Float[np.ndarray, " other"]) -> AbstractDataSystem:
        given = jnp.asarray(others)
        return system_given(self.density, given, self.data(given)).on_host()


def time_stepping_model(density: MarginalDensity) -> TimeSteppingModel | None:
    """None where there is no march, or where derivatives through it are quicker."""
    moves = read_by_state(density.problem, or_shifts=True)[np.asarray(density.parts.others)]
    (moving,) = np.nonzero(moves)
    if not isinstance(density.at, TimePoints) or not len(moves) or len(moving) > MOST_MOVING:
        return None
    return TimeSteppingModel(density, moving)


responses_at = eqx.filter_jit(MarginalDensity.data)


@eqx.filter_jit
def cost_and_gradients(
    others: Others, data: DataMap, density: MarginalDensity
) -> tuple[Float[Array, ""], tuple[Others, DataMap]]:
    def cost(others: Others, data: DataMap) -> Float[Array, ""]:
        likelihood = density.system_of(others, data).log_likelihood()
        return -density.problem.latents.log_prior(others) - likelihood

    return jax.value_and_grad(cost, argnums=(0, 1))(others, data)


@eqx.filter_jit
def hyper_information(
    density: MarginalDensity, others: Others, data: DataMap, changes: DataMap
) -> Float[Array, "moving moving"]:
    """What data tell of unknowns by which their responses change so, linear ones at their means."""
    system = density.system_of(others, data)
    mean = system.mean
    columns = jax.vmap(lambda own: own.offset + own.responses @ mean)(changes)
    return system.information(density.noise(others).white(columns.T))


system_given = eqx.filter_jit(MarginalDensity.system_of)

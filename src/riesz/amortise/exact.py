"""What exact solves say of draws for many data sets: predictions, log-densities, and surprise."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.amortise.importance import Proposals, WeightedDraws, log_normal
from riesz.amortise.parts import map_data_sets, num_at_once
from riesz.amortise.simulate import SensorData
from riesz.arrays import on_device
from riesz.devices import Devices
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Dense, SparseLU
from riesz.posterior.posterior import ExactStates
from riesz.problem.problem import InverseProblem

NUM_EXACT = 16
"""Exact solves for each data set."""

MOST_TOGETHER = 64
"""Data sets whose draws are looked at together, where nothing is solved for."""

NUM_REPLICAS = 32
"""Data sets that a draw would give, beside which the true one is looked at."""


class ExactSolves(NamedTuple):
    """Who solves exactly, and for how many draws of a data set."""

    problem: InverseProblem
    devices: Devices | None
    num_draws: int = NUM_EXACT


class ExactPredictions(NamedTuple):
    """Draws of each data set, and what the sensors see of their exact states."""

    observed: SensorData
    places: Float[np.ndarray, "data some coordinate"]
    predicted: Float[np.ndarray, "data some sensor"]


def predictions_of_draws(
    exact: ExactSolves,
    observed: SensorData,
    own: Proposals | WeightedDraws,
    chosen: Int[np.ndarray, "data some"],
) -> ExactPredictions:
    places = np.take_along_axis(own.draws, chosen[:, :, None], axis=1)
    predicted = exact_predictions(exact.problem, places.reshape(-1, places.shape[2]), exact.devices)
    return ExactPredictions(observed, places, predicted.reshape(*places.shape[:2], -1))


def exact_log_weights(
    exact: ExactSolves,
    predictions: ExactPredictions,
    own: Proposals | WeightedDraws,
    chosen: Int[np.ndarray, "data some"],
) -> Float[np.ndarray, "data some"]:
    """Of the exact posterior over the density of the proposals."""
    width = num_at_once(predictions.predicted[0].size, MOST_TOGETHER)
    fits = map_data_sets(exact_fits, exact.problem, predictions, width=width, devices=exact.devices)
    return (
        fits
        + log_normal(predictions.places)
        - np.take_along_axis(own.log_proposals, chosen, axis=1)
    )


def exact_fits(problem: InverseProblem, row: tuple) -> Float[Array, " draw"]:
    observed, places, predictions = row

    def one(place, predicted):
        return observed.log_prob(problem.likelihood, predicted, problem.z(place))

    return jax.vmap(one)(places, predictions)


def surprises(problem: InverseProblem, row: tuple) -> Float[Array, " draw"]:
    """How far the log-density of the data lies below that of what each draw would have given."""
    observed, places, predictions = row
    keys = jr.split(jr.key(0), NUM_REPLICAS)  # the same for all, so that they can be compared

    def one(place, predicted):
        z, likelihood = problem.z(place), observed.likelihood(problem.likelihood)

        def fit(values):
            other = eqx.tree_at(lambda own: own.values, observed, values)
            return other.log_prob(problem.likelihood, predicted, z)

        usual = jax.vmap(lambda key: fit(likelihood.sample(key, predicted, z)))(keys)
        return (jnp.mean(usual) - fit(observed.values)) / jnp.std(usual)

    return jax.vmap(one)(places, predictions)


def exact_predictions(
    problem: InverseProblem, places: Float[np.ndarray, "draw coordinate"], devices: Devices | None
) -> Float[np.ndarray, "draw sensor"]:
    """What the sensors see of exact states, NaN where there is none.

    A processor factorises matrices outside of programs, an accelerator has solvers of its own.
    """
    solver, size = problem.default_solver(), problem.forward.num_free
    if isinstance(solver, SparseLU) and problem.linear is not None:
        states = ExactStates(solver).in_parts(problem, on_device(places))
        return np.asarray(problem.operator.to_scipy() @ states.T).T
    width = num_at_once(size**2 if isinstance(solver, Dense) else 64 * size)
    return map_data_sets(predict_exactly, (problem, solver), places, width=width, devices=devices)


def predict_exactly(
    shared: tuple[InverseProblem, AbstractLinearSolver], place: Float[Array, " coordinate"]
) -> Float[Array, " sensor"]:
    problem, solver = shared
    return problem.predict(problem.solve(place, solver), problem.z(place))

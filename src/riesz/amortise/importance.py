r"""A posterior for each of many data sets, and whether exact solves vouch for it.

A Gaussian is fitted with a model that no mesh makes slow. Many draws of it, made a little wider,
are weighed by the posterior of that model: their moments are the answer, skewed posteriors
included. Where they are worth little, a Gaussian with their moments is weighed again, by more of
them. Then the equation is solved exactly for a few draws by their weights. By the scatter of the
ratio $r$ of both likelihoods, no mean of the exact posterior is farther off than
$\mathrm{sd}(r) / \mathrm{mean}(r)$ of its standard deviations; where that is too much, draws are
weighed by exact solves instead. Values of the unknowns all over the prior tell whether there is
another explanation far from the Gaussian.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats
from jaxtyping import Array, Bool, Float, Int, PyTree

from riesz.amortise.gaussians import GaussianSearch, fit_by_newton, gaussian_search, hessian_numbers
from riesz.amortise.simulate import SensorData, Simulator
from riesz.arrays import on_device
from riesz.devices import Devices, map_data_sets, num_at_once
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Dense, SparseLU
from riesz.posterior.checks import K_HAT
from riesz.posterior.family import Draws, FullRank, standard_log_density
from riesz.posterior.importance import smoothed_weights, systematic_resample
from riesz.posterior.posterior import ExactStates
from riesz.posterior.sobol import resampling_order, spread_normals
from riesz.problem.problem import Coordinates, InverseProblem

NUM_DRAWS, MANY_DRAWS = 512, 4096
"""Of a Gaussian, and where the first were worth little."""

WIDENED = 0.3
"""Proposals are wider by this over the root of the unknowns: tails are seen, and cost little."""

CHANCE = 0.05
"""Standard deviations by which chance may move the worst mean of an answer: a Monte-Carlo error."""

NUM_PRIOR_DRAWS = 2048
FAR, NEARLY = 1e-6, 8.0
"""What is outside an ellipsoid that a Gaussian leaves with this probability is far, and another
explanation if its log-density comes so near to that at the mean."""


class BatchProblem(eqx.Module):
    """What all data sets have in common."""

    search: GaussianSearch
    places: Float[Array, "place coordinate"]  # unknowns all over the prior
    predicted: Float[Array, "place sensor"]  # what sensors would see of them
    far: Float[Array, ""]  # squared length of an offset
    together: int = eqx.field(static=True)  # draws whose densities a device works on at once

    @property
    def simulator(self) -> Simulator:
        return self.search.simulator

    @property
    def problem(self) -> InverseProblem:
        return self.simulator.problem

    def map(
        self, program: Callable[["BatchProblem", Any], PyTree], rows: Any, devices: Devices | None
    ) -> Any:
        """A program for each data set, as many side by side as a device has room for."""
        return map_data_sets(program, self, rows, width=self.search.width, devices=devices)


class FittedGaussian(eqx.Module):
    """By the model, for one data set or with a leading axis."""

    mean: Float[Array | np.ndarray, "*data coordinate"]
    factor: Float[Array | np.ndarray, "*data coordinate coordinate"]
    log_remote_evidence: Float[Array | np.ndarray, "*data"]  # of what is far away
    has_rival: Bool[Array | np.ndarray, "*data"]  # whether a place there is nearly as likely


def batch_problem(simulator: Simulator, seed: int) -> BatchProblem:
    """From sizes and a seed alone."""
    size, search = simulator.problem.num_coordinates, gaussian_search(simulator, seed)
    places = on_device(spread_normals(seed + 1, NUM_PRIOR_DRAWS, size))
    far = on_device(np.asarray(scipy.stats.chi2.isf(FAR, size)))
    together = num_at_once(search.width * hessian_numbers(simulator), NUM_DRAWS)
    return BatchProblem(search, places, predictions(simulator, places), far, together)


@eqx.filter_jit
def predictions(simulator: Simulator, places: Draws) -> Float[Array, "draw sensor"]:
    return jax.lax.map(simulator.predict, places, batch_size=64)


def fit_data_set(asked: BatchProblem, observed: SensorData) -> FittedGaussian:
    """Sought from the best of the values all over the prior."""
    _, logs = prior_log_densities(asked, observed)
    result = fit_by_newton(asked.search, observed, asked.places[jnp.argmax(logs)])
    return with_remote_evidence(asked, observed, result)


def prior_log_densities(
    asked: BatchProblem, observed: SensorData
) -> tuple[Float[Array, " draw"], Float[Array, " draw"]]:
    """The log-likelihood and the log-posterior of the values all over the prior."""
    fits = exact_fits(asked.problem, (observed, asked.places, asked.predicted))
    return fits, fits + standard_log_density(asked.places)


def with_remote_evidence(
    asked: BatchProblem, observed: SensorData, family: FullRank
) -> FittedGaussian:
    """A Gaussian, and what the model says of places far from it."""
    mean, factor = family.mean, family.factor()
    fits, logs = prior_log_densities(asked, observed)
    offsets = jax.scipy.linalg.solve_triangular(factor, (asked.places - mean[None]).T, lower=True)
    is_far = jnp.sum(offsets**2, axis=0) > asked.far
    at_mean = asked.simulator.log_likelihood(observed, mean) + standard_log_density(mean)
    beyond = jax.nn.logsumexp(jnp.where(is_far, fits, -jnp.inf)) - jnp.log(float(len(fits)))
    has_rival = jnp.max(jnp.where(is_far, logs, -jnp.inf)) > at_mean - NEARLY
    return FittedGaussian(mean, factor, beyond, has_rival)


def model_log_densities(
    asked: BatchProblem, row: tuple[SensorData, Draws]
) -> Float[Array, " draw"]:
    """Of the model's posterior, but for its evidence."""
    observed, draws = row

    def one(place: Coordinates) -> Float[Array, ""]:
        return asked.simulator.log_likelihood(observed, place) + standard_log_density(place)

    return jax.lax.map(one, draws, batch_size=min(asked.together, len(draws)))


class Proposals(NamedTuple):
    """Draws of Gaussians that were made wider, and the density they are from."""

    draws: Float[np.ndarray, "data draw coordinate"]
    log_density: Float[np.ndarray, "data draw"]
    centre: Float[np.ndarray, "data coordinate"]  # their mean, but for chance


class WeightedDraws(NamedTuple):
    """Draws with their weights, and what these tell, for each data set."""

    log_target: Float[np.ndarray, "data draw"]  # what they are weighed by
    proposals: Proposals
    weights: Float[np.ndarray, "data draw"]
    k_hat: Float[np.ndarray, " data"]

    @property
    def draws(self) -> Float[np.ndarray, "data draw coordinate"]:
        return self.proposals.draws

    @property
    def effective_draws(self) -> Float[np.ndarray, " data"]:
        return 1 / np.sum(self.weights**2, axis=1)

    @property
    def mean(self) -> Float[np.ndarray, "data coordinate"]:
        """That of the proposals, moved by as much as weights move that of their draws."""
        return self.proposals.centre + self.weighted_mean - self.draws.mean(axis=1)

    @property
    def weighted_mean(self) -> Float[np.ndarray, "data coordinate"]:
        return np.einsum("ndc,nd->nc", self.draws, self.weights)

    @property
    def covariance(self) -> Float[np.ndarray, "data coordinate coordinate"]:
        offsets = self.draws - self.weighted_mean[:, None]
        return np.einsum("ndi,nd,ndj->nij", offsets, self.weights, offsets, optimize=True)

    def by_chance(self) -> Float[np.ndarray, " data"]:
        """The Monte-Carlo error of the worst mean, in standard deviations."""
        plain = (self.draws - self.draws.mean(axis=1, keepdims=True)) / self.draws.shape[1]
        own = self.weights[:, :, None] * (self.draws - self.weighted_mean[:, None])
        sd = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.max(np.linalg.norm(own - plain, axis=1) / sd, axis=1)

    def resample(self, count: int) -> Int[np.ndarray, "data count"]:
        """Numbers of so many draws of each data set, as often as their weights say."""
        order = resampling_order(*self.draws.shape[1:])
        return np.stack([systematic_resample(row, count, order=order) for row in self.weights])

    def weak(self) -> Int[np.ndarray, " some"]:
        """Data sets of which more draws would tell more; not those without any density."""
        is_good = (self.k_hat <= K_HAT.good) & (self.by_chance() <= CHANCE)
        return np.flatnonzero(~is_good & np.isfinite(self.k_hat))

    def is_fair(self) -> Bool[np.ndarray, " data"]:
        """Whether weighed draws may stand for the posterior of what they were weighed by."""
        return (self.k_hat <= K_HAT.bad) & (self.by_chance() <= CHANCE)


def propose(
    mean: Float[np.ndarray, "data coordinate"],
    factor: Float[np.ndarray, "data coordinate coordinate"],
    normals: Float[np.ndarray, "draw coordinate"],
) -> Proposals:
    wider = 1 + WIDENED / mean.shape[1] ** 0.5
    draws = mean[:, None] + wider * np.einsum("dj,nij->ndi", normals, factor)
    volumes = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2) * wider), axis=1)
    return Proposals(draws, standard_log_density(normals)[None] - volumes[:, None], mean)


def weighted_draws(target: Float[np.ndarray, "data draw"], drawn: Proposals) -> WeightedDraws:
    """Impossible draws count for nothing; where all are, nothing is known of the tail."""
    target = np.where(np.isnan(target), -np.inf, target)
    logs = target - drawn.log_density
    weights, shapes = np.full(logs.shape, 1 / logs.shape[1]), np.full(len(logs), np.inf)
    for row in np.flatnonzero(np.isfinite(logs).any(axis=1)):
        result = smoothed_weights(logs[row])
        weights[row], shapes[row] = result.weights, result.k_hat
    return WeightedDraws(target, drawn, weights, shapes)


NUM_EXACT = 16
"""Exact solves for each data set."""

MOST_TOGETHER = 64
"""Data sets whose draws are looked at together, where nothing is solved for."""

NUM_REPLICAS = 32
"""Data sets that a draw would give, beside which the true one is looked at."""


class BatchWork(NamedTuple):
    """How answers are looked at: by whom, and how closely."""

    asked: BatchProblem
    seed: int
    devices: Devices | None = None
    num_draws: int = NUM_DRAWS  # that are weighed for each data set
    num_exact: int = NUM_EXACT  # solves
    num_kept: int = 1  # draws of each posterior

    def weigh(self, observed: SensorData, answers: FittedGaussian) -> WeightedDraws:
        """Draws of Gaussians, weighed by the model."""
        normals = spread_normals(self.seed + 2, self.num_draws, answers.mean.shape[1])
        drawn = propose(np.asarray(answers.mean), np.asarray(answers.factor), normals)
        return weighted_draws(self.by_model(observed, drawn.draws), drawn)

    def by_model(
        self, observed: SensorData, draws: Float[np.ndarray, "data draw coordinate"]
    ) -> Float[np.ndarray, "data draw"]:
        """The log-density of draws for each data set."""
        return self.asked.map(model_log_densities, (observed, draws), self.devices)

    def exactly(
        self, observed: SensorData, draws: Float[np.ndarray, "data draw coordinate"]
    ) -> Float[np.ndarray, "data draw"]:
        """The same by exact solves."""
        return exact_log_densities(self, predictions_at(self, observed, draws))


class ExactPredictions(NamedTuple):
    """Draws of each data set, and what the sensors see of their exact states."""

    observed: SensorData
    places: Float[np.ndarray, "data some coordinate"]
    predicted: Float[np.ndarray, "data some sensor"]


def predictions_at(
    work: BatchWork, observed: SensorData, places: Float[np.ndarray, "data some coordinate"]
) -> ExactPredictions:
    problem = work.asked.problem
    predicted = exact_predictions(problem, places.reshape(-1, places.shape[2]), work.devices)
    return ExactPredictions(observed, places, predicted.reshape(*places.shape[:2], -1))


def exact_log_densities(
    work: BatchWork, predictions: ExactPredictions
) -> Float[np.ndarray, "data some"]:
    """Of the exact posterior, but for its evidence."""
    width = num_at_once(predictions.predicted[0].size, MOST_TOGETHER)
    rows = work.asked.problem, predictions
    fits = map_data_sets(exact_fits, *rows, width=width, devices=work.devices)
    return fits + standard_log_density(predictions.places)


def exact_fits(problem: InverseProblem, row: tuple) -> Float[Array, " draw"]:
    """The log-likelihood of a data set at places, by what sensors see of these."""
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

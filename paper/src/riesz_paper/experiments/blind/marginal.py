"""Moments where most unknowns enter linearly and noise is normal: these are integrated by formula.

Given the few others, readings are affine in the rest: solves for each of them by itself give the
conditional normal distribution and the evidence, on the host and without any code of an engine.
Over the others a grid is summed, or weighed draws where there are several.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import logsumexp

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.observe.likelihood import Gaussian
from riesz.problem.linearity import linear_parts
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.problem import NOISE_NAME, BlindProblem
from riesz_paper.experiments.blind.solved import Rows, seen
from riesz_paper.experiments.blind.weighed import Part, Weighed, drawn, log_mixture

MOST_OTHERS = 4
WIDE, POINTS, ROUNDS, FEWEST_POINTS, DEPTH = 6.0, 41, 5, 8.0, 12.0
FIRST, MOST, ENOUGH = 256, 2048, 400.0
NUM_STARTS, SEARCH_STEPS, STEP = 3, 120, 0.02


def known_sd(problem: InverseProblem) -> Float[np.ndarray, " sensor"] | None:
    """Of normal noise, of which no unknown has a part."""
    noise = problem.likelihood
    if not isinstance(noise, Gaussian) or isinstance(noise.sd, str) or callable(noise.sd):
        return None
    return np.broadcast_to(np.asarray(noise.sd), problem.observed.shape)


class Given(NamedTuple):
    """For each value of the others: the log of evidence times prior, and moments of the rest."""

    log_density: Float[np.ndarray, " value"]
    mean: Float[np.ndarray, "value linear"]
    variance: Float[np.ndarray, "value linear"]


class Conditioned:
    """A problem by its others."""

    def __init__(self, blind: BlindProblem):
        self.blind, problem = blind, blind.problem
        parts = linear_parts(problem)
        self.linear, self.others = np.asarray(parts.linear), np.asarray(parts.others)

    def rows(self, others: Float[np.ndarray, "value other"]) -> Rows:
        """The linear ones at zero, then each at one by itself, for each value of the others."""
        count, size = len(self.linear), len(self.linear) + len(self.others)
        found = np.zeros((len(others), count + 1, size))
        found[:, :, self.others] = others[:, None, :]
        found[:, np.arange(1, count + 1), self.linear] = 1.0
        return found.reshape(-1, size)

    def noise_sd(self, others: Float[np.ndarray, " other"]) -> Float[np.ndarray, " sensor"]:
        sd = known_sd(self.blind.problem)
        if sd is not None:
            return sd
        whole = np.zeros(self.blind.problem.num_coordinates)
        whole[self.others] = others
        learnt = float(self.blind.problem.z(on_device(whole))[NOISE_NAME])
        return np.full(len(self.blind.problem.observed), learnt)

    def given(self, others: Float[np.ndarray, "value other"]) -> Given:
        problem, count = self.blind.problem, len(self.linear)
        read = seen(problem, self.blind.probes, self.rows(others)).sensors
        read = read.reshape(len(others), count + 1, -1)
        observed, found = np.asarray(problem.observed), []
        for own, sensors in zip(others, read, strict=True):
            sd = self.noise_sd(own)
            slopes, off = ((sensors[1:] - sensors[0]) / sd).T, (observed - sensors[0]) / sd
            if not np.isfinite(slopes).all():
                found.append((-np.inf, np.zeros(count), np.ones(count)))
                continue
            precision = np.eye(count) + slopes.T @ slopes
            mean = np.linalg.solve(precision, slopes.T @ off)
            told = -0.5 * (off @ (off - slopes @ mean) + np.linalg.slogdet(precision)[1])
            told -= np.log(sd).sum() + 0.5 * own @ own
            found.append((told, mean, np.diag(np.linalg.inv(precision))))
        logs, means, variances = zip(*found, strict=True)
        return Given(np.array(logs), np.array(means), np.array(variances))

    def together(self, others: Rows, given: Given, log_weights: np.ndarray) -> Weighed:
        """Moments of all coordinates, and what the values of the others are worth for each."""
        weights = np.exp(log_weights - logsumexp(log_weights))
        size = len(self.linear) + len(self.others)
        centre, inner = np.zeros((len(others), size)), np.zeros((len(others), size))
        centre[:, self.others], centre[:, self.linear] = others, given.mean
        inner[:, self.linear] = given.variance
        mean = weights @ centre
        away = (centre - mean) ** 2
        variance = weights @ (away + inner)
        error = np.maximum(weights**2 @ away, 1e-30)
        return Weighed(mean, np.sqrt(variance), variance / error, np.full(size, 3.0))


def marginal(blind: BlindProblem) -> Weighed | None:
    """Nothing where there is nothing to integrate out, or too much beside it."""
    if not isinstance(blind.problem.likelihood, Gaussian):
        return None
    try:
        model = Conditioned(blind)
    except RieszError:
        return None
    if not 0 < len(model.others) <= MOST_OTHERS:
        return None
    return over_grid(model) if len(model.others) == 1 else over_draws(model)


def over_grid(model: Conditioned) -> Weighed | None:
    low, high, found = -WIDE, WIDE, None
    for _ in range(ROUNDS):
        others = np.linspace(low, high, POINTS)[:, None]
        given = model.given(others)
        logs = given.log_density
        weights = np.exp(logs - logs.max())
        if weights.sum() ** 2 / np.sum(weights**2) >= FEWEST_POINTS:
            exact = model.together(others, given, logs)
            found = exact._replace(effective=np.full(len(exact.mean), np.inf))
        kept, step = others[logs > logs.max() - DEPTH, 0], (high - low) / (POINTS - 1)
        width, low, high = high - low, kept.min() - step, kept.max() + step
        if found is not None and high - low > 0.7 * width:
            break
    return found


def over_draws(model: Conditioned) -> Weighed | None:
    """Draws about the most likely values of the others, weighed by evidence and prior."""
    size = len(model.others)
    rng = np.random.default_rng([model.blind.seed, model.blind.number, 3])

    def cost(own: Float[np.ndarray, " other"]) -> float:
        return -float(model.given(own[None]).log_density[0])

    starts = [np.zeros(size), *rng.standard_normal((NUM_STARTS - 1, size))]
    ends = [
        minimize(cost, one, method="Nelder-Mead", options={"maxfev": SEARCH_STEPS})
        for one in starts
    ]
    best = min(ends, key=lambda end: end.fun).x
    part = Part(best, spread(model, best))
    others, logs, given = np.zeros((0, size)), np.zeros(0), None
    while len(others) < MOST:
        new = drawn([part], FIRST if given is None else len(others), rng)
        more = model.given(new)
        others = np.concatenate([others, new])
        logs = np.concatenate([logs, more.log_density - log_mixture([part], new)])
        given = (
            more if given is None else Given(*map(np.concatenate, zip(given, more, strict=True)))
        )
        weights = np.exp(logs - logs.max())
        if weights.sum() ** 2 / np.sum(weights**2) >= ENOUGH:
            return model.together(others, given, logs)
    return None


def spread(model: Conditioned, place: Float[np.ndarray, " other"]) -> Float[np.ndarray, "one two"]:
    """The inverse curvature of the marginal log-density, by second differences."""
    size = len(place)
    units = STEP * np.eye(size)
    corners = [
        (i, j, a, b) for i in range(size) for j in range(size) for a in (1, -1) for b in (1, -1)
    ]
    rows = np.stack([place + a * units[i] + b * units[j] for i, j, a, b in corners])
    told = model.given(rows).log_density
    bend = np.zeros((size, size))
    for (i, j, a, b), value in zip(corners, told, strict=True):
        bend[i, j] -= a * b * value / (4 * STEP**2)
    if not np.isfinite(bend).all():  # a step away there is no solution: as wide as the prior
        return np.eye(size)
    values, axes = np.linalg.eigh((bend + bend.T) / 2)
    return (axes / np.maximum(values, 0.25)) @ axes.T

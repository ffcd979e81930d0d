"""The posterior by other means than the engine that answered: closed form, sums, chains.

Where the readings are affine in the unknowns and noise is normal, the moments are a formula; where
they are affine in all but a few, these few are summed over and the rest is one. Up to two unknowns
are summed over a grid, which is narrowed until it holds the posterior; up to ten by draws of
wide-tailed mixtures that exact solves weigh, where the weights are even. All others are sampled by
NumPyro's No-U-Turn sampler on the exact log-density, chains starting apart from where searches from
draws of the prior end, until they agree; a time is set, after which the reference says that it has
not settled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from riesz.arrays import on_device
from riesz.density.exact import ExactDensity
from riesz.method.mcmc.nuts import BLOCK, NutsSettings, kernels
from riesz.posterior.chains import agreement
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.marginal import known_sd, marginal
from riesz_paper.experiments.blind.problem import BlindProblem
from riesz_paper.experiments.blind.solved import Rows, seen, value_and_slope
from riesz_paper.experiments.blind.weighed import spread_or_prior, weighed

Place = Float[np.ndarray, " coordinate"]

CLOSED, QUADRATURE, WEIGHED = "closed form", "quadrature", "weighed draws"
PARTS = "formula and sum"
CHAINS, UNSETTLED = "chains", "unsettled"

SECONDS = 120.0
"""Of a processor that chains may take, after compilation."""

NUM_CHAINS, NUM_WARMUP, FEWEST_DRAWS, MOST_DRAWS = 4, 200, 250, 3000
ENOUGH, ENOUGH_IN_TAILS, AGREED = 400.0, 250.0, 1.02
NUM_SEARCHES, SEARCH_STEPS = 6, 60
NEWTON_STEPS, DECREMENT, SHARES = 12, 1e-3, (1.0, 0.3, 0.05)
NOWHERE = 1e12
NEGLIGIBLE = 15.0
"""A peak whose log-density is lower by more than this, and by half of it for each ten unknowns, is
left out."""

MOST_FOR_QUADRATURE, MOST_FOR_WEIGHTS = 2, 10
WIDE, POINTS, ROUNDS = 8.0, {1: 401, 2: 71}, 6
"""Half the width of the first grid by sds as the curvature has them, and points along an axis."""

SAME = 0.03
"""Of an sd, by which a grid and every second of its points may differ."""

TIGHT = 0.7
"""A grid is not narrowed any more where that leaves more of it than this."""

DEPTH = 14.0
"""Of the log-density below its peak, beyond which there is nothing to sum."""

AFFINE = 1e-6
SMALLEST_STEP, LEAST_SPREAD = 1e-9, 1e-8


@dataclass(frozen=True)
class Reference:
    """Moments of all coordinates; how many independent draws they are worth, if by draws."""

    kind: str
    mean: Float[np.ndarray, " coordinate"]
    sd: Float[np.ndarray, " coordinate"]
    effective: Float[np.ndarray, " coordinate"] | None = None
    tails: Float[np.ndarray, " coordinate"] | None = None  # kurtosis, 3 where normal
    r_hat: float | None = None
    seconds: float = 0.0


def reference_of(
    blind: BlindProblem, covariance: Float[np.ndarray, "one other"], seconds: float
) -> Reference:
    """By the first way that is open; `covariance` shapes the steps of chains, and nothing else."""
    clock = perf_counter()
    found = closed_form(blind)
    if found is None:
        found = by_parts(blind)
    if found is None:
        ends = searched(blind.problem, blind.number)
        size = blind.problem.num_coordinates
        found = quadrature(blind, ends) if size <= MOST_FOR_QUADRATURE else None
        if found is None and size <= MOST_FOR_WEIGHTS:
            found = by_weights(blind, ends)
        if found is None:
            found = chains(blind, ends, covariance, seconds)
    return Reference(
        found.kind,
        found.mean,
        found.sd,
        found.effective,
        found.tails,
        found.r_hat,
        perf_counter() - clock,
    )


def closed_form(blind: BlindProblem) -> Reference | None:
    """Of a linear model with normal noise of a known sd; nothing where readings are not affine."""
    problem, size = blind.problem, blind.problem.num_coordinates
    sd = known_sd(problem)
    if sd is None:
        return None
    # The middle, each unknown by itself, and all of them at once, which tells of products.
    rows = np.vstack([np.zeros(size), np.eye(size), np.linspace(-2, 2, size)[None], np.ones(size)])
    read = seen(problem, blind.probes, rows).sensors
    slopes = (read[1 : size + 1] - read[0]).T
    told = read[0] + rows[size + 1 :] @ slopes.T
    if not np.allclose(read[size + 1 :], told, rtol=0, atol=AFFINE * np.abs(read).max()):
        return None
    white = slopes / sd[:, None]
    covariance = np.linalg.inv(np.eye(size) + white.T @ white)
    mean = covariance @ (white.T @ ((np.asarray(problem.observed) - read[0]) / sd))
    return Reference(CLOSED, mean, np.sqrt(np.diag(covariance)))


def by_parts(blind: BlindProblem) -> Reference | None:
    found = marginal(blind)
    if found is None:
        return None
    return Reference(PARTS, found.mean, found.sd, found.effective, found.kurtosis)


def by_weights(blind: BlindProblem, ends: Sequence[Place]) -> Reference | None:
    found = weighed(blind.problem, blind.probes, list(ends), [blind.seed, blind.number, 2])
    if found is None:
        return None
    return Reference(WEIGHED, found.mean, found.sd, found.effective, found.kurtosis)


def quadrature(blind: BlindProblem, ends: Sequence[Place]) -> Reference | None:
    """By a grid, narrowed or widened to where the posterior is; nothing where none is fine enough.

    Its axes are those of the curvature at the best end, as a narrow ridge slips through others.
    Every second point must tell the same.
    """
    problem, size = blind.problem, blind.problem.num_coordinates
    factor = np.linalg.cholesky(spread_or_prior(problem, ends[0]))
    peaks = np.linalg.solve(factor, (np.array(ends) - ends[0]).T).T
    low, high = peaks.min(axis=0) - WIDE, peaks.max(axis=0) + WIDE
    for _ in range(ROUNDS):
        axes = [np.linspace(low[i], high[i], POINTS[size]) for i in range(size)]
        grid = np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)
        rows = ends[0] + grid @ factor.T
        told = seen(problem, blind.probes, rows).log_density
        kept = np.concatenate([grid[told > told.max() - DEPTH], peaks])
        step, width = (high - low) / (POINTS[size] - 1), high - low
        outside = (kept.min(axis=0) <= low) | (kept.max(axis=0) >= high)
        low = np.where(outside, low - width / 3, kept.min(axis=0) - step)
        high = np.where(outside, high + width / 3, kept.max(axis=0) + step)
        if not outside.any() and np.all(high - low > TIGHT * width):
            break
    else:
        return None
    halves = np.stack(np.meshgrid(*[np.arange(POINTS[size]) % 2 == 0] * size)).all(axis=0).ravel()
    fine, rough = summed(rows, told), summed(rows[halves], told[halves])
    same = np.abs(fine.mean - rough.mean) < SAME * fine.sd
    alike = np.abs(np.log(rough.sd / fine.sd)) < SAME
    return fine if (same & alike).all() else None


def summed(rows: Rows, told: Float[np.ndarray, " row"]) -> Reference:
    weights = np.exp(told - told.max())
    weights /= weights.sum()
    mean = weights @ rows
    return Reference(QUADRATURE, mean, np.sqrt(weights @ (rows - mean) ** 2))


def searched(problem: InverseProblem, seed: int) -> list[Place]:
    """Where searches from the middle and from draws of the prior end, as far as that matters.

    The first is polished by Newton's steps; in the coordinates that its curvature makes round, the
    others are short.
    """
    size = problem.num_coordinates

    def cost(place: Place) -> tuple[float, Place]:
        value, slope = value_and_slope(problem, problem.default_solver(), on_device(place))
        if not np.isfinite(float(value)):
            return NOWHERE, np.zeros(size)
        return -float(value), -np.asarray(slope)

    first, best = polished(problem, cost, *ended(cost, np.zeros(size)))
    factor = np.linalg.cholesky(spread_or_prior(problem, first))

    def rounded(offset: Place) -> tuple[float, Place]:
        value, slope = cost(first + factor @ offset)
        return value, factor.T @ slope

    half = np.random.default_rng(seed).standard_normal((NUM_SEARCHES // 2, size))
    found = [(first, best)]
    for start in (*half, *-half):
        offset, value = ended(rounded, np.linalg.solve(factor, start - first))
        found.append((first + factor @ offset, value))
    found.sort(key=lambda one: one[1])
    limit = found[0][1] + NEGLIGIBLE * (1 + size / 20)
    return [place for place, value in found if value < limit]


def ended(cost: Callable[[Place], tuple[float, Place]], start: Place) -> tuple[Place, float]:
    end = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": SEARCH_STEPS})
    return end.x, float(end.fun)


def polished(
    problem: InverseProblem,
    cost: Callable[[Place], tuple[float, Place]],
    place: Place,
    value: float,
) -> tuple[Place, float]:
    """By Newton's steps, halved where they would go up."""
    for _ in range(NEWTON_STEPS):
        _, slope = cost(place)
        step = -spread_or_prior(problem, place) @ slope
        if -step @ slope < DECREMENT:
            break
        tried = [(place + share * step, cost(place + share * step)[0]) for share in SHARES]
        lower = min(tried, key=lambda one: one[1])
        if lower[1] >= value:
            break
        place, value = lower
    return place, value


def chains(
    blind: BlindProblem,
    ends: Sequence[Place],
    covariance: Float[np.ndarray, "one other"],
    seconds: float,
) -> Reference:
    """NumPyro's sampler from about the ends of searches, until chains agree."""
    problem = blind.problem
    size, solver = problem.num_coordinates, problem.default_solver()
    rng = np.random.default_rng([blind.seed, blind.number, 1])
    # Any shape of the steps gives the same draws in the end, and a good one sooner.
    shape = covariance + LEAST_SPREAD * np.eye(size)
    factor = np.linalg.cholesky(shape)
    order = rng.permutation(len(ends))
    starts = [
        ends[order[i % len(ends)]] + factor @ rng.standard_normal(size) for i in range(NUM_CHAINS)
    ]
    settings = NutsSettings(NUM_WARMUP, 0.85, dense_mass=True, max_tree_depth=8, adapt_mass=False)
    begin, advance = kernels(settings)
    density, mass = ExactDensity(problem, solver), jnp.asarray(shape)
    keys = jr.split(jr.key(blind.number), NUM_CHAINS)
    states = []
    for key, start, end in zip(keys, starts, list(ends) * NUM_CHAINS, strict=False):
        state = begin(density, mass, (key, on_device(start)))
        if not np.isfinite(float(state.potential_energy)):
            state = begin(density, mass, (key, on_device(end)))
        states.append(state)
    rows: list[list[Rows]] = [[] for _ in states]
    clock, done = process_time(), 0
    while done < NUM_WARMUP + MOST_DRAWS:
        for i, state in enumerate(states):
            states[i], kept = advance(density, (state, jnp.asarray(BLOCK)))
            rows[i].append(np.asarray(kept.coordinates))
        done += BLOCK
        num_draws = done - NUM_WARMUP
        if num_draws >= FEWEST_DRAWS:
            found = settled(rows, num_draws)
            if found.kind == CHAINS:
                return found
        if process_time() - clock > seconds:
            break
    return settled(rows, max(done - NUM_WARMUP, 4))


def settled(rows: list[list[Rows]], num_draws: int) -> Reference:
    """What the last draws say, and whether chains agree."""
    draws = np.stack([np.concatenate(own)[-num_draws:] for own in rows])
    found, flat = agreement(draws), draws.reshape(-1, draws.shape[-1])
    mean, sd = flat.mean(axis=0), flat.std(axis=0)
    worst = float(np.nan_to_num(np.max(found.r_hat), nan=99.0))
    effective = np.nan_to_num(found.effective_draws, nan=1.0)
    in_tails = np.nan_to_num(found.tail_draws, nan=1.0)
    kurtosis = np.mean(((flat - mean) / np.maximum(sd, SMALLEST_STEP)) ** 4, axis=0)
    is_enough = effective.min() >= ENOUGH and in_tails.min() >= ENOUGH_IN_TAILS
    kind = CHAINS if worst < AGREED and is_enough else UNSETTLED
    return Reference(kind, mean, sd, np.minimum(effective, in_tails), kurtosis, worst)

r"""Is q the posterior? Importance sampling of q against the exact log-posterior says.

Draws of q are weighed by $p(\xi, y) / q(\xi)$, with the equation solved exactly for each. The tail
of the weights alone misses some failures (a q that is too wide has light weights), so the moments
that the weights correct are told too, each with its Monte-Carlo error. Where the weights can be
relied on, draws that are kept by them stand for the posterior in the place of q.

A surrogate's dual residual, an estimate of its error, is held against the true error. With the Gram
matrix $A$ of the energy, the symmetric part of the equation at the posterior's mean, the estimate
is $\|r(\mu)\|_{A^{-1}}$ and the error $\|\mu - u_h\|_A$. Were the equation $A$ itself they would be
equal; their ratio is the efficiency index of a-posteriori error estimation (Verfuerth 2013).
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.density.exact import ExactDensity
from riesz.density.relaxed.relaxed import RelaxedDensity, relaxed_density
from riesz.density.relaxed.states import RelaxedStates
from riesz.devices import Devices, Wanted, devices_of, over_rows
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian, residual
from riesz.fem.default_solver import one_by_one
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.newton import is_linear
from riesz.notes import Note
from riesz.penalty.gram import DualNorm
from riesz.posterior.checks import CLOSE, FAIR, ImportanceCheck, SurrogateError
from riesz.posterior.family import AbstractGaussian, Draws, EmpiricalDraws
from riesz.posterior.importance import ImportanceSample, weight_draws
from riesz.posterior.posterior import Posterior, SurrogateStates
from riesz.posterior.sobol import resampling_order, spread_normals
from riesz.problem.problem import Coordinates, InverseProblem, in_precision

NUM_DRAWS = (1000, 512, 256, 128, 64)
"""From many to few: with the last, the tail of the weights is told by thirteen draws."""

BUDGET = 240.0
"""Seconds of solving that a check may take on two cores; compilation comes on top."""

NEWTON_STEPS = 5
"""Linear solves that a nonlinear equation takes, roughly."""

ENOUGH, MOST_PARTS = 800, 8
"""Effective draws until which more are weighed where they correct q, and how many times the first
sample at most: their means are then known to 4 % of a standard deviation."""

PARTS_APART = 2**32
"""Between the seeds of samples."""

MOST_KEPT, LARGEST_KEPT = 1000, 1e7
"""Draws that are kept of them, and numbers in these: 80 MB."""

LARGEST_SAMPLE = 2e8
"""Numbers in all draws together: some gigabytes with what is computed of them."""


ProblemDensity = ExactDensity | RelaxedDensity


@dataclass(frozen=True)
class Effort:
    """How many draws a check rests on, and what their solves take, roughly."""

    num_draws: int
    seconds: float
    is_affordable: bool


def effort(posterior: Posterior) -> Effort:
    """As many draws as the budget has room for, a thousand at most; else the fewest.

    They hang on sizes alone: the equation, the mesh, the solver and the number of unknowns.
    """
    problem = posterior.problem
    seconds = density_to_weigh(posterior, problem).seconds()
    if not is_linear(problem.forward, problem.median()):
        seconds *= NEWTON_STEPS
    return affordable(seconds, problem.num_coordinates)


def density_to_weigh(posterior: Posterior, problem: InverseProblem) -> ProblemDensity:
    """That of the problem by exact solves, or of its relaxed model."""
    if isinstance(posterior.states, RelaxedStates):
        return relaxed_density(problem, posterior.states)
    return ExactDensity(problem, problem.default_solver())


def affordable(seconds: float, num_coordinates: int) -> Effort:
    """The most draws for which there is time, where one takes so many seconds, and memory."""
    for number in NUM_DRAWS:
        if number * seconds <= BUDGET and number * num_coordinates <= LARGEST_SAMPLE:
            return Effort(number, number * seconds, True)
    return Effort(NUM_DRAWS[-1], NUM_DRAWS[-1] * seconds, False)


def importance_check(
    posterior: Posterior,
    *,
    num_draws: int | None = None,
    seed: int = 0,
    devices: Wanted | None = None,
) -> ImportanceCheck:
    """Weigh draws of q against the exact posterior, one exact solve each.

    By default a thousand draws, and fewer where so many solves would take more than some minutes,
    down to 64. With the density `relaxed` the exact posterior is that of its model, over all
    epsilon where it is learned.
    """
    num_draws = effort(posterior).num_draws if num_draws is None else num_draws
    return check_of_sample(
        posterior, importance_sample(posterior, num_draws, seed, devices_of(devices))
    )


def importance_sample(
    posterior: Posterior, num_draws: int, seed: int, devices: Devices | None = None
) -> ImportanceSample:
    """So many draws of q against the exact posterior; without a solution they have no weight."""
    family = posterior.distribution
    if not isinstance(family, AbstractGaussian):
        raise RieszError(no_density(posterior))
    with jax.enable_x64(True):
        problem, family = in_precision((posterior.problem, family), jnp.float64)
        normals = spread_normals(seed, num_draws, problem.num_coordinates)
        draws = family.transform(jnp.asarray(normals))
        shared = (density_to_weigh(posterior, problem), family)
        logs = np.asarray(over_rows(log_weights, shared, draws, devices))
    if np.isnan(logs).all():
        raise RieszError(
            f"{num_draws} of {num_draws} draws have no log-posterior: the exact solve failed "
            "there. Look for priors that allow impossible coefficients."
        )
    return weight_draws(np.asarray(draws), logs)


def no_density(posterior: Posterior) -> str:
    """Why a posterior by draws cannot be weighed."""
    if posterior.check is not None:
        return (
            f"the posterior by {posterior.engine} was corrected by its check and consists of draws "
            "now: posterior.check says what was found, and rz.fit(..., check=False) gives q itself."
        )
    return (
        f"a posterior by {posterior.engine} consists of draws that have no density to weigh: its "
        "sampler tells of itself, in its notes and its history."
    )


def check_of_sample(posterior: Posterior, sample: ImportanceSample) -> ImportanceCheck:
    family = posterior.distribution
    moments = np.asarray(family.mean), np.sqrt(np.asarray(family.variances()))
    return check_moments(sample, posterior.problem.latents.coordinate_names(), moments)


def with_importance_check(
    posterior: Posterior,
    *,
    num_draws: int | None = None,
    seed: int = 0,
    devices: Wanted | None = None,
) -> Posterior:
    """The posterior with the check, and with what it warns of in its notes.

    Where weights say that q is not the posterior, and vouch for a correction, the posterior that
    is returned consists of draws of q that are kept by their weights. By default more draws are
    weighed then, if there is time, until they are worth enough.
    """
    needed, own = effort(posterior), devices_of(devices)
    sample = importance_sample(posterior, num_draws or needed.num_draws, seed, own)
    result = check_of_sample(posterior, sample)
    # In parts of the same size: what was compiled serves all of them.
    parts = most_parts(needed) if num_draws is None else 1
    for part in range(1, parts):
        if not wants_more(result):
            break
        more = importance_sample(posterior, needed.num_draws, seed + part * PARTS_APART, own)
        draws = np.concatenate([sample.draws, more.draws])
        sample = weight_draws(draws, np.concatenate([sample.log_weights, more.log_weights]))
        result = check_of_sample(posterior, sample)
    posterior = with_evidence(posterior, sample, result)
    if result.is_adequate:
        result = dataclasses.replace(result, is_applied=True)
        posterior = importance_resample(posterior, sample, seed)
    notes, num_lost = (*posterior.notes, *result.warnings), np.isneginf(sample.log_weights).sum()
    if num_lost:
        notes += (Note("importance_lost", lost=num_lost, total=len(sample.draws)),)
    return dataclasses.replace(posterior, check=result, notes=notes)


def with_evidence(
    posterior: Posterior, sample: ImportanceSample, check: ImportanceCheck
) -> Posterior:
    """With the log-evidence in its history: the mean of weights that can be relied on.

    Those of relaxed models lack a constant.
    """
    if isinstance(posterior.states, RelaxedStates) or not check.k_hat <= check.doubtful:
        return posterior
    history = posterior.history | {"log_evidence": jnp.asarray(sample.log_integral)}
    return dataclasses.replace(posterior, history=history)


def wants_more(check: ImportanceCheck) -> bool:
    """Whether draws can be relied on to correct q, and are not worth enough yet."""
    is_needed = check.k_hat <= check.doubtful and check.largest_bias > CLOSE
    return bool(is_needed and check.effective_draws < ENOUGH)


def most_parts(needed: Effort) -> int:
    """Samples of this size for which there is time, with the first."""
    return min(MOST_PARTS, int(BUDGET / max(needed.seconds, 1e-9)))


def importance_resample(posterior: Posterior, sample: ImportanceSample, seed: int) -> Posterior:
    """Draws of q, each as often as its weight says, in the place of q."""
    num_draws, size = sample.draws.shape
    count = int(np.clip(LARGEST_KEPT / size, FAIR, min(MOST_KEPT, num_draws)))
    start = np.random.default_rng(seed % 2**64).uniform()
    kept = sample.resample(count, start, resampling_order(num_draws, size))
    by_chain = jnp.asarray(kept[None], posterior.distribution.dtype)
    return dataclasses.replace(posterior, distribution=EmpiricalDraws(by_chain))


@np.errstate(all="ignore")  # a single draw may have all the weight, and no spread
def check_moments(
    sample: ImportanceSample,
    names: tuple[str, ...],
    moments: tuple[Float[np.ndarray, " coordinate"], Float[np.ndarray, " coordinate"]] | None,
) -> ImportanceCheck:
    """What the weights change of q's moments, from weighted and plain draws.

    Both come from the same draws: what chance does to them it mostly does to both, and the change
    is known better than either. It is applied to the moments of q where those are known.
    """
    draws, weights = sample.draws, sample.weights[:, None]
    mean = np.sum(weights * draws, axis=0)
    squares = (draws - mean) ** 2
    sd = np.sqrt(np.sum(weights * squares, axis=0))
    plain_mean, plain_sd = draws.mean(axis=0), draws.std(axis=0)
    plain_squares = (draws - plain_mean) ** 2
    # The difference of two averages over the same draws has the variance of its own terms.
    mean_error = np.sqrt(
        np.sum((weights * (draws - mean) - (draws - plain_mean) / len(draws)) ** 2, axis=0)
    )
    growth_terms = weights * (squares / sd**2 - 1) - (plain_squares / plain_sd**2 - 1) / len(draws)
    growth_error = 0.5 * np.sqrt(np.sum(growth_terms**2, axis=0))
    ratio = plain_sd / sd
    own_mean, own_sd = (plain_mean, plain_sd) if moments is None else moments
    corrected_sd = own_sd / ratio
    return ImportanceCheck(
        names=tuple(names),
        num_draws=len(draws),
        k_hat=sample.k_hat,
        effective_draws=sample.effective_draws,
        mean=own_mean + mean - plain_mean,
        sd=corrected_sd,
        mean_shift=(mean - plain_mean) / corrected_sd,
        mean_shift_error=mean_error / corrected_sd,
        sd_ratio=ratio,
        sd_ratio_error=ratio * growth_error,
    )


@eqx.filter_jit
def log_weights(
    density: ProblemDensity, family: AbstractGaussian, draws: Draws
) -> Float[Array, " draw"]:
    """The log-posterior less the log-density of q, one solve after the other."""

    def one(coordinates: Coordinates) -> Float[Array, ""]:
        return density(coordinates) - family.log_prob(coordinates)

    return one_by_one(one, draws, density.problem.forward.num_free)


def surrogate_error(posterior: Posterior, *, num_draws: int = 32, seed: int = 0) -> SurrogateError:
    """Compare the surrogate's states at draws of q with exact ones: a solve each."""
    if not isinstance(posterior.states, SurrogateStates):
        raise RieszError(
            f"a posterior by {posterior.engine} has no surrogate whose error could be told."
        )
    with jax.enable_x64(True):
        problem, family, states = in_precision(
            (posterior.problem, posterior.distribution, posterior.states), jnp.float64
        )
        draws = family.sample(jr.key(seed), num_draws)
        mean = jnp.mean(draws, axis=0)
        norm = energy_norm(problem, mean, problem.default_solver(num_rhs=num_draws))
        result = energies(problem, norm, mean, states, draws)
        squares, gaps = np.asarray(result[0]), np.asarray(result[1])
    unsolved = np.isnan(squares).any(axis=0)
    if unsolved.any():
        raise RieszError(
            f"the equation could not be solved at {unsolved.sum()} of {num_draws} draws. Look for "
            "priors that allow impossible coefficients."
        )
    if not (squares > 0).all():
        raise RieszError(
            "the equation has no energy norm at the posterior's mean: its symmetric part is not "
            "positive, or the surrogate is exact, so that no error can be told."
        )
    estimate, error, size = np.sqrt(squares)
    return SurrogateError(estimate / size, error / size, gaps)


def energy_norm(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> DualNorm:
    """The norm by the symmetric part of the equation's matrix."""
    matrix = jacobian(problem.forward, problem.state(coordinates), problem.z(coordinates))
    transposed = matrix.to_scipy().T.tocsr()  # its entries stand where those of the matrix do
    transposed.sort_indices()
    values = (matrix.values + jnp.asarray(transposed.data)) / 2
    return DualNorm(SparseMatrix(matrix.pattern, values), solver)


@eqx.filter_jit
def energies(
    problem: InverseProblem,
    norm: DualNorm,
    mean: Coordinates,
    states: SurrogateStates,
    draws: Draws,
) -> tuple[Float[Array, "3 draw"], Float[Array, " draw"]]:
    """Squares of the dual residual, the error and the state; the largest error at a sensor."""
    forward = problem.forward
    surrogates = states(problem, jr.key(0), draws)
    middle = problem.z(mean)
    _, product = jax.linearize(
        lambda state: residual(forward, state, middle), problem.solve(mean, norm.solver)
    )

    def one(drawn):
        coordinates, emulated = drawn
        z, exact = problem.z(coordinates), problem.solve(coordinates, norm.solver)
        gap = emulated - exact
        squares = [norm.squared(residual(forward, emulated, z)[forward.free])]
        # Of the whole state: without its boundary values it would drop to zero within a cell.
        squares += [values @ product(values) for values in (gap, exact)]
        return jnp.stack(squares), jnp.max(jnp.abs(problem.whiten(problem.operator @ gap, z)))

    squares, gaps = jax.lax.map(one, (draws, surrogates))
    return squares.T, gaps


def with_surrogate_error(posterior: Posterior, *, seed: int = 0) -> Posterior:
    """The same posterior with these figures."""
    return dataclasses.replace(posterior, surrogate_error=surrogate_error(posterior, seed=seed))

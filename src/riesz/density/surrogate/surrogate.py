r"""The density by a surrogate: no PDE is solved; the limit $\epsilon \to 0$ of the relaxed one.

A surrogate of the state is bound to the equation by the weak-form penalty around q, and q to the
data by the surrogate, each with the other held fixed: were the penalty to pull at q, it would
shrink q to where the surrogate is best. The penalty is a sum of squares and the surrogate linear in
its readout: both are solved for in rounds.

In the usual words: variational inference, in which q maximises the evidence lower bound (ELBO;
Kingma & Welling 2014), with a DeepONet (Lu et al. 2021) fitted to the weak form for the solver.

Whether functions of place can make the states at all is tried on exact ones before a long training.
Of states at draws of the prior those that fit the data best are as rough as those of the posterior.
Their best approximation in the energy norm is what no fit of the functions can better.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.density.base import AbstractDensityKind, Prepared, states_by
from riesz.density.exact import correct_draws
from riesz.density.surrogate import start
from riesz.density.surrogate.in_time import check_trajectory
from riesz.density.surrogate.least_squares import (
    LARGEST,
    LARGEST_IN_TIME,
    fitting_features,
    fitting_split,
    splits,
)
from riesz.density.surrogate.rounds import STAGE, RoundSettings, fit_around, fit_in_rounds
from riesz.errors import EngineError, RieszError
from riesz.fem.assembly import jacobian
from riesz.fem.default_solver import estimate_seconds
from riesz.fem.linear.linear_solve import Automatic
from riesz.method.base import AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.gaussian_vi import GaussianVI
from riesz.method.settings import Count, CountOrZero, Flag
from riesz.penalty.rows import full_precision
from riesz.posterior.family import AbstractGaussian, Draws, full_rank
from riesz.posterior.posterior import ExactStates, SurrogateStates
from riesz.problem.linearity import once_per_problem
from riesz.problem.problem import InverseProblem, in_precision
from riesz.surrogate.networks import with_more_features
from riesz.surrogate.surrogate import SteadySurrogate

NUM_DRAWS, NUM_KEPT = 256, 32

BUDGET = 60.0
"""Seconds of solving beyond which fewer draws are made; without twice those kept, no test is."""

LARGEST_GAP = 0.5
"""Standard deviations of the noise by which the best approximation of most states may be off."""

RIDGE = 1e-12


class Surrogate(RoundSettings, AbstractDensityKind):
    """The posterior by a surrogate of the state: for problems on a hierarchy of meshes.

    It is fitted to the weak form where a Gaussian q is, and q to the data by it, in `rounds`: with
    `GaussianVI` this q is the posterior, and other methods go on from there.

    The defaults suit up to ten unknowns or so. `gram` is the inner product behind the norm, for
    rough coefficients; `readout_batches` of `num_samples` and `num_patches`, which follow the
    device unless they are given, are drawn in each of at most `rounds`, and `num_bends` functions
    of the unknowns stand beside the linear ones. Before the first, it `tries_states`: some exact
    ones, which functions of place must be able to make. In time, where none are tried, states have
    a readout for each step. Of draws of chains `num_exact` are weighed by exact solves, or 0.
    """

    name: ClassVar[str] = "surrogate"
    needs_float64: ClassVar[bool] = False
    compiling: ClassVar[float] = 60.0

    width: Count = 32
    features: Count = 64
    tries_states: Flag = True
    num_exact: CountOrZero = 1000

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        start.check_nested(problem, self.name, self.gram)
        features = num_features(problem, self.num_bends, self.features)
        check_spanned(problem.num_coordinates, self)
        if problem.time is not None:
            drawn = self.batches()
            squares = 2 * drawn.num_batches * drawn.num_samples * features**2
            check_trajectory(problem, squares, self.name)

    def check_method(self, method: AbstractMethod) -> None:
        unread = sorted(method.model_fields_set)
        if isinstance(method, GaussianVI) and unread:
            raise RieszError(
                f"the setting {unread[0]} of {method.name} would do nothing: with a surrogate q is "
                "found in rounds, whose settings are those of the surrogate. Leave it out."
            )

    def cost(self, solve: float, problem: InverseProblem, method: AbstractMethod) -> float:
        training = start.training_cost(solve, problem)
        if isinstance(method, GaussianVI):
            return training
        return training + method.cost(start.SECONDS, problem.num_coordinates, len(problem.observed))

    def infer(self, target: TargetDensity, method: AbstractMethod, work: Work) -> Inferred:
        assert isinstance(target.near, AbstractGaussian)
        if isinstance(method, GaussianVI):
            return Inferred(target.near, {})
        with full_precision(), jax.enable_x64(True):
            key, states = jr.fold_in(jr.key(work.seed), 1), states_by(Automatic())
            result = method.infer(target, work)
            return correct_draws(target, result, states, self.num_exact, key)

    def prepare(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Prepared:
        """A surrogate that is right around q, and q."""
        network_key, key, _ = jr.split(jr.key(work.seed), 3)
        sizes = {
            "width": self.width,
            "features": num_features(problem, self.num_bends, self.features),
        }
        if problem.time is None:
            penalty = start.default_penalty(problem, self)
            surrogate = start.initial_surrogate(problem, network_key, **sizes)
        else:
            penalty = start.penalty_in_time(problem, self)
            surrogate = start.initial_trajectory(problem, penalty, network_key, **sizes)
        family = full_rank(problem.num_coordinates, problem.forward.dtype)
        # Its functions with no readout yet: the lifting alone, where Newton's method may start.
        bare = eqx.tree_at(lambda s: s.network.readout, surrogate, replace_fn=jnp.zeros_like)
        with full_precision():
            reference = start.reference_penalty(problem, penalty, surrogate)
            # Double precision, whatever that of the problem: normal equations square the condition
            # number, and in single precision nothing would be left.
            with jax.enable_x64(True):
                given = in_precision((problem, penalty, bare, family), jnp.float64)
                with singular_matrix_advice():
                    is_new = work.checkpoint.restore(STAGE) is None
                    sizes, tried = (
                        (self.num_bends, *surrogate.network.readout.shape),
                        sizes_without_trial(problem),
                    )
                    if self.tries_states and problem.time is None and is_new and sizes not in tried:
                        check_capacity(given[0], given[2], self.num_bends, jr.fold_in(key, 1))
                        tried.add(sizes)
                    result = fit_in_rounds(*given, self, reference.astype(float), key, work)
        density = start.SurrogateDensity(given[0], result.surrogate)
        target = TargetDensity(density, problem.latents.coordinate_names(), result.family)
        history = {name: jnp.asarray(curve) for name, curve in result.history.items()}
        states = SurrogateStates(in_precision(result.surrogate, problem.forward.dtype))
        return Prepared(target, states, history, result.notes)


def trajectory_over_prior(
    problem: InverseProblem, engine: Surrogate, key: PRNGKeyArray
) -> start.AnySurrogate:
    """One that solves all steps for unknowns from the prior."""
    engine.check(problem)
    penalty = start.penalty_in_time(problem, engine)
    network_key, fit_key = jr.split(key)
    features = num_features(problem, engine.num_bends, engine.features)
    bare = start.initial_trajectory(
        problem, penalty, network_key, width=engine.width, features=features
    )
    prior = full_rank(problem.num_coordinates, problem.forward.dtype)
    return fit_around(problem, penalty, bare, prior, engine, fit_key, 1.0, None)[0]


@contextmanager
def singular_matrix_advice() -> Iterator[None]:
    """Matrices without a factor end a fit with advice, whoever asked for it."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise EngineError(
            f"a matrix of the surrogate's least squares has no factor ({error}), as where "
            "functions of the unknowns cannot be told apart. Take fewer unknowns or num_bends, or "
            "use the density exact."
        ) from error


def check_spanned(num_coordinates: int, settings: RoundSettings) -> None:
    """Raise where fixed draws leave a direction of the unknowns out.

    They come in pairs of opposite sign, so that half of them are directions. What they leave out
    nothing would tell q of: it would be too wide in all others, and a surrogate have no scale.
    """
    batches = settings.batches()
    drawn = {
        "refining_draws": (settings.refining_draws, 1),
        "readout_batches": (batches.num_batches, batches.num_samples),
    }
    for name, (value, each) in drawn.items():
        if value * each <= 2 * num_coordinates:
            raise RieszError(
                f"surrogate has {value * each} draws for {num_coordinates} unknowns ({name} is "
                f"{value}), and needs more than two for each: set {name} to "
                f"{2 * num_coordinates // each + 1} or more, or use the density exact."
            )


def num_features(problem: InverseProblem, num_bends: int, wanted: int) -> int:
    """Functions of place: fewer where many unknowns would make the system too large."""
    linear = start.linear_coordinates(problem)
    others = np.setdiff1d(np.arange(problem.num_coordinates), linear)
    largest = LARGEST if problem.time is None else LARGEST_IN_TIME
    return fitting_features(splits(linear, others, num_bends), wanted, largest)


@once_per_problem
def sizes_without_trial(problem: InverseProblem) -> set[tuple[int, ...]]:
    """Sizes that could make the states of a problem: they need not be tried for each seed."""
    return set()


def check_capacity(
    problem: InverseProblem, surrogate: SteadySurrogate, num_bends: int, key: PRNGKeyArray
) -> None:
    """Raise where as many functions as there can be do not make the states."""
    draw_key, feature_key = jr.split(key)
    seconds = estimate_seconds(problem.forward, problem.default_solver())
    count = min(NUM_DRAWS, int(BUDGET / seconds))
    if count < 2 * NUM_KEPT:
        return
    draws = jr.normal(draw_key, (count, problem.num_coordinates), problem.forward.dtype)
    states = ExactStates().in_parts(problem, draws)
    fits = np.asarray(state_log_likelihoods(problem, draws, jnp.asarray(states)))
    best = np.argsort(np.where(np.isfinite(fits), -fits, np.inf))[:NUM_KEPT]
    best = best[np.isfinite(fits[best])]
    if not len(best):  # what is wrong with the equation, its own solves will tell
        return
    largest = grow_most(surrogate, num_bends, feature_key)
    gaps = best_gaps(problem, largest, draws[best], states[best])
    gap = float(np.median(gaps))
    if gap > LARGEST_GAP:
        count = largest.network.readout.shape[1]
        raise RieszError(
            f"a surrogate cannot make the states of this problem: {count} functions of place, all "
            f"there is room for with {problem.num_coordinates} unknowns, leave {gap:.2g} standard "
            f"deviations of the noise at the sensors, at their best, of exact states that fit the "
            f"data; more than {LARGEST_GAP:g} is too much. Use the density exact."
        )


@eqx.filter_jit
def state_log_likelihoods(
    problem: InverseProblem, draws: Draws, states: Float[Array, "draw node"]
) -> Float[Array, " draw"]:
    return jax.lax.map(lambda pair: problem.log_likelihood(*pair), (draws, states))


def grow_most(surrogate: SteadySurrogate, num_bends: int, key: PRNGKeyArray) -> SteadySurrogate:
    """With as many functions of place as rounds may end with: twice as many while there is room."""
    network = surrogate.network
    candidates = splits(np.asarray(network.linear), np.asarray(network.others), num_bends)
    count = network.readout.shape[1]
    while 2 * count * fitting_split(candidates, count).num_hidden <= LARGEST:
        count *= 2
    return dataclasses.replace(surrogate, network=with_more_features(network, count, key))


def best_gaps(
    problem: InverseProblem,
    surrogate: SteadySurrogate,
    draws: Draws,
    states: Float[np.ndarray, "draw node"],
) -> Float[np.ndarray, " draw"]:
    """Root mean squares at the sensors, by noise, of what the functions leave of each state."""
    forward, free = problem.forward, np.asarray(problem.forward.free)
    functions, lifted = (np.asarray(one) for one in functions_at_nodes(problem, surrogate, draws))
    z = problem.z(draws[0])
    matrix = jacobian(forward, jnp.asarray(states[0]), z).to_scipy()
    wanted, basis = (states - lifted)[:, free], functions[free]
    images = (matrix + matrix.T) @ basis
    normal = basis.T @ images
    normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) / len(normal)
    left = wanted - np.linalg.solve(normal, images.T @ wanted.T).T @ basis.T
    signal = problem.operator.to_scipy()[:, free] @ left.T
    white = jax.vmap(lambda gap, one: problem.whiten(gap, problem.z(one)))
    return np.sqrt(np.mean(np.asarray(white(jnp.asarray(signal.T), draws)) ** 2, axis=1))


@eqx.filter_jit
def functions_at_nodes(
    problem: InverseProblem, surrogate: SteadySurrogate, draws: Draws
) -> tuple[Float[Array, "node feature"], Float[Array, "draw node"]]:
    """The functions of place, times the boundary factor, and the lifting of each draw."""
    network, boundary = surrogate.network, surrogate.boundary
    nodes = problem.forward.cells.domain.nodes.T
    features = jax.vmap(lambda x: network.features(surrogate.frame.inside(x)))(nodes)
    columns = boundary.functions.values
    lifted = columns[None, :, 1] + draws[:, boundary.moving] @ columns[:, 2:].T
    return columns[:, :1] * features, lifted

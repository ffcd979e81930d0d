r"""The engine `conditional`: sources and boundary values of a linear equation, integrated out.

Given the other unknowns $h$ (scales of fields, a diffusivity, a velocity, the noise) everything is
Gaussian: $p(h \mid y) \propto p(h)\, N(y;\, b(h),\, S(h))$ is a density over few unknowns, and the
rest follows exactly. $h$ is taken at its most probable value, from the Gaussian that the curvature
there makes, whose draws are weighed by the density itself, or by NUTS. (Marginalisation as in INLA,
Rue, Martino & Chopin 2009, but exact.)
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from riesz.deadline import check_clock
from riesz.density.base import AbstractDensity
from riesz.engines.base import (
    AbstractEngine,
    Count,
    CountOrZero,
    Share,
    Solver,
    Start,
    Work,
    as_solver,
    resolve_start,
    states_by,
)
from riesz.engines.checkpoint import CheckpointedFunction
from riesz.engines.conditional.host import DataModel, data_model, rough_mode
from riesz.engines.conditional.in_time import TimeSteppingModel, time_stepping_model
from riesz.engines.conditional.linear import NAME, Others, linear_system
from riesz.engines.conditional.points import AbstractPointMap, at_points, point_map_at_sensors
from riesz.engines.conditional.spread import (
    WEIGHED,
    Cost,
    Spread,
    draw_gaussian,
    gaussian_spread,
    sample_hyperparameters,
    spread_by,
)
from riesz.engines.conditional.systems import AbstractDataSystem
from riesz.engines.nuts.chains import NutsSettings, all_chains
from riesz.engines.nuts.engine import (
    WIDER,
    history_of,
    sampler_warnings,
)
from riesz.engines.training import minimise
from riesz.errors import OutOfTimeError, RieszError, any_of
from riesz.fem.linear.linear_solve import Automatic, SparseLU
from riesz.notes import Note
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.problem import InverseProblem
from riesz.progress import format_levels, progress_bar

STEEP = 0.05
"""A slope of the log-density, by prior standard deviations, that is no longer a maximum."""

SEARCHING, SPREADING = 0.5, 0.7
"""Shares of the time left that the search for the mode may take, and then the spread about it."""

HOW = ("mode", "laplace", "nuts")
Over = Annotated[Literal["mode", "laplace", "nuts"], Field(description=f"{any_of(HOW)}")]


class MarginalDensity(AbstractDensity):
    """The log-density of the other unknowns, the linear ones being integrated out."""

    problem: InverseProblem
    parts: Parts
    at: AbstractPointMap  # the sensors

    def log_likelihood(self, coordinates: Others) -> Float[Array, ""]:
        system = linear_system(self.problem, self.parts, coordinates, self.at)
        return system.log_likelihood()

    def explain(self, coordinates: Others, where: str) -> None:
        linear = jnp.zeros(len(self.parts.linear))
        self.problem.state(self.parts.together(linear, coordinates))
        raise RieszError(
            "the density of the unknowns that are not integrated out is not finite "
            f"where {where}: look for noise of zero, or priors that allow impossible coefficients."
        )


class Conditional(AbstractEngine):
    """The posterior of a problem whose equation is linear and whose noise is normal.

    `over` is how the unknowns that cannot be integrated out are treated: at their mode, from the
    Gaussian about it with importance weights, or by NUTS, whose settings are the last four numbers.
    As many draws belong to each value of those unknowns, so that there may be a few more than asked
    for. `start` is where the search over them begins. `conditional_moments` gives means and
    variances of the state without the scatter of draws.
    """

    name: ClassVar[str] = NAME
    is_exact: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    compiling: ClassVar[float] = 40.0

    over: Over = "laplace"
    num_draws: Count = 400
    num_others: Count = 50  # values of those unknowns that the draws share, with `laplace`
    max_steps: Count = 200
    num_warmup: CountOrZero = 300
    num_samples: Count = 300
    num_chains: Count = 4
    target_accept: Share = 0.8
    start: Start = None
    linear_solver: Solver = Automatic()

    def inert(self) -> dict[str, str]:
        result = {} if self.over == "laplace" else {"num_others": "it goes with over = 'laplace'"}
        if self.over == "nuts":
            return result
        sampling = ("num_warmup", "num_samples", "num_chains", "target_accept")
        return result | dict.fromkeys(sampling, "it goes with over = 'nuts'")

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        linear_parts(problem)

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """A factorisation, a cheap solve for each sensor or unknown, and draws solved for."""
        together = min(problem.num_coordinates, len(problem.observed))
        return solve * (60 * (1 + together / 10) + 1400)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        super().check(problem)
        solver = problem.default_solver(
            as_solver(self.linear_solver), num_rhs=len(problem.observed)
        )
        search_key, _ = jr.split(jr.key(work.seed))
        parts = linear_parts(problem)
        by_lu = isinstance(solver, SparseLU)
        at = (
            point_map_at_sensors(problem) if by_lu else at_points(problem, problem.operator, solver)
        )
        model = data_model(problem, parts, at) or time_stepping_model(problem, parts, at)
        start = resolve_start(problem, self.start, work._replace(seed=0))
        if start is None and by_lu and isinstance(model, DataModel):
            start = rough_mode(problem)
        origin = hyper_start(parts, start)
        result = infer_hyperparameters(problem, parts, self, search_key, at, model, origin, work)
        chains, count, _ = result.values.shape
        is_sampled = self.over == "nuts" and len(parts.others) > 0
        each = 1 if is_sampled else -(-self.num_draws // count)
        others = result.values.reshape(chains * count, -1)
        notes = result.notes

        def system(own: Float[np.ndarray, " other"]) -> AbstractDataSystem:
            if model is None:
                return system_at(problem, parts, jnp.asarray(own), at).on_host()
            return model.system(own)

        flat = draw_on_host(system, parts, np.asarray(others), each, work.seed)
        lost, total = len(others) - len(flat), len(others)
        notes += (Note("singular_covariance", lost=lost, total=total),) if lost else ()
        by_chain = (chains, -1) if len(flat) == chains * count else (1, -1)
        draws = EmpiricalDraws(flat.reshape(*by_chain, parts.num_coordinates))
        states = states_by(self.linear_solver)
        return Posterior(problem, draws, states, result.history, self.name, work.seed, notes)


class HyperEstimate(NamedTuple):
    """Values of the unknowns that are not integrated out, and how they were found."""

    values: Float[Array, "chain value other"]
    history: dict[str, Array]
    notes: tuple[Note, ...]


def infer_hyperparameters(
    problem: InverseProblem,
    parts: Parts,
    engine: Conditional,
    key: PRNGKeyArray,
    at: AbstractPointMap,
    model: DataModel | TimeSteppingModel | None,
    origin: Others,
    work: Work,
) -> HyperEstimate:
    """Values of the unknowns that are not integrated out, given the data."""
    density = MarginalDensity(problem, parts, at)
    cost = with_clock(gradient_of(density) if model is None else model.cost)
    cost = CheckpointedFunction(cost, work.checkpoint, "search")
    held = model if isinstance(model, TimeSteppingModel) else None
    mode, history, notes = find_hyper_map(cost, density, held, origin, engine.max_steps, work)

    def spread_at(mode: Others) -> Spread:
        return (
            gaussian_spread(cost, mode) if held is None else spread_by(held.curvature(cost, mode))
        )

    if engine.over == "nuts" and len(origin):
        values, sampling = sample_by_nuts(density, spread_at(mode), mode, engine, key, work)
        names = problem.latents.coordinate_names()
        notes += sampler_warnings(sampling, tuple(names[i] for i in np.asarray(parts.others)))
        return HyperEstimate(values, history | sampling, notes)
    if engine.over == "mode" or not len(origin):
        return HyperEstimate(mode[None, None], history, notes)
    log_density_at = (lambda own: -cost(own)[0]) if model is None else with_clock(model.log_density)
    count = min(engine.num_others, engine.num_draws)
    log_density = CheckpointedFunction(
        lambda own: (log_density_at(own),), work.checkpoint, "weights"
    )
    with progress_bar(work.progress) as shown:
        task = shown.add_task("weights", total=WEIGHED * count, terms="")

        def count_call(own: Others) -> float:
            (result,) = log_density(own)
            shown.update(task, advance=1)
            return float(result)

        try:
            with work.deadline.sooner(SPREADING).enforce("before draws were weighed"):
                spread = spread_at(mode)
                sample, values = sample_hyperparameters(
                    count_call, spread, np.asarray(mode), count, work.seed
                )
        except OutOfTimeError:
            return HyperEstimate(mode[None, None], history, (*notes, Note("time_before_spread")))
    history |= {
        "k_hat": jnp.asarray(sample.k_hat),
        "log_evidence": jnp.asarray(sample.log_integral),
    }
    notes += spread.notes + sample.notes("hyper_k_hat")
    return HyperEstimate(jnp.asarray(values)[None], history, notes)


def find_hyper_map(
    cost: Cost,
    density: MarginalDensity,
    model: TimeSteppingModel | None,
    origin: Others,
    max_steps: int,
    work: Work,
) -> tuple[Others, dict[str, Array], tuple[Note, ...]]:
    """The mode of the other unknowns, how the search went, and what to warn of.

    A model in time has a search of its own.
    """
    value = eqx.filter_jit(density)(origin) if not len(origin) else cost(origin)[0]
    if not np.isfinite(float(value)):
        density.explain(origin, "the search starts")
    if not len(origin):
        # With nothing left over, the density of the data themselves.
        exact = jnp.asarray(float(value))
        return origin, {"log_density": exact[None], "log_evidence": exact}, ()
    with progress_bar(work.progress) as shown:
        task = shown.add_task("marginal likelihood", total=None, terms="")
        costs, best, notes = [], (np.inf, origin), ()

        def count_call(others: Others):
            nonlocal best
            result = cost(others)
            costs.append(float(result[0]))
            best = min(best, (costs[-1], others), key=lambda one: one[0])
            shown.update(task, advance=1, terms=format_levels({"cost": costs[-1]}))
            return result

        try:
            with work.deadline.sooner(SEARCHING).enforce("in the first step of the search"):
                if model is None:
                    mode = minimise(origin, count_call, max_steps=max_steps)
                else:
                    quietest = CheckpointedFunction(model.with_best_noise, work.checkpoint, "noise")
                    mode = model.mode(origin, quietest, count_call, max_steps)
        except OutOfTimeError:
            if not costs:
                raise
            mode, notes = best[1], (Note("time_in_search"),)
    slope = cost(mode)[1]
    steepness = float(np.linalg.norm(slope))
    if not np.isfinite(steepness):
        raise RieszError(
            "the log-density of the unknowns that are not integrated out has no slope where the "
            "search ended: look for priors at the edge of what the equation allows."
        )
    if steepness > STEEP:
        notes += (Note("hyper_slope", slope=steepness),)
    return mode, {"log_density": -jnp.asarray(costs), "mode": mode}, notes


def with_clock(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, which looks at the clock: what NumPy computes does not."""

    def call(others: Any) -> Any:
        check_clock()
        return function(others)

    return call


def gradient_of(density: AbstractDensity) -> Cost:
    return lambda others: cost_and_gradient(others, density)


@eqx.filter_jit
def cost_and_gradient(
    others: Others, density: AbstractDensity
) -> tuple[Float[Array, ""], Float[Array, " other"]]:
    """Of the negative log-density; infinite where there is none, so that searches turn back."""
    value, slope = jax.value_and_grad(lambda h: -density(h))(others)
    exists = jnp.isfinite(value)
    return jnp.where(exists, value, jnp.inf), jnp.where(exists, slope, 0.0)


def hyper_start(parts: Parts, start: Any) -> Others:
    """Where the search begins: zero, given coordinates, or those of a posterior's mean."""
    if isinstance(start, Posterior):
        return start.coordinate_mean()[parts.others]
    origin = jnp.zeros(len(parts.others)) if start is None else jnp.asarray(start)
    if origin.shape != parts.others.shape:
        raise RieszError(
            f"start has shape {origin.shape}, but {len(parts.others)} unknowns are not integrated "
            "out."
        )
    return origin


def sample_by_nuts(
    density: MarginalDensity,
    spread: Spread,
    mode: Others,
    engine: Conditional,
    key: PRNGKeyArray,
    work: Work,
) -> tuple[Float[Array, "chain draw other"], dict[str, Array]]:
    """Chains that start apart around the mode, with the inverse curvature there for a mass."""
    inverse_mass = jnp.asarray((spread.axes * spread.lengths**2) @ spread.axes.T)
    how = NutsSettings(engine.num_warmup, engine.target_accept, True, 10, adapt_mass=False)
    scattered = draw_gaussian(spread, mode, engine.num_chains, jr.fold_in(key, 1))
    starts = mode[None, :] + WIDER * (scattered - mode[None, :])
    every = all_chains(density, how, key, starts, inverse_mass, engine.num_samples, work)
    after_warmup = jax.tree.map(lambda leaf: leaf[:, engine.num_warmup :], every)
    return after_warmup.coordinates, history_of(after_warmup)


system_at = eqx.filter_jit(linear_system)


def draw_on_host(
    system: Callable[[Float[np.ndarray, " other"]], AbstractDataSystem],
    parts: Parts,
    others: Float[np.ndarray, "value other"],
    each: int,
    seed: int,
) -> Float[Array, "kept each coordinate"]:
    """All coordinates: the linear ones are drawn, some for each value of the others; without values
    for which the data's covariance has no factor.

    Where data are met exactly, noise of any smallness is likely, down to what numbers can hold.
    """
    rng, result = np.random.default_rng(seed), []
    for own in others:
        with suppress(np.linalg.LinAlgError):
            data = system(own)  # what a solve raises, such as the end of its time, is an error
            with suppress(ValueError):  # of numbers that are not finite
                linear = data.draws(rng.standard_normal, each)
                rows = np.zeros((each, parts.num_coordinates))
                rows[:, np.asarray(parts.others)], rows[:, np.asarray(parts.linear)] = own, linear
                result.append(rows)
    if 2 * len(result) < len(others):
        lost, total = len(others) - len(result), len(others)
        raise RieszError(str(Note("singular_covariance", lost=lost, total=total)))
    return jnp.asarray(np.stack(result))

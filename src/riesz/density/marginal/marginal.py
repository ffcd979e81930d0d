r"""Sources and boundary values of a linear equation, integrated out of the posterior.

Given the other unknowns $h$ (scales of fields, a diffusivity, a velocity, the noise: the
hyperparameters) everything is Gaussian: $p(h \mid y) \propto p(h)\, N(y;\, b(h),\, S(h))$ is a
density over few unknowns, and the rest follows exactly (Rao-Blackwellisation). $h$ is drawn from
the Gaussian that the curvature at its mode makes, with importance weights by the density itself, or
by any other method. (Marginalisation as in INLA, Rue, Martino & Chopin 2009, but exact.)
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.deadline import check_clock
from riesz.density.base import AbstractDensityKind, Prepared, states_by
from riesz.density.exact import Exact
from riesz.density.marginal.host import DataModel, data_model, rough_mode
from riesz.density.marginal.in_time import TimeSteppingModel, time_stepping_model
from riesz.density.marginal.linear import MarginalDensity, Others
from riesz.density.marginal.points import at_points, point_map_at_sensors
from riesz.density.marginal.spread import (
    WEIGHED,
    Cost,
    Spread,
    gaussian_spread,
    sample_hyperparameters,
    spread_by,
)
from riesz.density.marginal.systems import AbstractDataSystem
from riesz.errors import OutOfTimeError, RieszError
from riesz.fem.linear.linear_solve import Automatic, SparseLU
from riesz.method.base import AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.checkpoint import NO_CHECKPOINT, CheckpointedFunction
from riesz.method.laplace import Laplace
from riesz.method.mcmc.mcmc import MCMC
from riesz.method.settings import Count, Flag, Solver, as_solver
from riesz.method.training import minimise
from riesz.notes import Note
from riesz.posterior.density import AbstractDensity
from riesz.posterior.family import EmpiricalDraws, PriorUpdate
from riesz.posterior.posterior import MARGINAL, Posterior
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.problem import InverseProblem
from riesz.progress import format_levels, progress_bar

STEEP = 0.05
"""A slope of the log-density, by prior standard deviations, that is no longer a maximum."""

SEARCHING, SPREADING = 0.5, 0.7
"""Shares of the time left that the search for the mode may take, and then the spread about it."""


class HyperSearch(NamedTuple):
    """The mode of the unknowns that are not integrated out, and what leads to their density."""

    density: MarginalDensity
    model: DataModel | TimeSteppingModel | None
    cost: Cost
    mode: Others
    history: dict[str, Array]
    notes: tuple[Note, ...]

    def spread(self) -> Spread:
        if isinstance(self.model, TimeSteppingModel):
            return spread_by(self.model.curvature(self.cost, self.mode))
        return gaussian_spread(self.cost, self.mode)

    def log_density(self, others: Others) -> Any:
        check_clock()
        return -self.cost(others)[0] if self.model is None else self.model.log_density(others)

    def system(self, others: Float[np.ndarray, " other"]) -> AbstractDataSystem:
        if self.model is not None:
            return self.model.system(others)
        return system_at(self.density, jnp.asarray(others)).on_host()


class HyperValues(NamedTuple):
    """Values of the unknowns that are not integrated out, and how they were found."""

    values: Float[Array, "chain value other"]
    history: dict[str, Array]
    notes: tuple[Note, ...]


class Marginal(AbstractDensityKind):
    """The posterior of a problem whose equation is linear and whose noise is normal, without the
    unknowns in which the data are linear: they are integrated out, and drawn in the end.

    With `Laplace`, the hyperparameters that are left are drawn from the Gaussian about their mode,
    `num_values` of them, and weighed by their density; `at_mode` they have no spread (empirical
    Bayes). Other methods begin at that Gaussian. As many of `num_draws` belong to each value, so
    that there may be a few more than asked for, and one to each draw of chains. The search for the
    mode takes `max_steps`. `conditional_moments` gives means and variances of the state without the
    scatter of draws.
    """

    name: ClassVar[str] = MARGINAL
    compiling: ClassVar[float] = -20.0

    num_draws: Count = 400
    num_values: Count = 50
    max_steps: Count = 200
    at_mode: Flag = False
    linear_solver: Solver = Automatic()

    def inert(self) -> dict[str, str]:
        return {"num_values": "there is one value, at the mode"} if self.at_mode else {}

    def check(self, problem: InverseProblem) -> None:
        super().check(problem)
        linear_parts(problem)

    def check_method(self, method: AbstractMethod) -> None:
        unread = sorted(method.model_fields_set - {"start"})
        if unread and (self.at_mode or isinstance(method, Laplace)):
            raise RieszError(
                f"the setting {unread[0]} of {method.name} would do nothing: the mode of the "
                f"unknowns that are left has a search of its own, whose settings are those of "
                f"{self.name}. Leave it out."
            )

    def cost(self, solve: float, problem: InverseProblem, method: AbstractMethod) -> float:
        """A factorisation, a cheap solve for each sensor or unknown, and draws solved for."""
        together = min(problem.num_coordinates, len(problem.observed))
        value = solve * (1 + together / 10)
        own = 60 * value + 1400 * solve
        if isinstance(method, Laplace):
            return own
        return own + method.cost(value, len(linear_parts(problem).others), len(problem.observed))

    def prepare(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Prepared:
        """The density of the hyperparameters, and the Gaussian about its mode."""
        search = self.search(problem, method.start, work)
        return Prepared(
            self.target(search), states_by(self.linear_solver), search.history, search.notes
        )

    def posterior(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Posterior:
        search = self.search(problem, method.start, work)
        found = self.likely_values(search, method, work)
        chains, count, _ = found.values.shape
        each = 1 if isinstance(method, MCMC) and count > 1 else -(-self.num_draws // count)
        others = np.asarray(found.values).reshape(chains * count, -1)
        flat = draw_on_host(search.system, search.density.parts, others, each, work.seed)
        lost, total = len(others) - len(flat), len(others)
        notes = (Note("singular_covariance", lost=lost, total=total),) if lost else ()
        by_chain = (chains, -1) if len(flat) == chains * count else (1, -1)
        draws = EmpiricalDraws(flat.reshape(*by_chain, problem.num_coordinates))
        result = Inferred(
            draws, search.history | found.history, (*search.notes, *found.notes, *notes)
        )
        return self.with_states(problem, method, result, states_by(self.linear_solver), work)

    def search(self, problem: InverseProblem, start: Any, work: Work) -> HyperSearch:
        """The mode of the hyperparameters, from a start."""
        solver = problem.default_solver(
            as_solver(self.linear_solver), num_rhs=len(problem.observed)
        )
        parts, by_lu = linear_parts(problem), isinstance(solver, SparseLU)
        at = (
            point_map_at_sensors(problem) if by_lu else at_points(problem, problem.operator, solver)
        )
        density = MarginalDensity(problem, parts, at)
        model = data_model(problem, parts, at) or time_stepping_model(density)
        if isinstance(start, AbstractMethod):
            start = Exact().posterior(problem, start, work._replace(checkpoint=NO_CHECKPOINT))
        if start is None and by_lu and isinstance(model, DataModel):
            start = rough_mode(problem)
        return self.search_from(hyper_start(parts, start), density, model, work)

    def search_from(
        self,
        origin: Others,
        density: MarginalDensity,
        model: DataModel | TimeSteppingModel | None,
        work: Work,
    ) -> HyperSearch:
        cost = with_clock(gradient_of(density) if model is None else model.cost)
        cost = CheckpointedFunction(cost, work.checkpoint, "search")
        held = model if isinstance(model, TimeSteppingModel) else None
        mode, history, notes = find_hyper_map(cost, density, held, origin, self.max_steps, work)
        return HyperSearch(density, model, cost, mode, history, notes)

    def target(self, search: HyperSearch) -> TargetDensity:
        """For methods that begin at the Gaussian about the mode."""
        every = search.density.problem.latents.coordinate_names()
        names = tuple(every[i] for i in np.asarray(search.density.parts.others))
        spread = search.spread()
        near = PriorUpdate(
            search.mode, jnp.asarray(spread.axes), jnp.asarray(spread.lengths**-2 - 1)
        )
        return TargetDensity(search.density, names, near)

    def likely_values(self, search: HyperSearch, method: AbstractMethod, work: Work) -> HyperValues:
        """Values of the hyperparameters, given the data."""
        if self.at_mode or not len(search.mode):
            return HyperValues(search.mode[None, None], {}, ())
        if isinstance(method, Laplace):
            return self.weigh(search, work)
        # The search had begun where the method was to.
        alone = method.with_settings(start=None)
        result = alone.infer(self.target(search), work)
        if isinstance(result.distribution, EmpiricalDraws):
            return HyperValues(result.distribution.by_chain, result.history, result.notes)
        values, axes = np.linalg.eigh(np.asarray(result.distribution.covariance()))
        around = Spread(axes, np.sqrt(values), ())
        found = self.weigh(search._replace(mode=result.distribution.mean), work, around)
        notes = (*result.notes, *found.notes)
        return HyperValues(found.values, result.history | found.history, notes)

    def weigh(self, search: HyperSearch, work: Work, around: Spread | None = None) -> HyperValues:
        """Draws about the mode, with importance weights."""
        count = min(self.num_values, self.num_draws)
        log_density = CheckpointedFunction(
            lambda own: (search.log_density(own),), work.checkpoint, "weights"
        )
        with progress_bar(work.progress) as shown:
            task = shown.add_task("weights", total=WEIGHED * count, terms="")

            def count_call(own: Others) -> float:
                (result,) = log_density(own)
                shown.update(task, advance=1)
                return float(result)

            try:
                with work.deadline.sooner(SPREADING).enforce("before draws were weighed"):
                    spread = search.spread() if around is None else around
                    sample, values = sample_hyperparameters(
                        count_call, spread, np.asarray(search.mode), count, work.seed
                    )
            except OutOfTimeError:
                notes = (Note("time_before_spread"),)
                return HyperValues(search.mode[None, None], {}, notes)
        history = {
            "k_hat": jnp.asarray(sample.k_hat),
            "log_evidence": jnp.asarray(sample.log_integral),
        }
        notes = spread.notes + sample.notes("hyper_k_hat")
        return HyperValues(jnp.asarray(values)[None], history, notes)


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


system_at = eqx.filter_jit(MarginalDensity.system)


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

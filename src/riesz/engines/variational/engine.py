"""The engine `variational`: a normal distribution near to the posterior, by exact solves.

Where the posterior is skewed its mode is not its mean, and the curvature there not its spread:
`laplace` sees one place, this engine all that q covers. It starts from there.
"""

from typing import ClassVar

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from riesz.density.base import AbstractDensity
from riesz.density.curvature import num_directions
from riesz.engines.base import (
    GRADIENT,
    AbstractEngine,
    Count,
    CountOrNone,
    Share,
    Solver,
    Start,
    Work,
    exact_density,
    states_by,
)
from riesz.engines.laplace.engine import NEGLIGIBLE, note_on_directions
from riesz.engines.laplace.newton import SearchSettings, find_map, search_origin
from riesz.engines.variational.natural import (
    STAGE,
    FitState,
    GaussianSteps,
    fit_gaussian,
    has_converged,
    init,
    restore,
)
from riesz.fem.linear.linear_solve import Automatic
from riesz.notes import Note
from riesz.posterior.family import PriorUpdate
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem

SEARCH = SearchSettings(tolerance=0.05)
"""The mode is where q begins: a twentieth of a standard deviation more or less is nothing."""

SEARCHING = 0.4
"""The share of the time that the search for it may take."""


class Variational(AbstractEngine):
    """A normal distribution near to the posterior: means and spread by all that it covers.

    Its mean is where the divergence from the posterior is least, given its spread: gradients of the
    log-posterior vanish on average. Its precision is the average curvature over it, as Gauss and
    Newton have it, without second derivatives of the state: not quite that of least divergence.
    It begins at the mode that a search from `start` finds. Each step sees gradients at `num_draws`
    fresh draws and curvature at `num_curved` of them, in `num_modes` directions, by default all
    where unknowns are few. It ends where chance moves no mean and no standard deviation of q by
    more than `tolerance` posterior standard deviations.
    """

    name: ClassVar[str] = "variational"
    is_exact: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    is_normal: ClassVar[bool] = True
    compiling: ClassVar[float] = 60.0

    max_steps: Count = 60
    num_draws: Count = 128
    num_curved: Count = 8
    num_modes: CountOrNone = None
    tolerance: Share = 0.05
    start: Start = None
    linear_solver: Solver = Automatic()

    @property
    def steps(self) -> GaussianSteps:
        """Draws are in pairs on both sides of the mean, whose scatter says what chance does."""
        pairs, curved = max(2, -(-self.num_draws // 2)), -(-self.num_curved // 2)
        return GaussianSteps(self.max_steps, pairs, curved, self.tolerance)

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Twenty steps after the search."""
        actions = self.num_curved * 2 * self.directions_of(problem)
        search = GRADIENT * 20 * (1 + problem.num_coordinates / 10)
        return solve * (search + 20 * (GRADIENT * self.num_draws + actions))

    def directions_of(self, problem: InverseProblem) -> int:
        """How many are looked at."""
        size = problem.num_coordinates
        if self.num_modes is None:
            return num_directions(size, len(problem.observed))
        return min(self.num_modes, size)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        sides = self.directions_of(problem)
        density = exact_density(problem, self.linear_solver, num_rhs=sides)
        searching, own = jr.split(jr.key(work.seed))
        stored = work.checkpoint.restore(STAGE)
        begin = self.first(problem, density, searching, work) if stored is None else restore(stored)
        result = fit_gaussian(density, begin, self.steps, own, work)
        return self.build_posterior(problem, result, work)

    def first(
        self, problem: InverseProblem, density: AbstractDensity, key: PRNGKeyArray, work: Work
    ) -> FitState:
        """At the mode."""
        origin = search_origin(problem, density, self.start, work)
        sooner = work._replace(progress=False, deadline=work.deadline.sooner(SEARCHING))
        mode = find_map(density, SEARCH, origin, sooner)
        return init(density, mode.end, self.directions_of(problem), key)

    def build_posterior(self, problem: InverseProblem, state: FitState, work: Work) -> Posterior:
        """With its curves, and notes of what a reader must know."""
        family, last = state.family, state.curves[-1]
        informed = np.abs(np.asarray(family.information)) > NEGLIGIBLE
        narrowed = PriorUpdate(
            family.mean, family.directions[:, informed], family.information[informed]
        )
        curves = {name: jnp.asarray([row[name] for row in state.curves]) for name in last}
        notes = note_on_directions(family.information, problem.num_coordinates)
        if not has_converged(state, self.tolerance):
            steps, errors = len(state.curves), ("mean_error", "sd_error")
            sizes = {name: last[name] for name in (errors if state.num_averaged else ("step",))}
            cut = {"steps": steps, "is_cut": steps < self.max_steps}
            notes = (*notes, Note("variational_unconverged", **cut, **sizes))
        if state.num_failed:
            every = len(state.curves) * 2 * self.steps.num_pairs
            lost = state.num_failed
            notes = (*notes, Note("variational_no_solution", lost=lost, total=every))
        history = curves | {"eigenvalues": family.information}
        states = states_by(self.linear_solver)
        return Posterior(problem, narrowed, states, history, self.name, work.seed, notes)

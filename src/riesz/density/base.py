"""Which density of a problem a method works on: its settings, how it is made, and what belongs to
it.

A kind of density prepares a target for a method, which may mean to adapt an approximation to where
the posterior is, and makes a posterior of what the method ends with: coordinates with states.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from jaxtyping import Array

from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import Automatic
from riesz.fem.linear.multigrid.solver import Multigrid
from riesz.fem.root import require_float64
from riesz.method.base import AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.settings import Settings, as_solver
from riesz.notes import Note
from riesz.posterior.posterior import AbstractStateMap, ExactStates, Posterior, engine_label
from riesz.problem.problem import InverseProblem, in_precision


class Prepared(NamedTuple):
    """A target, and the states that go with draws of its coordinates."""

    target: TargetDensity
    states: AbstractStateMap
    history: dict[str, Array]
    notes: tuple[Note, ...] = ()


class AbstractDensityKind(Settings, ABC):
    """A posterior density of inverse problems, by its settings."""

    needs_float64: ClassVar[bool] = True  # it solves the equation on the whole mesh
    compiling: ClassVar[float] = 0.0  # seconds, roughly, beside those of a method

    def check(self, problem: InverseProblem) -> None:
        """Raise, before any work is done, where there is no such density of the problem."""
        if self.needs_float64:
            require_float64(problem.forward)

    def check_method(self, method: AbstractMethod) -> None:
        """Raise where settings of a method would do nothing."""

    @abstractmethod
    def cost(self, solve: float, problem: InverseProblem, method: AbstractMethod) -> float:
        """Seconds of computing, roughly, where an exact solve takes `solve` of them."""

    @abstractmethod
    def prepare(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Prepared:
        """What the method works on."""

    def posterior(self, problem: InverseProblem, method: AbstractMethod, work: Work) -> Posterior:
        """By a method, with notes that say what a reader must know."""
        prepared = self.prepare(problem, method, work)
        result = self.infer(prepared.target, method, work)
        result = Inferred(
            in_precision(result.distribution, problem.forward.dtype),
            prepared.history | result.history,
            (*prepared.notes, *result.notes),
        )
        return self.with_states(problem, method, result, prepared.states, work)

    def infer(self, target: TargetDensity, method: AbstractMethod, work: Work) -> Inferred:
        """By the method; approximations have more to do after it."""
        return method.infer(target, work)

    def with_states(
        self,
        problem: InverseProblem,
        method: AbstractMethod,
        result: Inferred,
        states: AbstractStateMap,
        work: Work,
    ) -> Posterior:
        label = engine_label(method.name, self.name)
        return Posterior(
            problem,
            result.distribution,
            states,
            result.history,
            label,
            work.seed,
            result.notes,
        )


def states_by(solver: Any) -> ExactStates:
    """Exact states by a solver; the tables of multigrid are made again rather than kept."""
    own = as_solver(solver)
    return ExactStates(Automatic() if isinstance(own, Multigrid) else own)


def require_plain_data(problem: InverseProblem, density: str) -> None:
    """Raise where data are not a linear function of one state at nodes with noise added."""
    why = None
    if problem.forward.space.element.degree != 1:
        why = "takes states that are linear in each cell, and these are quadratic"
    elif problem.others:
        why = f"takes one experiment, and there are {len(problem.forwards)}"
    elif problem.linear is None:
        what = problem.observations.what.describe()
        why = f"takes observations that are linear in the state, and there are {what}"
    elif not problem.likelihood.is_additive:
        why = f"takes noise that is added to the state, and it is {problem.likelihood.describe()}"
    if why is not None:
        raise RieszError(f"{density} {why}: use the density exact.")

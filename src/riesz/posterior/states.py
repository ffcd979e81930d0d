"""Which states go with draws of the unknowns: what separates exact engines from emulators."""

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.solve import solve
from riesz.penalty.precision import full_precision
from riesz.posterior.family import Draws
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import Surrogate, nodal_states


class AbstractStateMap(eqx.Module):
    """A state for each draw of the unknowns.

    A key comes in because a state need not be a function of the unknowns: where the equation
    holds only roughly, it is a draw itself.
    """

    @abstractmethod
    def __call__(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
    ) -> Float[Array, "draw node"]:
        """The states at the mesh nodes."""


class ExactStates(AbstractStateMap):
    """The equation is solved for each draw, one after the other to keep memory small."""

    linear_solver: AbstractLinearSolver = SparseLU()

    def __call__(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
    ) -> Float[Array, "draw node"]:
        def state(one: Float[Array, " coordinate"]) -> Float[Array, " node"]:
            return solve(problem.forward, problem.z(one), linear_solver=self.linear_solver)

        return jax.lax.map(state, coordinates)


class SurrogateStates(AbstractStateMap):
    """The surrogate at all mesh nodes: no equation is solved."""

    surrogate: Surrogate

    def __call__(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
    ) -> Float[Array, "draw node"]:
        with full_precision():
            return nodal_states(self.surrogate, problem.forward.cells.domain.nodes.T, coordinates)

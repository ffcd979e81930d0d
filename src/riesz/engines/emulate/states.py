"""States from a trained surrogate."""

from jaxtyping import Array, Float, PRNGKeyArray

from riesz.penalty.precision import full_precision
from riesz.posterior.family import Draws
from riesz.posterior.states import AbstractStateMap
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import Surrogate, nodal_states


class SurrogateStates(AbstractStateMap):
    """The surrogate at all mesh nodes: no equation is solved."""

    surrogate: Surrogate

    def __call__(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
    ) -> Float[Array, "draw node"]:
        with full_precision():
            return nodal_states(self.surrogate, problem.forward.cells.domain.nodes.T, coordinates)

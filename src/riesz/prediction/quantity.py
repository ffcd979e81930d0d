"""What can be predicted: functions of the problem, a state and the unknowns `z` that go with it.

Any such function will do; those here are the usual ones.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from riesz.errors import RieszError
from riesz.fem import evaluate
from riesz.fem.fluxes import budget, flux_through
from riesz.posterior.posterior import check_unknown
from riesz.problem.problem import InverseProblem, NodeValues
from riesz.problem.unknowns import FLUX, STATE

Quantity = Callable[[InverseProblem, NodeValues, Any], Any]
"""`quantity(problem, state, z)`."""


def node_values(problem: InverseProblem, state: Float[Array, " dof"]) -> NodeValues:
    """A state's values at the nodes alone: of quadratic elements, those at mid-edges follow."""
    return state[: problem.forward.space.mesh.num_nodes]


class StateAt(eqx.Module):
    """The state of an experiment at points, or at all nodes."""

    where: evaluate.EvaluationPoints | None = None
    experiment: int = eqx.field(static=True, default=0)

    def __call__(self, problem: InverseProblem, state: NodeValues, z: PyTree) -> evaluate.AtPoints:
        own = problem.states(state)[self.experiment]
        if self.where is None:
            return node_values(problem, own)
        return evaluate.states_at(problem.forwards[self.experiment], self.where, own, z)


class UnknownAt(eqx.Module):
    """An unknown at points; without points a field's nodal values, or the number itself."""

    name: str = eqx.field(static=True)
    where: evaluate.EvaluationPoints | None = None

    def __call__(
        self, problem: InverseProblem, state: NodeValues, z: PyTree
    ) -> Float[Array, "*shape"]:
        latent = problem.latents.latents[self.name]
        if self.where is None:
            return latent.display_value(z[self.name])
        coefficient = latent.coefficient(self.name)
        return evaluate.coefficients_at(problem.forward, self.where, coefficient, state, z)


class FluxAt(eqx.Module):
    r"""The vector $-a\nabla u$ at points, or in the middle of every cell."""

    where: evaluate.EvaluationPoints | None = None
    experiment: int = eqx.field(static=True, default=0)

    def __call__(
        self, problem: InverseProblem, state: NodeValues, z: PyTree
    ) -> Float[Array, "point dim"]:
        where = evaluate.centroids(problem.forward) if self.where is None else self.where
        own = problem.states(state)[self.experiment]
        return evaluate.fluxes_at(problem.forwards[self.experiment], where, own, z)


def has_flux(problem: InverseProblem) -> bool:
    """Whether a term of the equation moves anything."""

    def flux(problem: InverseProblem) -> Float[Array, "cell dim"]:
        dtype = problem.forward.dtype
        state = jnp.zeros(problem.forward.space.num_dofs, dtype)
        return FluxAt()(problem, state, problem.z(jnp.zeros(problem.num_coordinates, dtype)))

    try:
        eqx.filter_eval_shape(flux, problem)
    except RieszError:
        return False
    return True


class Outflow(eqx.Module):
    """What passes through tagged facets, from the gradient beside them; see `flux_through`."""

    on: str = eqx.field(static=True)
    out_of: str | None = eqx.field(static=True, default=None)
    experiment: int = eqx.field(static=True, default=0)

    def __call__(self, problem: InverseProblem, state: NodeValues, z: PyTree) -> Float[Array, ""]:
        forward, own = problem.forwards[self.experiment], problem.states(state)[self.experiment]
        return flux_through(forward, own, z, on=self.on, out_of=self.out_of)


class BudgetTerm(eqx.Module):
    """One line of the budget of the domain or a region, such as "prescribed on left".

    At exact states all lines balance to rounding, whatever the mesh; see `budget`.
    """

    name: str = eqx.field(static=True)
    region: str | None = eqx.field(static=True, default=None)
    experiment: int = eqx.field(static=True, default=0)

    def __call__(self, problem: InverseProblem, state: NodeValues, z: PyTree) -> Float[Array, ""]:
        forward, own = problem.forwards[self.experiment], problem.states(state)[self.experiment]
        result = budget(forward, own, z, region=self.region)
        lines = result.gains | result.outflows
        if self.name not in lines:
            raise RieszError(
                f"the budget has no line {self.name!r}: it has {', '.join(map(repr, lines))}."
            )
        return lines[self.name]


def quantity_named(
    problem: InverseProblem,
    name: str,
    where: evaluate.EvaluationPoints | None,
    experiment: int | None = None,
) -> Quantity:
    """The state "u", an unknown by its name, or the vector "flux"."""
    if problem.time is not None and name in (STATE, FLUX):
        raise RieszError(
            f"the equation is one in time, and {name!r} differs from date to date: ask for 'u' or "
            "'measurement' at times=..."
        )
    if name == STATE:
        return StateAt(where, which_experiment(problem, experiment))
    if name == FLUX and name not in problem.latents.names:
        return FluxAt(where, which_experiment(problem, experiment))
    try:
        check_unknown(problem, name)
    except RieszError:
        raise RieszError(
            f"there is no quantity {name!r}: ask for 'u', 'flux' or one of the unknowns "
            f"{', '.join(problem.latents.names)}, or pass a function (problem, state, z)."
        ) from None
    return UnknownAt(name, where)


def which_experiment(problem: InverseProblem, asked: int | None) -> int:
    """The one that was asked for; without a word, the only one."""
    count = len(problem.forwards)
    if asked is None and count > 1:
        raise RieszError(
            f"there are {count} experiments with a state each: say which, by experiment=0 to "
            f"{count - 1}."
        )
    if asked is not None and asked not in range(count):
        raise RieszError(
            f"experiment is {asked}, but there are {count}, counted from 0: give 0 to {count - 1}."
        )
    return asked or 0

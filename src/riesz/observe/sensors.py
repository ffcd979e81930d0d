"""Sensors on a mesh: what each reads off a state and the unknowns that go with it.

Those that are linear in the state are rows of a sparse operator, which every density can use;
others are functions of the state and the unknowns.
"""

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PyTree

from riesz.fem.assembly import residual
from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import Operator, functionals
from riesz.fem.evaluate import EvaluationPoints, coefficients_at, fluxes_at
from riesz.fem.fluxes import outflow
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import AbstractCoefficient

State = Float[Array, " node"]
AtSensors = Float[Array, " sensor"]


class AbstractSensors(eqx.Module):
    """What is read off a state and the unknowns that go with it, one number a sensor."""

    @abstractmethod
    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        """Without noise."""

    @property
    def operator(self) -> Operator | None:
        """The rows of those that are linear in the state and read nothing else."""
        return None


class LinearSensors(AbstractSensors):
    """Rows of a sparse operator."""

    rows: Operator

    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        return self.rows @ state

    @property
    def operator(self) -> Operator:
        return self.rows


class FluxComponents(AbstractSensors):
    """Components of the flux at points."""

    where: EvaluationPoints
    directions: Float[Array, "sensor dim"]

    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        return jnp.sum(fluxes_at(forward, self.where, state, z) * self.directions, axis=1)


class Outflows(AbstractSensors):
    """What passes stretches of facets: held unknowns, or facets with the cells beside them."""

    stretches: tuple[Int[Array, " _"] | Domain, ...]

    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        whole = None
        result = []
        for one in self.stretches:
            if isinstance(one, Domain):
                result.append(outflow(forward, one, state, z))
                continue
            # What the equation leaves unbalanced where the state is prescribed is what crosses.
            whole = residual(forward, state, z) if whole is None else whole
            result.append(-jnp.sum(whole[one]))
        return jnp.stack(result)


class CoefficientValues(AbstractSensors):
    """An unknown of the equation at points."""

    coefficient: AbstractCoefficient
    where: EvaluationPoints

    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        return coefficients_at(forward, self.where, self.coefficient, state, z)


class Logarithms(AbstractSensors):
    """Of what other sensors see."""

    of: AbstractSensors

    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        return jnp.log(self.of.predict(forward, state, z))


class SeveralSensors(AbstractSensors):
    """One after the other."""

    each: tuple[AbstractSensors, ...]

    def predict(self, forward: BoundaryValueProblem, state: State, z: PyTree) -> AtSensors:
        return jnp.concatenate([one.predict(forward, state, z) for one in self.each])

    @property
    def operator(self) -> Operator | None:
        return stack_operators([one.operator for one in self.each])


def stack_operators(
    operators: Sequence[Operator | None], *, apart: bool = False
) -> Operator | None:
    """All rows in one operator, where all are known: on one state, or on states one after the
    other, where they are `apart`."""
    known = [one for one in operators if one is not None]
    if len(known) < len(operators):
        return None
    if len(known) == 1:
        return known[0]
    matrices = [one.to_scipy() for one in known]
    whole = sp.block_diag(matrices) if apart else sp.vstack(matrices)
    return functionals(whole, np.asarray(known[0].weights).dtype)

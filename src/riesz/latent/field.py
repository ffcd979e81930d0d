"""Unknown functions of place: few weights in `z`, everything else in the equation.

Samples of the weights can then be mapped over without copying anything as large as the mesh, and a
training step evaluates a field only where its mini-patches are.
"""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from riesz.fem.coefficient import FUNCTION_DEGREE, AbstractCoefficient
from riesz.fem.domain import Domain
from riesz.fem.pointwise import Point


class AbstractField(eqx.Module):
    """A family of functions on the domain with finitely many weights."""

    @abstractmethod
    def gather(self, domain: Domain) -> PyTree[Array]:
        """What each entity needs to evaluate it, with the entity axis last."""

    @abstractmethod
    def at(
        self, local: PyTree[Array], point: Point, weights: Float[Array, " weight"]
    ) -> Float[Array, ""]:
        """The value at one point of one entity."""

    @abstractmethod
    def nodal(self, weights: Float[Array, " weight"]) -> Float[Array, " node"]:
        """The values at all mesh nodes."""


class FieldCoefficient(AbstractCoefficient):
    """A field in an equation; its weights are the entry of `z` with this name."""

    field: AbstractField
    name: str = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return self.field.gather(domain)

    def at(self, local: PyTree[Array], point: Point) -> Array:
        return self.field.at(local, point, point.z[self.name])

    def degree(self) -> int:
        return FUNCTION_DEGREE

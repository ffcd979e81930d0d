"""Fields that are known by their values at the nodes, and linear between them."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from riesz.fem.elements.domain import Domain
from riesz.fem.terms.pointwise import Point
from riesz.latent.field import AbstractField, Transform, cell_values, transformed


class NodalField(AbstractField):
    """Nodal values, linear in each cell, then transformed point by point."""

    mean: Float[Array, " node"]
    transform: Transform | None = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return jnp.asarray(domain.corners), self.mean[domain.corners]

    def at(
        self, local: PyTree[Array], point: Point, weights: Float[Array, " weight"]
    ) -> Float[Array, ""]:
        corners, mean = cell_values(local, "field known at the nodes")
        values = weights[corners] + mean
        inside = sum(values[i] * shape for i, shape in enumerate(point.barycentric))
        return transformed(self.transform, jnp.asarray(inside))

    def nodal(self, weights: Float[Array, " weight"]) -> Float[Array, " node"]:
        return transformed(self.transform, self.mean + weights)

    def degree(self) -> int:
        return 1 if self.transform is None else super().degree()

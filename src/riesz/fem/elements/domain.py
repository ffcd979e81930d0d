"""Where a term is integrated: the cells of a mesh, or facets seen from the cell beside them.

All arrays have the cell or facet axis last, so that the compiled loops run along memory.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.fem.elements.quadrature import Quadrature, quadrature
from riesz.fem.elements.space import Space
from riesz.mesh.facets import FacetSet, facet_measures, local_facets, outward_normals

StaticPoint = tuple[float, ...]


class Domain(eqx.Module):
    """Cells or facets, their geometry, and the quadrature points on them."""

    dofs: Int[Array, "local entity"]
    corners: Int[Array, "corner entity"]  # mesh nodes of the (adjacent) cell
    cell: Int[Array, " entity"] | None  # which cell; None: all cells in order
    nodes: Float[Array, "dim node"]
    inverse_jacobian: Float[Array, "dim dim entity"]
    measure: Float[Array, " entity"]  # length, area or volume
    normal: Float[Array, "dim entity"] | None  # out of the adjacent cell, for facets
    facet_points: Float[Array, "point corner entity"] | None
    cell_points: tuple[StaticPoint, ...] | None = eqx.field(static=True)
    weights: tuple[float, ...] = eqx.field(static=True)
    num_cells: int = eqx.field(static=True)  # of the whole mesh

    @property
    def dim(self) -> int:
        return self.nodes.shape[0]

    def sliced(self, start: Int[Array, ""], count: int) -> "Domain":
        """`count` of the cells, from `start` on; the domain must be one of cells."""

        def cut(array):
            return jax.lax.dynamic_slice_in_dim(array, start, count, axis=-1)

        return dataclasses.replace(
            self,
            dofs=cut(self.dofs),
            corners=cut(self.corners),
            cell=jnp.arange(count, dtype=jnp.int32) + start,
            inverse_jacobian=cut(self.inverse_jacobian),
            measure=cut(self.measure),
        )

    def taken(self, entities: Int[Array, " chosen"]) -> "Domain":
        """Chosen cells or facets, in any order; an index past the end stands for nothing."""

        def take(array):
            return None if array is None else jnp.take(array, entities, axis=-1, mode="clip")

        in_range = jnp.minimum(entities, len(self.measure) - 1)
        return dataclasses.replace(
            self,
            dofs=take(self.dofs),
            corners=take(self.corners),
            cell=in_range if self.cell is None else take(self.cell),
            inverse_jacobian=take(self.inverse_jacobian),
            measure=self.measure.at[entities].get(mode="fill", fill_value=0.0),
            normal=take(self.normal),
            facet_points=take(self.facet_points),
        )


def inverse_jacobians(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> Float[np.ndarray, "cell dim dim"]:
    """Rows are the gradients of barycentric coordinates 1, ..., dim."""
    # Columns of the Jacobian are the edges from corner 0.
    jacobian = np.swapaxes(nodes[cells[:, 1:]] - nodes[cells[:, :1]], 1, 2)
    return np.linalg.inv(jacobian)


def cell_domain(space: Space, degree: int, dtype: np.dtype) -> Domain:
    """All cells of a space, with a rule of the given degree."""
    mesh = space.mesh
    rule = quadrature(mesh.dim, degree)
    inverse = inverse_jacobians(mesh.nodes, mesh.cells)
    corners = jnp.asarray(mesh.cells.T, dtype=jnp.int32)
    return Domain(
        dofs=corners
        if space.element.degree == 1
        else jnp.asarray(space.cell_dofs.T, dtype=jnp.int32),
        corners=corners,
        cell=None,
        nodes=jnp.asarray(mesh.nodes.T, dtype=dtype),
        inverse_jacobian=jnp.asarray(np.moveaxis(inverse, 0, 2), dtype=dtype),
        measure=jnp.asarray(space.cell_volumes, dtype=dtype),
        normal=None,
        facet_points=None,
        cell_points=tuple(tuple(map(float, point)) for point in rule.points),
        weights=tuple(map(float, rule.weights)),
        num_cells=mesh.num_cells,
    )


def facet_domain(space: Space, facets: FacetSet, degree: int, dtype: np.dtype) -> Domain:
    """Given facets, with the shape functions of the cell beside each."""
    mesh = space.mesh
    rule = quadrature(mesh.dim - 1, degree)
    beside = mesh.cells[facets.cell]
    points = facet_barycentric(rule, facets.opposite, mesh.dim)
    inverse = inverse_jacobians(mesh.nodes, beside)
    return Domain(
        dofs=jnp.asarray(space.cell_dofs[facets.cell].T, dtype=jnp.int32),
        corners=jnp.asarray(beside.T, dtype=jnp.int32),
        cell=jnp.asarray(facets.cell, dtype=jnp.int32),
        nodes=jnp.asarray(mesh.nodes.T, dtype=dtype),
        inverse_jacobian=jnp.asarray(np.moveaxis(inverse, 0, 2), dtype=dtype),
        measure=jnp.asarray(facet_measures(mesh.nodes, facets.nodes), dtype=dtype),
        normal=jnp.asarray(outward_normals(mesh, facets).T, dtype=dtype),
        facet_points=jnp.asarray(np.swapaxes(points, 1, 2), dtype=dtype),
        cell_points=None,
        weights=tuple(map(float, rule.weights)),
        num_cells=mesh.num_cells,
    )


def facet_barycentric(
    rule: Quadrature, opposite: Int[np.ndarray, " facet"], dim: int
) -> Float[np.ndarray, "point facet corner"]:
    """Quadrature points on facets, in barycentric coordinates of the cell beside each."""
    corners = local_facets(dim)[opposite]
    points = np.zeros((len(rule.weights), len(opposite), dim + 1))
    for place, barycentric in zip(points, rule.points, strict=True):
        np.put_along_axis(place, corners, np.broadcast_to(barycentric, corners.shape), axis=1)
    return points

"""Where a term is integrated: the cells of a mesh, or facets seen from the cell beside them.

All arrays have the cell or facet axis last, so that the compiled loops run along memory.
Quadrature is on the reference simplex, in barycentric coordinates: low degrees use the symmetric
rules with the fewest points; higher degrees use collapsed Gauss-Jacobi products, exact for every
degree and with positive weights.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int
from scipy.special import roots_jacobi

from riesz.arrays import on_device
from riesz.errors import FormError
from riesz.fem.elements.space import Space
from riesz.mesh.facets import FacetSet, facet_measures, local_facets, outward_normals
from riesz.mesh.mesh import Mesh, cell_spans, cell_volumes, cross

StaticPoint = tuple[float, ...]


class Quadrature(eqx.Module):
    """Points and weights on a simplex; the weights add up to one, so that callers scale by volume.

    Weights relative to the volume serve intervals, triangles, tetrahedra and single points alike.
    """

    points: Float[np.ndarray, "point corner"]  # barycentric coordinates
    weights: Float[np.ndarray, " point"]


def quadrature(dim: int, degree: int) -> Quadrature:
    """A rule that integrates polynomials up to `degree` exactly on a simplex of dimension `dim`."""
    if degree < 0:
        raise FormError(f"the quadrature degree is {degree}: it must be zero or more.")
    if dim == 0:
        return Quadrature(np.ones((1, 1)), np.ones(1))
    if degree <= 1:
        return Quadrature(np.full((1, dim + 1), 1 / (dim + 1)), np.ones(1))
    if degree == 2 and dim > 1:
        return vertex_orbit(dim)
    if degree in (3, 4) and dim == 2:
        return dunavant_four()
    return gauss_on_simplex(dim, degree)


def vertex_orbit(dim: int) -> Quadrature:
    """One point towards each corner, exact to degree 2: on the line from centre to corner.

    With barycentric coordinates (a, b, ..., b) the second moments fix
    a = (1 + dim / sqrt(dim + 2)) / (dim + 1).
    """
    towards = (1 + dim / math.sqrt(dim + 2)) / (dim + 1)
    points = np.full((dim + 1, dim + 1), (1 - towards) / dim)
    np.fill_diagonal(points, towards)
    return Quadrature(points, np.full(dim + 1, 1 / (dim + 1)))


def dunavant_four() -> Quadrature:
    """Six points in two orbits (a, a, 1 - 2a), exact to degree 4 on triangles; Dunavant (1985)."""
    root_ten = math.sqrt(10)
    spread = math.sqrt(38 - 44 * math.sqrt(2 / 5))
    near, far = (8 - root_ten + spread) / 18, (8 - root_ten - spread) / 18
    share = math.sqrt(213125 - 53320 * root_ten)
    weights = ((620 + share) / 3720, (620 - share) / 3720)
    points = [np.roll([1 - 2 * a, a, a], shift) for a in (near, far) for shift in range(3)]
    return Quadrature(np.array(points), np.repeat(weights, 3))


def gauss_on_simplex(dim: int, degree: int) -> Quadrature:
    """Gauss-Jacobi points of the cube, mapped to the simplex by collapsing one face at a time."""
    count = degree // 2 + 1
    points, weights = np.ones((1, 1)), np.ones(1)  # of the simplex of dimension zero
    for k in range(1, dim + 1):
        # The cone over a simplex of dimension k - 1 has sections that shrink like (1 - s)^(k-1).
        nodes, masses = roots_jacobi(count, k - 1, 0)
        heights, masses = (1 + nodes) / 2, masses / masses.sum()
        base = points[None, :, :] * (1 - heights)[:, None, None]
        apex = np.broadcast_to(heights[:, None, None], (count, len(points), 1))
        points = np.concatenate([base, apex], axis=2).reshape(-1, k + 1)
        weights = np.outer(masses, weights).ravel()
    return Quadrature(points, weights)


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
    # Weighs integrals with the circle that each point sweeps; `measure` is that of the section.
    axisymmetric: bool = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return self.nodes.shape[0]

    @property
    def vertices(self) -> Float[Array, "corner dim entity"]:
        """Coordinates of the corners of each (adjacent) cell."""
        return jnp.moveaxis(self.nodes[:, self.corners], 0, 1)

    def slice_cells(self, start: Int[Array, ""], count: int) -> "Domain":
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

    def take(self, entities: Int[Array, " chosen"]) -> "Domain":
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
) -> Float[np.ndarray, "dim dim cell"]:
    """Rows are the gradients of barycentric coordinates 1, ..., dim."""
    inverse, _ = inverses_and_determinants(nodes, cells)
    return inverse


def stiffness(mesh: Mesh) -> sp.csr_array:
    """The Laplacian's matrix on all nodes, in double precision whatever the problem's."""
    slopes = inverse_jacobians(mesh.nodes, mesh.cells)
    slopes = np.concatenate([-slopes.sum(axis=0, keepdims=True), slopes])
    volumes = cell_volumes(mesh.nodes, mesh.cells)
    entries = np.einsum("idc,jdc,c->cij", slopes, slopes, volumes)
    rows = np.broadcast_to(mesh.cells[:, :, None], entries.shape)
    columns = np.broadcast_to(mesh.cells[:, None, :], entries.shape)
    places = (rows.ravel(), columns.ravel())
    shape = (mesh.num_nodes, mesh.num_nodes)
    return sp.coo_array((entries.ravel(), places), shape=shape).tocsr()


def inverses_and_determinants(
    nodes: Float[np.ndarray, "node dim"], cells: Int[np.ndarray, "cell corner"]
) -> tuple[Float[np.ndarray, "dim dim cell"], Float[np.ndarray, " cell"]]:
    """Of the Jacobians of the maps from the reference cell."""
    spans = cell_spans(nodes, cells)  # the columns of the Jacobians
    match dim := nodes.shape[1]:
        case 1:
            rows = [[np.ones(len(cells))]]
        case 2:
            (a, b), (c, d) = spans
            rows = [[d, -c], [-b, a]]
        case _:
            rows = [cross(spans[i - 2], spans[i - 1]) for i in range(3)]
    determinant = np.zeros(len(cells))
    for along, cofactor in zip(spans[0], rows[0], strict=True):
        determinant += along * cofactor
    inverse = np.empty((dim, dim, len(cells)))
    for place, cofactor in zip(
        inverse.reshape(-1, len(cells)), (one for row in rows for one in row), strict=True
    ):
        np.divide(cofactor, determinant, out=place)
    return inverse, determinant


def cell_domain(space: Space, degree: int, dtype: np.dtype) -> Domain:
    """All cells of a space, with a rule of the given degree, or one more for the weight r."""
    mesh = space.mesh
    rule = quadrature(mesh.dim, degree + space.axisymmetric)
    inverse, determinant = inverses_and_determinants(mesh.nodes, mesh.cells)
    corners = on_device(mesh.cells.T, np.int32)
    return Domain(
        dofs=corners if space.element.degree == 1 else on_device(space.cell_dofs.T, np.int32),
        corners=corners,
        cell=None,
        nodes=on_device(mesh.nodes.T, dtype),
        inverse_jacobian=on_device(inverse, dtype),
        measure=on_device(determinant / math.factorial(mesh.dim), dtype),
        normal=None,
        facet_points=None,
        cell_points=tuple(tuple(map(float, point)) for point in rule.points),
        weights=tuple(map(float, rule.weights)),
        num_cells=mesh.num_cells,
        axisymmetric=space.axisymmetric,
    )


def facet_domain(space: Space, facets: FacetSet, degree: int, dtype: np.dtype) -> Domain:
    """Given facets, with the shape functions of the cell beside each."""
    mesh = space.mesh
    rule = quadrature(mesh.dim - 1, degree + space.axisymmetric)
    beside = mesh.cells[facets.cell]
    points = facet_barycentric(rule, facets.opposite, mesh.dim)
    inverse = inverse_jacobians(mesh.nodes, beside)
    return Domain(
        dofs=on_device(space.cell_dofs[facets.cell].T, np.int32),
        corners=on_device(beside.T, np.int32),
        cell=on_device(facets.cell, np.int32),
        nodes=on_device(mesh.nodes.T, dtype),
        inverse_jacobian=on_device(inverse, dtype),
        measure=on_device(facet_measures(mesh.nodes, facets.nodes), dtype),
        normal=on_device(outward_normals(mesh, facets).T, dtype),
        facet_points=on_device(np.swapaxes(points, 1, 2), dtype),
        cell_points=None,
        weights=tuple(map(float, rule.weights)),
        num_cells=mesh.num_cells,
        axisymmetric=space.axisymmetric,
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

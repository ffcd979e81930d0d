"""A finite-element space: a mesh, an element, and the numbering of its unknowns.

Lagrange elements P1 and P2: shape functions are polynomials in barycentric coordinates. They take
plain numbers (a quadrature point common to all cells, folded into the compiled code as constants)
and traced scalars (a point that differs from cell to cell) alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.core import Tracer
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.errors import FormError
from riesz.mesh.facets import cell_edges
from riesz.mesh.location import ROUNDING, locate
from riesz.mesh.mesh import Mesh, mesh_digest
from riesz.mesh.rows import pair_keys


class Lagrange(eqx.Module):
    """Continuous piecewise polynomials of degree 1 or 2 with values at nodes (and mid-edges)."""

    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __check_init__(self):
        if self.degree not in (1, 2):
            raise FormError(f"elements have degree 1 or 2, not {self.degree}.")
        if self.degree == 2 and self.dim == 3:
            raise FormError("tetrahedra have degree 1 only: refine the mesh, or use degree=1.")

    @property
    def num_local(self) -> int:
        """How many shape functions a cell has."""
        corners = self.dim + 1
        return corners if self.degree == 1 else corners * (corners + 1) // 2

    def edges(self) -> list[tuple[int, int]]:
        """Pairs of corners with a mid-edge shape function, in the order of `mesh.facets`."""
        return list(combinations(range(self.dim + 1), 2)) if self.degree == 2 else []

    def values(self, point: Sequence) -> list:
        """Shape functions at a point given by its barycentric coordinates."""
        if self.degree == 1:
            return list(point)
        corners = [s * (2 * s - 1) for s in point]
        return corners + [4 * point[a] * point[b] for a, b in self.edges()]

    def gradients(self, point: Sequence) -> list[list]:
        r"""$\partial\phi_i/\partial\xi_d$ in reference coordinates $\xi_d$ = barycentric $d+1$."""
        return [
            [by_corner[d + 1] - by_corner[0] for d in range(self.dim)]
            for by_corner in self.barycentric_derivatives(point)
        ]

    def barycentric_derivatives(self, point: Sequence) -> list[list]:
        """Derivatives of each shape function by each barycentric coordinate."""
        corners = range(self.dim + 1)
        if self.degree == 1:
            return [[float(i == a) for a in corners] for i in corners]
        at_corners = [[(4 * point[i] - 1) if i == a else 0.0 for a in corners] for i in corners]
        at_edges = [
            [4 * point[q] if a == p else 4 * point[p] if a == q else 0.0 for a in corners]
            for p, q in self.edges()
        ]
        return at_corners + at_edges


@dataclass(frozen=True, eq=False)
class Space:
    """Continuous piecewise polynomials on a mesh.

    Static under jit: what was compiled for one serves all whose meshes have the same content.

    Unknown (degree of freedom) `i` is the value at the mesh node `i`; with degree 2 the values at
    mid-edges follow. On an axisymmetric space coordinates are (r) or (r, z) and nothing depends on
    the angle: integrals are over the body that the mesh sweeps about the axis r = 0.
    """

    mesh: Mesh
    element: Lagrange
    points: Float[np.ndarray, "dof dim"]  # where each unknown is the value
    cell_dofs: Int[np.ndarray, "cell local"]
    edges: Int[np.ndarray, "edge 2"]  # end nodes of the edges that carry an unknown
    axisymmetric: bool = False

    def __post_init__(self):
        if self.axisymmetric:
            check_radii(self.mesh)

    @property
    def num_dofs(self) -> int:
        return len(self.points)

    @cached_property
    def content(self) -> tuple[str, int, bool]:
        """Which is asked for only where another one has the same sizes."""
        return mesh_digest(self.mesh), self.element.degree, self.axisymmetric

    def __hash__(self) -> int:
        return hash((self.num_dofs, len(self.cell_dofs)))

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Space):
            return self is other
        return hash(self) == hash(other) and self.content == other.content

    def __repr__(self) -> str:
        about = "about an axis, " if self.axisymmetric else ""
        return f"Space(P{self.element.degree}, {about}{self.num_dofs} unknowns on {self.mesh!r})"


def check_radii(mesh: Mesh) -> None:
    if mesh.dim == 3:
        raise FormError(
            "an axisymmetric space is on a mesh in (r) or (r, z), and this one has three "
            "dimensions: give a section through the axis, or leave axisymmetric out."
        )
    radius = mesh.nodes[:, 0]
    (bad,) = np.nonzero(radius < 0)
    if bad.size:
        raise FormError(
            f"{bad.size} of {mesh.num_nodes} nodes have a negative radius, the least "
            f"{radius.min():.6g}: on an axisymmetric space the first coordinate is the distance "
            "from the axis; give one half of the section."
        )


def P1(mesh: Mesh, *, axisymmetric: bool = False) -> Space:
    """Continuous piecewise linear functions, by their values at the nodes.

    With `axisymmetric` the mesh is in (r) or (r, z), and integrals carry the weight 2 pi r.
    """
    return Space(
        mesh=mesh,
        element=Lagrange(mesh.dim, 1),
        points=mesh.nodes,
        cell_dofs=mesh.cells,
        edges=np.zeros((0, 2), dtype=mesh.cells.dtype),
        axisymmetric=axisymmetric,
    )


def P2(mesh: Mesh, *, axisymmetric: bool = False) -> Space:
    """Continuous piecewise quadratic functions, by their values at nodes and mid-edges.

    With `axisymmetric` the mesh is in (r) or (r, z), and integrals carry the weight 2 pi r.
    """
    element = Lagrange(mesh.dim, 2)
    edges, edges_of_cells = cell_edges(mesh)
    return Space(
        mesh=mesh,
        element=element,
        points=np.concatenate([mesh.nodes, mesh.nodes[edges].mean(axis=1)]),
        cell_dofs=np.concatenate([mesh.cells, mesh.num_nodes + edges_of_cells], axis=1),
        edges=edges,
        axisymmetric=axisymmetric,
    )


def facet_dofs(space: Space, facets: Int[np.ndarray, "facet dim"]) -> Int[np.ndarray, " dof"]:
    """Unknowns that determine a function on the given facets, sorted."""
    nodes = np.unique(facets)
    if space.element.degree == 1 or space.mesh.dim == 1:
        return nodes
    ends = np.sort(facets, axis=1)
    keys = pair_keys(space.edges, space.mesh.num_nodes)
    edges = np.searchsorted(keys, np.unique(pair_keys(ends, space.mesh.num_nodes)))
    return np.concatenate([nodes, space.mesh.num_nodes + edges])


class PointOperator(eqx.Module):
    """Values at points from the unknowns of a space; differentiable, and transposable."""

    cells: Int[Array, " point"]
    dofs: Int[Array, "local point"]
    weights: Float[Array, "local point"]
    num_dofs: int = eqx.field(static=True)

    def __matmul__(self, state: Float[Array, " dof"]) -> Float[Array, " point"]:
        if state.shape != (self.num_dofs,):
            raise FormError(
                f"the state has shape {state.shape}, but the space has {self.num_dofs} unknowns."
            )
        return self.combine(state[self.dofs])

    @property
    def num_rows(self) -> int:
        return self.dofs.shape[1]

    def combine(self, values: Float[Array, "local point"]) -> Float[Array, " point"]:
        """The same from the state's values at `dofs` alone."""
        return jnp.sum(self.weights * values, axis=0)

    def transpose_product(self, rates: Float[Array, " point"]) -> Float[Array, " dof"]:
        """Point loads: the shape functions at each point times its rate, summed."""
        loads = self.weights * rates[None, :]
        return jnp.zeros(self.num_dofs, loads.dtype).at[self.dofs].add(loads)

    def to_scipy(self) -> sp.csr_array:
        local, num_points = self.dofs.shape
        rows = np.tile(np.arange(num_points), local)
        entries = (np.asarray(self.weights).ravel(), (rows, np.asarray(self.dofs).ravel()))
        return sp.coo_array(entries, shape=(num_points, self.num_dofs)).tocsr()


class Functionals(eqx.Module):
    """Linear functions of the unknowns of a space, such as averages: rows of a sparse matrix."""

    rows: Int[Array, " entry"]
    dofs: Int[Array, " entry"]
    weights: Float[Array, " entry"]
    num_rows: int = eqx.field(static=True)
    num_dofs: int = eqx.field(static=True)

    def __matmul__(self, state: Float[Array, " dof"]) -> Float[Array, " row"]:
        if state.shape != (self.num_dofs,):
            raise FormError(
                f"the state has shape {state.shape}, but the space has {self.num_dofs} unknowns."
            )
        return self.combine(state[self.dofs])

    def combine(self, values: Float[Array, " entry"]) -> Float[Array, " row"]:
        """The same from the state's values at `dofs` alone."""
        nothing = jnp.zeros(self.num_rows, jnp.result_type(values, self.weights))
        return nothing.at[self.rows].add(self.weights * values)

    def transpose_product(self, rates: Float[Array, " row"]) -> Float[Array, " dof"]:
        """The rows times their rates, summed."""
        loads = self.weights * rates[self.rows]
        return jnp.zeros(self.num_dofs, loads.dtype).at[self.dofs].add(loads)

    def to_scipy(self) -> sp.csr_array:
        entries = (np.asarray(self.weights), (np.asarray(self.rows), np.asarray(self.dofs)))
        return sp.coo_array(entries, shape=(self.num_rows, self.num_dofs)).tocsr()


Operator = PointOperator | Functionals


def functionals(matrix: Any, dtype: np.dtype | None = None) -> Functionals:
    """Rows of one of SciPy's sparse matrices."""
    entries = sp.coo_array(matrix)
    rows, columns = entries.coords
    return Functionals(
        rows=jnp.asarray(rows, dtype=jnp.int32),
        dofs=jnp.asarray(columns, dtype=jnp.int32),
        weights=jnp.asarray(entries.data, dtype=dtype),
        num_rows=matrix.shape[0],
        num_dofs=matrix.shape[1],
    )


def point_operator(
    space: Space,
    points: ArrayLike,
    *,
    dtype: np.dtype | None = None,
    tolerance: float | None = None,
) -> PointOperator:
    """Evaluate functions of a space at points, given by one row of coordinates each.

    Raises where a point lies outside the mesh by more than `tolerance` (a length; within it, the
    nearest point of the boundary is taken). Inside jit, vmap and grad points may be traced, and
    values are differentiable in them: those outside are then NaN.
    """
    if isinstance(points, Tracer):
        return trace_operator(space, points)
    result = locate(
        space.mesh, np.asarray(points, dtype=float), tolerance=tolerance, outside="raise"
    )
    weights = np.stack(space.element.values(list(result.barycentric.T)))
    return PointOperator(
        cells=on_device(result.cell, np.int32),
        dofs=on_device(space.cell_dofs[result.cell].T, np.int32),
        weights=on_device(weights, dtype),
        num_dofs=space.num_dofs,
    )


def trace_operator(space: Space, points: Float[Array, "point dim"]) -> PointOperator:
    """By a search through all cells, in a program.

    Which cell holds a point changes by jumps and has no derivative; where in it the point lies has.
    """
    corners = space.mesh.nodes[space.mesh.cells]
    edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
    origins, inverses = on_device(corners[:, 0], points.dtype), np.linalg.inv(edges)
    inverses = on_device(inverses, points.dtype)

    def barycentric(
        x: Float[Array, "*cell dim"],
        origin: Float[Array, "*cell dim"],
        inverse: Float[Array, "*cell dim dim"],
    ) -> Float[Array, "*cell corner"]:
        others = jnp.einsum("...ij,...j->...i", inverse, x - origin)
        return jnp.concatenate([1 - others.sum(axis=-1, keepdims=True), others], axis=-1)

    def weights_at(x: Float[Array, " dim"]) -> tuple[Int[Array, ""], Float[Array, " local"]]:
        held = jnp.broadcast_to(jax.lax.stop_gradient(x), origins.shape)
        depth = barycentric(held, origins, inverses).min(axis=-1)
        cell = jnp.argmax(depth)
        inside = barycentric(x, origins[cell], inverses[cell])
        values = jnp.stack(space.element.values(list(inside)))
        return cell, jnp.where(depth[cell] >= -ROUNDING, values, jnp.nan)

    cells, weights = jax.vmap(weights_at)(points)
    dofs = on_device(space.cell_dofs, np.int32)[cells]
    return PointOperator(cells, dofs.T, weights.T, space.num_dofs)

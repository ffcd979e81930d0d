r"""The surrogate $\mu(x, z)$: a network, normalised, with its boundary values built in.

$u = g(x, z) + \omega(x)\,n(x, z)$, where the factor $\omega$ solves $-\Delta\omega = 1$ with
$\omega = 0$ on the Dirichlet part only: it behaves as solutions do at corners and where conditions
meet. The lifting $g$ extends the prescribed values harmonically; where they depend on the unknowns
they must do so affinely, so that a few columns of nodal values say it all. (Trial functions of this
form: Lagaris, Likas & Fotiadis 1998.)
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Array, Float, Int, PyTree

from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values
from riesz.fem.elements.domain import inverse_jacobians
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.recovery import recovered_gradients
from riesz.latent.space import LatentSpace
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.penalty.rows import AbstractPlacedState, Place, values_at_nodes
from riesz.surrogate.networks import AbstractNetwork

AFFINE_TOLERANCE = 1e-6

COORDINATES = "riesz:coordinates"
"""The entry of `z` that holds the standard normal coordinates which a surrogate reads."""


class NodalFunctions(eqx.Module):
    """Several functions at once, with gradients recovered at the nodes.

    On coarse levels a penalty differentiates at a few points of large cells. The gradient inside
    one fine cell would be a rough sample there; the recovered one is accurate to second order.
    """

    values: Float[Array, "node column"]
    gradients: Float[Array, "node dim column"]

    def at(self, place: Place) -> Float[Array, " column"]:
        """Values at one place, with the recovered gradient as derivative by the coordinates."""
        weights = place.barycentric
        values = jnp.einsum("c,cf->f", weights, self.values[place.corners])
        slopes = jnp.einsum("c,cdf->df", weights, self.gradients[place.corners])
        step = place.x - jax.lax.stop_gradient(place.x)
        return values + step @ slopes


def nodal_functions(
    mesh: Mesh, values: Float[np.ndarray, "node column"], dtype: np.dtype
) -> NodalFunctions:
    """Functions from their nodal values, one a column."""
    gradients = recovered_gradients(mesh, values)
    return NodalFunctions(jnp.asarray(values, dtype), jnp.asarray(gradients, dtype))


class BoundaryValues(eqx.Module):
    """The factor and the lifting, as nodal arrays of the finest mesh."""

    functions: NodalFunctions  # factor, lifting at the origin, lifting of each moving coordinate
    moving: Int[Array, " moving"]  # coordinates that the prescribed values depend on

    def at(
        self, place: Place, coordinates: Float[Array, " coordinate"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The factor and the lifting at one place."""
        columns = self.functions.at(place)
        return columns[0], columns[1] + columns[2:] @ coordinates[self.moving]


class AffineValues(NamedTuple):
    """Prescribed values at the origin, and their slopes by the coordinates that move them."""

    start: Float[np.ndarray, " fixed"]
    slopes: Float[np.ndarray, "fixed moving"]
    moving: Int[np.ndarray, " moving"]


def boundary_values(problem: BoundaryValueProblem, prescribed: AffineValues) -> BoundaryValues:
    """The factor and the lifting for a problem's Dirichlet conditions."""
    mesh = problem.space.mesh
    if len(problem.fixed):
        values = np.column_stack([prescribed.start, prescribed.slopes])
        columns = factor_and_lifting(problem, values)
    else:
        columns = np.eye(1, 2).repeat(mesh.num_nodes, axis=0)  # nothing prescribed: 1 and 0
    return BoundaryValues(
        nodal_functions(mesh, columns, problem.dtype), jnp.asarray(prescribed.moving, jnp.int32)
    )


def affine_values(problem: BoundaryValueProblem, latents: LatentSpace) -> AffineValues:
    """The prescribed values by the coordinates; raises where they are not affine in them."""

    def values(coordinates):
        return dirichlet_values(problem, latents.z(coordinates))

    origin = jnp.zeros(latents.num_coordinates, problem.dtype)
    start = np.asarray(values(origin), dtype=float)
    slopes = np.asarray(jax.jacfwd(values)(origin), dtype=float)
    (moving,) = np.nonzero(np.abs(slopes).max(axis=0, initial=0.0))
    far = np.random.default_rng(0).normal(size=latents.num_coordinates)
    gap = np.asarray(values(jnp.asarray(far, problem.dtype))) - start - slopes @ far
    size = np.abs(start).max(initial=0.0) + np.abs(slopes @ far).max(initial=0.0)
    if (
        np.abs(gap).max(initial=0.0)
        > max(AFFINE_TOLERANCE, 1e3 * np.finfo(problem.dtype).eps) * size
    ):
        raise RieszError(
            "the Dirichlet values depend on the unknowns, but not affinely: give them priors that "
            "are normal, not of their logarithm, or use the engine nuts."
        )
    return AffineValues(start, slopes[:, moving], moving)


def factor_and_lifting(
    problem: BoundaryValueProblem, prescribed: Float[np.ndarray, "fixed column"]
) -> Float[np.ndarray, "node columns"]:
    """The factor (one at its largest), and the harmonic extension of each column of values."""
    mesh = problem.space.mesh
    free, fixed = np.asarray(problem.free), np.asarray(problem.fixed)
    poisson = stiffness(mesh)
    loads = np.zeros((mesh.num_nodes, 1))
    corners = mesh.cells.shape[1]
    np.add.at(loads[:, 0], mesh.cells, cell_volumes(mesh.nodes, mesh.cells)[:, None] / corners)
    pull = -(poisson[free][:, fixed] @ prescribed)
    inside = spla.splu(poisson[free][:, free].tocsc()).solve(np.hstack([loads[free], pull]))
    inside[:, 0] /= inside[:, 0].max()
    columns = np.zeros((mesh.num_nodes, inside.shape[1]))
    columns[free] = inside
    columns[fixed, 1:] = prescribed
    return columns


def stiffness(mesh: Mesh) -> sp.csr_array:
    """The Laplacian's matrix on all nodes, in double precision whatever the problem's."""
    slopes = inverse_jacobians(mesh.nodes, mesh.cells)
    slopes = np.concatenate([-slopes.sum(axis=1, keepdims=True), slopes], axis=1)
    volumes = cell_volumes(mesh.nodes, mesh.cells)
    entries = np.einsum("cid,cjd,c->cij", slopes, slopes, volumes)
    rows = np.broadcast_to(mesh.cells[:, :, None], entries.shape)
    columns = np.broadcast_to(mesh.cells[:, None, :], entries.shape)
    places = (rows.ravel(), columns.ravel())
    shape = (mesh.num_nodes, mesh.num_nodes)
    return sp.coo_array((entries.ravel(), places), shape=shape).tocsr()


class Frame(eqx.Module):
    """Where the domain lies and how large the state is: inputs and outputs of size one."""

    centre: Float[Array, " dim"]
    half_width: Float[Array, ""]
    output_scale: Float[Array, ""]

    def inside(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Coordinates between minus one and one."""
        return (x - self.centre) / self.half_width


class Surrogate(AbstractPlacedState):
    """A state for every value of the unknowns."""

    network: AbstractNetwork
    boundary: BoundaryValues
    frame: Frame

    def at(self, place: Place, z: PyTree) -> Float[Array, ""]:
        coordinates = z[COORDINATES]
        inner = self.network(self.frame.inside(place.x), coordinates)
        return self.shaped(place, coordinates, inner)

    def shaped(
        self, place: Place, coordinates: Float[Array, " coordinate"], inner: Float[Array, ""]
    ) -> Float[Array, ""]:
        """A network's value in physical units, with the boundary values built in."""
        factor, lifting = self.boundary.at(place, coordinates)
        return lifting + self.frame.output_scale * factor * inner


def frame_of(mesh: Mesh, output_scale: float, dtype: np.dtype) -> Frame:
    """The frame of a mesh: aspect ratio kept, so that all directions look alike."""
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
    return Frame(
        jnp.asarray((low + high) / 2, dtype),
        jnp.asarray((high - low).max() / 2, dtype),
        jnp.asarray(output_scale, dtype),
    )


def nodal_states(
    surrogate: Surrogate,
    nodes: Float[Array, "node dim"],
    coordinates: Float[Array, "draw coordinate"],
) -> Float[Array, "draw node"]:
    """The surrogate's values at all nodes, for several values of the unknowns."""
    indices = jnp.arange(len(nodes))
    return jax.vmap(lambda c: values_at_nodes(surrogate, indices, nodes, {COORDINATES: c}))(
        coordinates
    )

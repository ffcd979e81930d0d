r"""The surrogate $\mu(x, z)$: a network, normalised, with its boundary values built in.

$u = g(x, z) + \omega(x)\,n(x, z)$, where the factor $\omega$ solves $-\Delta\omega = 1$ with
$\omega = 0$ on the Dirichlet part only: it behaves as solutions do at corners and where conditions
meet. The lifting $g$ extends the prescribed values harmonically; where they depend on the unknowns
they must do so affinely, so that a few columns of nodal values say it all. (Trial functions of this
form: Lagaris, Likas & Fotiadis 1998.)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values
from riesz.fem.elements.domain import stiffness
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.time.problem import at_time
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.penalty.rows import AbstractPlacedState, Place, values_at_nodes
from riesz.priors.latent import LatentSpace
from riesz.surrogate.networks import TrunkBranch

Columns = Float[np.ndarray, "node column"]
Scalar = Float[Array, ""]

NODES_AT_ONCE = 20_000
"""Bounds the memory of the fits."""

RIDGE = 1e-9
"""Where too few neighbours fix a quadratic, the smallest one is taken."""

AFFINE_TOLERANCE = 1e-6

COORDINATES = "riesz:coordinates"
"""The entry of `z` that holds the standard normal coordinates which a surrogate reads."""

Coordinates = Float[Array, " coordinate"]


def recover_gradients(mesh: Mesh, values: Columns) -> Float[np.ndarray, "node dim column"]:
    """The gradients of several nodal functions at every node."""
    near = nodes_within_two_edges(mesh)
    gradients = np.empty((mesh.num_nodes, mesh.dim, values.shape[1]))
    for start in range(0, mesh.num_nodes, NODES_AT_ONCE):
        part = slice(start, min(start + NODES_AT_ONCE, mesh.num_nodes))
        gradients[part] = fit_gradients(mesh, values, pad_columns(near[part]), part)
    return gradients


def nodes_within_two_edges(mesh: Mesh) -> sp.csr_array:
    """Which nodes lie within two edges of each other."""
    corners = mesh.cells.shape[1]
    rows = np.repeat(mesh.cells, corners, axis=1).ravel()
    columns = np.tile(mesh.cells, (1, corners)).ravel()
    shape = (mesh.num_nodes, mesh.num_nodes)
    adjacent = sp.coo_array((np.ones(len(rows), np.int32), (rows, columns)), shape=shape).tocsr()
    return sp.csr_array(adjacent @ adjacent)


def pad_columns(rows: sp.csr_array) -> Int[np.ndarray, "node near"]:
    """The column indices of each row; -1 fills up."""
    counts = np.diff(rows.indptr)
    table = np.full((len(counts), counts.max()), -1)
    row = np.repeat(np.arange(len(counts)), counts)
    table[row, np.arange(len(row)) - np.repeat(rows.indptr[:-1], counts)] = rows.indices
    return table


def fit_gradients(
    mesh: Mesh, values: Columns, near: Int[np.ndarray, "chosen near"], chosen: slice
) -> Float[np.ndarray, "chosen dim column"]:
    there = (near >= 0)[:, :, None]
    steps = np.where(there, mesh.nodes[near] - mesh.nodes[chosen][:, None], 0.0)
    size = np.abs(steps).max(axis=(1, 2), keepdims=True)
    local = steps / size
    pairs = np.triu_indices(mesh.dim)
    # Without a constant: the polynomial passes through the node's own value.
    monomials = np.concatenate([local, local[..., pairs[0]] * local[..., pairs[1]]], axis=2)
    rises = np.where(there, values[near] - values[chosen][:, None], 0.0)
    normal = np.einsum("nki,nkj->nij", monomials, monomials)
    trace = np.trace(normal, axis1=1, axis2=2)[:, None, None]
    normal += RIDGE * trace * np.eye(normal.shape[1])
    fitted = np.linalg.solve(normal, np.einsum("nki,nkc->nic", monomials, rises))
    return fitted[:, : mesh.dim] / size


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


def nodal_functions(mesh: Mesh, values: Columns, dtype: np.dtype) -> NodalFunctions:
    """Functions from their nodal values, one a column."""
    gradients = recover_gradients(mesh, values)
    return NodalFunctions(jnp.asarray(values, dtype), jnp.asarray(gradients, dtype))


class BoundaryValues(eqx.Module):
    """The factor and the lifting, as nodal arrays of the finest mesh."""

    functions: NodalFunctions  # factor, lifting at the origin, lifting of each moving coordinate
    moving: Int[Array, " moving"]  # coordinates that the prescribed values depend on

    def at(self, place: Place, coordinates: Coordinates) -> tuple[Scalar, Scalar]:
        """The factor and the lifting at one place."""
        columns = self.functions.at(place)
        return columns[0], columns[1] + columns[2:] @ coordinates[self.moving]


def boundary_values(problem: BoundaryValueProblem, latents: LatentSpace) -> BoundaryValues:
    """The factor and the lifting for a problem's Dirichlet conditions; raises where their values
    are not affine in the coordinates."""
    mesh = problem.space.mesh
    start, slopes = affine_in_coordinates(problem, latents, None)
    (moving,) = np.nonzero(np.abs(slopes).max(axis=0, initial=0.0))
    if len(problem.fixed):
        columns = factor_and_lifting(problem, np.column_stack([start, slopes[:, moving]]))
    else:
        columns = np.eye(1, 2).repeat(mesh.num_nodes, axis=0)  # nothing prescribed: 1 and 0
    functions = nodal_functions(mesh, columns, problem.dtype)
    return BoundaryValues(functions, jnp.asarray(moving, jnp.int32))


@eqx.filter_jit
def prescribed_values(
    problem: BoundaryValueProblem, latents: LatentSpace, far: Coordinates, times: Array | None
) -> tuple[
    Float[Array, "*time fixed"],
    Float[Array, "*time fixed coordinate"],
    Float[Array, "*time fixed"],
]:
    """Prescribed values and their slopes at the origin, and the values far from it; at all times
    where there are some."""
    origin = jnp.zeros_like(far)

    def at(time: Scalar | None):
        def values(coordinates: Coordinates) -> Float[Array, " fixed"]:
            z = latents.z(coordinates)
            return dirichlet_values(problem, z if time is None else at_time(z, time))

        return values(origin), jax.jacfwd(values)(origin), values(far)

    return at(None) if times is None else jax.lax.map(at, times)


def affine_in_coordinates(
    problem: BoundaryValueProblem, latents: LatentSpace, times: Float[np.ndarray, " time"] | None
) -> tuple[Float[np.ndarray, "*time fixed"], Float[np.ndarray, "*time fixed coordinate"]]:
    """Prescribed values at the origin and their slopes; raises where values far from it do not
    follow."""
    far = np.random.default_rng(0).normal(size=latents.num_coordinates)
    place = on_device(far, problem.dtype)
    when = None if times is None else on_device(times)
    result = prescribed_values(problem, latents, place, when)
    start, slopes, there = (np.asarray(one, dtype=float) for one in result)
    gap = np.abs(there - start - slopes @ far).max(initial=0.0)
    size = np.abs(start).max(initial=0.0) + np.abs(slopes @ far).max(initial=0.0)
    if gap > max(AFFINE_TOLERANCE, 1e3 * np.finfo(problem.dtype).eps) * size:
        raise RieszError(
            "the Dirichlet values depend on the unknowns, but not affinely: give them priors that "
            "are normal, not of their logarithm, or use the density exact."
        )
    return start, slopes


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


class Frame(eqx.Module):
    """Where the domain lies and how large the state is: inputs and outputs of size one."""

    centre: Float[Array, " dim"]
    half_width: Scalar
    output_scale: Scalar

    def inside(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Coordinates between minus one and one."""
        return (x - self.centre) / self.half_width


class SteadySurrogate(AbstractPlacedState):
    """A state for every value of the unknowns."""

    network: TrunkBranch
    boundary: BoundaryValues
    frame: Frame

    def at(self, place: Place, z: PyTree) -> Scalar:
        coordinates = z[COORDINATES]
        inner = self.network(self.frame.inside(place.x), coordinates)
        return self.with_boundary(place, coordinates, inner)

    def with_boundary(self, place: Place, coordinates: Coordinates, inner: Scalar) -> Scalar:
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
    surrogate: SteadySurrogate,
    nodes: Float[Array, "node dim"],
    coordinates: Float[Array, "draw coordinate"],
) -> Float[Array, "draw node"]:
    """The surrogate's values at all nodes, for several values of the unknowns."""
    indices = jnp.arange(len(nodes))
    return jax.vmap(lambda c: values_at_nodes(surrogate, indices, nodes, {COORDINATES: c}))(
        coordinates
    )

"""Random points of a mesh, with the diffusivity there: what losses without a mesh draw on."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.errors import RieszError
from riesz.mesh.facets import facets_at, facets_of_cells, outward_normals
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.rows import row_groups


class InsidePoints(eqx.Module):
    """Places inside a mesh whose diffusivity is constant on each cell."""

    corners: Float[Array, "cell 3 2"]
    diffusivity: Float[Array, " cell"]
    shares: Float[Array, " cell"]  # of the domain, up to each cell

    def draw(
        self, key: PRNGKeyArray, count: int
    ) -> tuple[Float[Array, "point 2"], Float[Array, " point"]]:
        """Uniform places and the diffusivity there.

        Stratified: one place in each of `count` equal shares of the domain, cells in order.
        """
        cell_key, place_key = jr.split(key)
        dtype = self.shares.dtype
        heights = (jnp.arange(count, dtype=dtype) + jr.uniform(cell_key, (count,), dtype)) / count
        cells = jnp.minimum(jnp.searchsorted(self.shares, heights), len(self.shares) - 1)
        weights = jr.exponential(place_key, (count, 3), dtype)
        barycentric = weights / jnp.sum(weights, axis=1, keepdims=True)
        places = jnp.einsum("pc,pcd->pd", barycentric, self.corners[cells])
        return places, self.diffusivity[cells]


class InterfacePoints(eqx.Module):
    """Places on the edges where the diffusivity jumps, seen from both sides."""

    ends: Float[Array, "edge 2 2"]
    normal: Float[Array, "edge 2"]  # from the first side to the second
    diffusivity: Float[Array, "edge 2"]  # of either side

    def draw(
        self, key: PRNGKeyArray, count: int
    ) -> tuple[Float[Array, "point 2"], Float[Array, "point 2"], Float[Array, "point 2"]]:
        """Uniform places, normals, and the two diffusivities; all edges must be equally long."""
        edge_key, place_key = jr.split(key)
        edges = jr.randint(edge_key, (count,), 0, len(self.ends))
        along = jr.uniform(place_key, (count, 1), self.ends.dtype)
        places = (1 - along) * self.ends[edges, 0] + along * self.ends[edges, 1]
        return places, self.normal[edges], self.diffusivity[edges]


def inside_points(mesh: Mesh, diffusivity: Float[np.ndarray, " cell"]) -> InsidePoints:
    check(mesh, diffusivity)
    volumes = cell_volumes(mesh.nodes, mesh.cells)
    return InsidePoints(
        jnp.asarray(mesh.nodes[mesh.cells]),
        jnp.asarray(diffusivity),
        jnp.asarray(np.cumsum(volumes) / volumes.sum()),
    )


def interface_points(mesh: Mesh, diffusivity: Float[np.ndarray, " cell"]) -> InterfacePoints:
    """The edges between cells of different diffusivity."""
    check(mesh, diffusivity)
    first, second = inner_facets(mesh)
    cells = first // 3, second // 3
    jumps = diffusivity[cells[0]] != diffusivity[cells[1]]
    facets = facets_at(mesh, first[jumps])
    sides = np.stack([diffusivity[cell[jumps]] for cell in cells], axis=1)
    normals = outward_normals(mesh, facets)
    return InterfacePoints(
        jnp.asarray(mesh.nodes[facets.nodes]), jnp.asarray(normals), jnp.asarray(sides)
    )


def inner_facets(mesh: Mesh) -> tuple[Int[np.ndarray, " facet"], Int[np.ndarray, " facet"]]:
    """Positions of both sides of each facet that two cells share, in the list of all facets."""
    facets = row_groups(facets_of_cells(mesh.cells), mesh.num_nodes)
    shared = facets.starts[facets.counts == 2]
    return facets.order[shared], facets.order[shared + 1]


def check(mesh: Mesh, diffusivity: Float[np.ndarray, " cell"]) -> None:
    if mesh.dim != 2 or diffusivity.shape != (mesh.num_cells,):
        raise RieszError(
            f"the diffusivity has shape {diffusivity.shape} on {mesh.num_cells} cells in "
            f"{mesh.dim} dimensions: give one value a cell of a plane mesh."
        )

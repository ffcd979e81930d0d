r"""Mini-patches on one or several meshes, and the energy of residuals on them.

The energy of a patch is $r_p^\top A_p^{-1} r_p$ with the Gram matrix of its own Dirichlet problem,
assembled and factorised inside the step: set-up stays local and small on any mesh.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.fem.elements.domain import inverse_jacobians
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.tags import tagged_facets
from riesz.penalty.norm import AbstractPatches, PatchSample
from riesz.penalty.partition import overlapping_patches
from riesz.penalty.patch import PatchTable, Widths, patch_table
from riesz.penalty.small_solve import inverse_quadratic


class CellGeometry(eqx.Module):
    """What the Gram matrices of cells are made of."""

    inverse_jacobian: Float[Array, "dim dim cell"]
    measure: Float[Array, " cell"]


class SchwarzPatches(AbstractPatches):
    """Patches with their own Dirichlet problems; levels of a hierarchy are meshes side by side."""

    table: PatchTable
    geometry: CellGeometry
    diffusivity: Float[Array, " *cell"]  # of the Gram form: one for all cells, or one each
    reaction: Float[Array, ""]
    num_levels: Int[Array, ""]  # an array: the compiled step is then the same for any number
    level_starts: Int[Array, " level"]  # first patch of each level
    level_sizes: Int[Array, " level"]
    coverage: Float[Array, " level"]  # in how many patches each free node of the level lies

    def sample(self, key: PRNGKeyArray, count: int) -> PatchSample:
        """Patches drawn independently: first a level, each as likely, then a patch of it."""
        level_key, patch_key = jr.split(key)
        level = jr.randint(level_key, (count,), 0, self.num_levels, dtype=jnp.int32)
        size = self.level_sizes[level]
        place = jr.randint(patch_key, (count,), 0, size, dtype=jnp.int32)
        factors = (self.num_levels * size).astype(self.coverage.dtype) / self.coverage[level]
        return PatchSample(self.level_starts[level] + place, factors)

    def all(self) -> PatchSample:
        """Every patch, with factors such that the mean of energies is the whole sum."""
        level = jnp.repeat(
            jnp.arange(len(self.level_starts)),
            self.level_sizes,
            total_repeat_length=self.num_patches,
        )
        return PatchSample(jnp.arange(self.num_patches), self.num_patches / self.coverage[level])

    def energies(
        self, patches: Int[Array, " patch"], residuals: Float[Array, "patch row sample"]
    ) -> Float[Array, "patch sample"]:
        r"""$r_p^\top A_p^{-1} r_p$, never negative."""

        matrices = jax.vmap(self.local_gram)(patches)
        return jax.vmap(inverse_quadratic)(matrices, residuals)

    def local_gram(self, patch: Int[Array, ""]) -> Float[Array, "row row"]:
        """The Gram matrix of a patch's rows; one on the diagonal for rows that are absent."""
        cells = self.table.cells.entities[patch]
        measure = self.geometry.measure.at[cells].get(mode="fill", fill_value=0.0)
        slopes = jnp.take(self.geometry.inverse_jacobian, cells, axis=-1, mode="clip")
        # Barycentric coordinates sum to one: the first gradient is minus the others.
        slopes = jnp.concatenate([-slopes.sum(axis=0, keepdims=True), slopes])
        stiffness = jnp.einsum("idc,jdc->ijc", slopes, slopes)
        corners = len(slopes)
        mass = (1 + jnp.eye(corners, dtype=measure.dtype)) / (corners * (corners + 1))
        diffusivity = self.diffusivity
        if diffusivity.ndim:
            diffusivity = jnp.take(diffusivity, cells, mode="clip")[None, None]
        matrices = diffusivity * stiffness + self.reaction * mass[:, :, None]
        places = self.table.cells.rows[patch].astype(jnp.int32).T
        num_rows = self.table.rows.shape[1]
        local = jnp.zeros((num_rows + 1, num_rows + 1), measure.dtype)
        local = local.at[places[:, None, :], places[None, :, :]].add(measure[None, None] * matrices)
        absent = (self.table.rows[patch] < 0).astype(measure.dtype)
        return local[:num_rows, :num_rows] + jnp.diag(absent)


def patches_on(
    meshes: tuple[Mesh, ...],
    dirichlet_tags: tuple[str, ...],
    facet_corners: tuple[Int[np.ndarray, "facet corner"], ...],
    patch_nodes: int,
    geometry: CellGeometry,
    diffusivity: Float[np.ndarray, " *cell"],
    reaction: float,
    at_least: Widths | None = None,
) -> SchwarzPatches:
    """Patches of at most `patch_nodes` free nodes on each mesh.

    Nodes and cells are numbered through, mesh after mesh; `facet_corners`, `geometry` and
    `diffusivity` already are.
    """
    dtype = geometry.measure.dtype
    offsets = np.cumsum([0, *(mesh.num_nodes for mesh in meshes)])
    rows, sizes, coverage = [], [], []
    for mesh, offset in zip(meshes, offsets, strict=False):
        free = free_nodes(mesh, dirichlet_tags)
        patches = overlapping_patches(mesh.nodes[free], patch_nodes)
        rows.append(np.where(patches < 0, -1, free[patches] + offset))
        sizes.append(len(patches))
        coverage.append((patches >= 0).sum() / len(free))
    cells = np.concatenate([m.cells + o for m, o in zip(meshes, offsets, strict=False)])
    return SchwarzPatches(
        table=patch_table(np.concatenate(rows), cells, facet_corners, int(offsets[-1]), at_least),
        geometry=geometry,
        diffusivity=jnp.asarray(diffusivity, dtype=dtype),
        reaction=jnp.asarray(reaction, dtype=dtype),
        num_levels=jnp.asarray(len(meshes), dtype=jnp.int32),
        level_starts=jnp.asarray(np.cumsum([0, *sizes[:-1]]), dtype=jnp.int32),
        level_sizes=jnp.asarray(sizes, dtype=jnp.int32),
        coverage=jnp.asarray(coverage, dtype=dtype),
    )


def geometry_of(meshes: tuple[Mesh, ...], dtype: np.dtype) -> CellGeometry:
    """Cells of several meshes side by side."""
    inverse = np.concatenate([inverse_jacobians(mesh.nodes, mesh.cells) for mesh in meshes])
    volumes = np.concatenate([cell_volumes(mesh.nodes, mesh.cells) for mesh in meshes])
    return CellGeometry(
        inverse_jacobian=jnp.asarray(np.moveaxis(inverse, 0, 2), dtype=dtype),
        measure=jnp.asarray(volumes, dtype=dtype),
    )


def free_nodes(mesh: Mesh, dirichlet_tags: tuple[str, ...]) -> Int[np.ndarray, " free"]:
    """Nodes where nothing is prescribed."""
    free = np.ones(mesh.num_nodes, dtype=bool)
    for tag in dirichlet_tags:
        free[tagged_facets(mesh, tag).nodes] = False
    return np.nonzero(free)[0]

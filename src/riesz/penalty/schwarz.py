r"""The Schwarz norm: a sum over mini-patches that is equivalent to the dual norm.

$$ S(r) = \sum_\ell \frac{1}{c_\ell} \sum_p r_{\ell p}^\top A_{\ell p}^{-1} r_{\ell p}, \qquad
   r_\ell = P_\ell^\top r, $$

over levels $\ell$ of a hierarchy of meshes and the overlapping patches $p$ of each, divided by the
coverage $c_\ell$. Its eigenvalues against $A^{-1}$ lie on both sides of one, within bounds that
hardly depend on the mesh; one level alone degrades as the mesh is refined.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.errors import RieszError
from riesz.fem.problem import BoundaryValueProblem
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import Hierarchy
from riesz.mesh.tags import tagged_facets
from riesz.penalty.patches import Gram, Patches, PatchSample, free_nodes, patches_on

LEVEL_STEP = 2
"""Every second mesh of a hierarchy makes a level: fewer levels, and still well conditioned."""

PATCH_NODES = 64


class Restriction(eqx.Module):
    """Residuals at the nodes of all coarse levels from those at the finest nodes."""

    coarse: Int[Array, " entry"]
    fine: Int[Array, " entry"]
    weights: Float[Array, " entry"]
    num_coarse: int = eqx.field(static=True)

    def __call__(self, residual: Float[Array, " node"]) -> Float[Array, " coarse"]:
        total = jnp.zeros(self.num_coarse, residual.dtype)
        return total.at[self.coarse].add(self.weights * residual[self.fine])


class SchwarzSample(eqx.Module):
    """Patches of the finest mesh, and of the coarse levels where there are any."""

    fine: PatchSample
    coarse: PatchSample | None


class SchwarzNorm(eqx.Module):
    """Mini-patches of the finest mesh and of coarse levels below it."""

    fine: Patches
    coarse: Patches | None
    restriction: Restriction | None

    def sample(self, key: PRNGKeyArray, num_patches: int) -> SchwarzSample:
        """`num_patches` in all: half of them on the finest mesh, half on the coarse levels."""
        if self.coarse is None:
            return SchwarzSample(self.fine.sample(key, num_patches), None)
        if num_patches < 2:
            raise RieszError(
                "one patch cannot sample the finest mesh and the coarse levels: draw two or more."
            )
        fine_key, coarse_key = jr.split(key)
        num_coarse = num_patches // 2
        return SchwarzSample(
            self.fine.sample(fine_key, num_patches - num_coarse),
            self.coarse.sample(coarse_key, num_coarse),
        )

    def all(self) -> SchwarzSample:
        """Every patch: the norm itself."""
        return SchwarzSample(self.fine.all(), None if self.coarse is None else self.coarse.all())

    def squared(
        self, residual: Float[Array, " node"], sample: SchwarzSample | None = None
    ) -> Float[Array, ""]:
        """The norm of a residual given at all nodes, or its estimate from a sample."""
        sample = self.all() if sample is None else sample
        fine = mean_energy(self.fine, sample.fine, residual)
        if self.coarse is None or self.restriction is None or sample.coarse is None:
            return fine
        return fine + mean_energy(self.coarse, sample.coarse, self.restriction(residual))


def mean_energy(
    patches: Patches, sample: PatchSample, residual: Float[Array, " node"]
) -> Float[Array, ""]:
    rows = patches.table.rows[sample.patches]
    values = jnp.where(rows < 0, 0.0, residual[rows])
    return weighted_mean(patches, sample, values[:, :, None])[0]


def weighted_mean(
    patches: Patches, sample: PatchSample, residuals: Float[Array, "patch row sample"]
) -> Float[Array, " sample"]:
    """The estimate from residuals on the rows of sampled patches, for each sample of latents."""
    energies = patches.energies(sample.patches, residuals)
    return jnp.mean(sample.factors[:, None] * energies, axis=0)


def schwarz_norm(
    problem: BoundaryValueProblem,
    hierarchy: Hierarchy | None = None,
    *,
    patch_nodes: int = PATCH_NODES,
    gram: Gram | None = None,
) -> SchwarzNorm:
    """The norm for residuals of a problem on P1 elements.

    `hierarchy` is the one whose finest mesh the problem lives on; without it there is one level
    only, unless a single patch holds all free nodes.
    """
    mesh = problem.space.mesh
    check_setting(problem, hierarchy, patch_nodes)
    tags = problem.dirichlet_tags
    gram = Gram() if gram is None else gram
    beside = tuple(np.asarray(group.domain.corners).T for group in problem.facets)
    fine = patches_on((mesh,), tags, beside, patch_nodes, gram, problem.dtype)
    indices = () if hierarchy is None else coarse_indices(hierarchy, tags, patch_nodes)
    if hierarchy is None or not indices:
        return SchwarzNorm(fine, None, None)
    meshes = tuple(hierarchy.meshes[index] for index in indices)
    on = tuple(str(group.terms[0].on) for group in problem.facets)
    beside = tuple(facet_cells(meshes, tag) for tag in on)
    return SchwarzNorm(
        fine=fine,
        coarse=patches_on(meshes, tags, beside, patch_nodes, gram, problem.dtype),
        restriction=restriction(hierarchy, indices, problem.dtype),
    )


def facet_cells(meshes: tuple[Mesh, ...], tag: str) -> Int[np.ndarray, "facet corner"]:
    """Corners of the cells beside tagged facets, nodes numbered through from mesh to mesh."""
    offsets = np.cumsum([0, *(mesh.num_nodes for mesh in meshes)])
    return np.concatenate(
        [m.cells[tagged_facets(m, tag).cell] + n for m, n in zip(meshes, offsets, strict=False)]
    )


def check_setting(
    problem: BoundaryValueProblem, hierarchy: Hierarchy | None, patch_nodes: int
) -> None:
    if problem.space.element.degree != 1:
        raise RieszError("mini-patches need P1 elements: refine the mesh instead of raising it.")
    if patch_nodes > problem.space.num_dofs:
        raise RieszError(
            f"a patch of {patch_nodes} nodes is larger than the mesh with its "
            f"{problem.space.num_dofs} nodes: ask for smaller patches, or use the exact dual norm."
        )
    if hierarchy is None:
        return
    if len(hierarchy.meshes) < 2:
        raise RieszError(
            "the hierarchy holds one mesh, so that there is nothing coarser: build it with "
            "hierarchy(coarse_mesh, levels) and use its finest mesh."
        )
    if hierarchy.meshes[-1] is not problem.space.mesh:
        raise RieszError(
            "the problem does not live on the finest mesh of the hierarchy: build it on "
            "hierarchy.meshes[-1]."
        )


def coarse_indices(
    hierarchy: Hierarchy, tags: tuple[str, ...], patch_nodes: int
) -> tuple[int, ...]:
    """Which meshes of the hierarchy make levels: every second, until one patch holds a level."""
    chosen = []
    last = len(hierarchy.meshes) - 1
    for index in range(last - 1, -1, -1):
        num_free = len(free_nodes(hierarchy.meshes[index], tags))
        is_level = (last - index) % LEVEL_STEP == 0 or index == 0 or num_free <= patch_nodes
        if num_free and is_level:
            chosen.append(index)
        if num_free <= patch_nodes:
            break
    return tuple(chosen)


def restriction(hierarchy: Hierarchy, indices: tuple[int, ...], dtype: np.dtype) -> Restriction:
    """The transposed prolongations from the chosen meshes to the finest."""
    prolongation = sp.identity(hierarchy.meshes[-1].num_nodes, format="csr")
    chosen = []
    for index in range(len(hierarchy.meshes) - 2, min(indices) - 1, -1):
        prolongation = prolongation @ hierarchy.prolongations[index]
        if index in indices:
            chosen.append(prolongation)
    joined = sp.coo_array(sp.hstack(chosen))
    fine, coarse = joined.coords
    return Restriction(
        coarse=jnp.asarray(coarse, dtype=jnp.int32),
        fine=jnp.asarray(fine, dtype=jnp.int32),
        weights=jnp.asarray(joined.data, dtype=dtype),
        num_coarse=sum(hierarchy.meshes[index].num_nodes for index in indices),
    )

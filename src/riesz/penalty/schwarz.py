r"""The Schwarz norm: a sum over mini-patches that is equivalent to the dual norm.

$$ S(r) = \sum_\ell \frac{1}{c_\ell} \sum_p r_{\ell p}^\top A_{\ell p}^{-1} r_{\ell p}, \qquad
   r_\ell = P_\ell^\top r, $$

over levels $\ell$ of a hierarchy of meshes and the overlapping patches $p$ of each, divided by the
coverage $c_\ell$. Its eigenvalues against $A^{-1}$ lie on both sides of one, within bounds that
hardly depend on the mesh; one level alone degrades as the mesh is refined.

This is the multilevel additive Schwarz preconditioner of domain decomposition, read as a quadratic
form (Toselli & Widlund 2005); with single nodes for patches it would be of the kind of Bramble,
Pasciak & Xu (1990).
"""

import warnings

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from riesz.errors import RieszError
from riesz.fem.elements.domain import inverse_jacobians
from riesz.fem.problem import BoundaryValueProblem
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.refinement import Hierarchy
from riesz.mesh.tags import facets_of_tag
from riesz.penalty import norm
from riesz.penalty.gram import Gram, cell_diffusivity, check_energy
from riesz.penalty.patch import Widths, overlapping_patches, patch_table

LEVEL_STEP = 2
"""Every second mesh of a hierarchy makes a level: fewer levels, and still well conditioned."""

PATCH_NODES = 64


def schwarz_norm(
    problem: BoundaryValueProblem,
    hierarchy: Hierarchy | None = None,
    *,
    patch_nodes: int = PATCH_NODES,
    coarse_patch_nodes: int | None = None,
    gram: Gram | None = None,
    one_level: bool = False,
    room: Widths | None = None,
) -> norm.PatchNorm:
    """The norm for residuals of a problem on P1 elements.

    `hierarchy` is the one whose finest mesh the problem lives on; without it there is one level
    only, which is warned of unless a single patch holds all free nodes or `one_level` says that
    it is meant. Functions of place cost far more on coarse levels, where gradients are taken at
    many points: smaller patches there, `coarse_patch_nodes`, trade some of the norm's quality
    for speed. Tables are as wide as their largest patch, or as `room` says if that is more: large
    irregular meshes have patches of odd shapes, and with ample room a step costs the same on small
    ones.
    """
    mesh = problem.space.mesh
    check_setting(problem, hierarchy, patch_nodes)
    coarse_nodes = patch_nodes if coarse_patch_nodes is None else coarse_patch_nodes
    gram = Gram() if gram is None else gram
    check_energy(problem, gram)
    fine = patches_on(problem, (mesh,), patch_nodes, gram, room)
    tags = problem.dirichlet_tags
    indices = () if hierarchy is None else coarse_indices(hierarchy, tags, coarse_nodes)
    if hierarchy is None or not indices:
        if not one_level and fine.num_patches > 1:
            warnings.warn(
                f"without coarser meshes that have free nodes, the norm is made of "
                f"{fine.num_patches} patches on one level: it falls behind the dual norm for "
                "smooth residuals, the more the finer the mesh. Build the mesh by "
                "hierarchy(coarse_mesh, levels) and pass the hierarchy, or say "
                "schwarz_norm(..., one_level=True).",
                stacklevel=2,
            )
        return norm.PatchNorm(fine)
    meshes = tuple(hierarchy.meshes[index] for index in indices)
    # As wide as the fine table: small coarse levels would else be cheaper than large ones.
    widths = fine.table.widths if coarse_nodes == patch_nodes else None
    coarse = patches_on(problem, meshes, coarse_nodes, gram, widths)
    return norm.PatchNorm(
        fine=fine, coarse=coarse, restriction=restriction(hierarchy, indices, problem.dtype)
    )


def patches_on(
    problem: BoundaryValueProblem,
    meshes: tuple[Mesh, ...],
    patch_nodes: int,
    gram: Gram,
    at_least: Widths | None,
) -> norm.SchwarzPatches:
    """Patches of at most `patch_nodes` free nodes on each mesh.

    Nodes and cells are numbered through, mesh after mesh.
    """
    dtype, own = problem.dtype, problem.space.mesh
    offsets = np.cumsum([0, *(mesh.num_nodes for mesh in meshes)])
    rows, sizes, coverage = [], [], []
    for mesh, offset in zip(meshes, offsets, strict=False):
        free = norm.free_nodes(mesh, problem.dirichlet_tags)
        patches = overlapping_patches(mesh.nodes[free], patch_nodes)
        rows.append(np.where(patches < 0, -1, free[patches] + offset))
        sizes.append(len(patches))
        coverage.append((patches >= 0).sum() / len(free))
    cells = np.concatenate([m.cells + o for m, o in zip(meshes, offsets, strict=False)])
    beside = tuple(facet_cells(meshes, str(group.terms[0].on)) for group in problem.facets)
    # What the equation has of its own mesh is not held twice.
    of_own = norm.CellGeometry(problem.cells.domain.inverse_jacobian, problem.cells.domain.measure)
    return norm.SchwarzPatches(
        table=patch_table(np.concatenate(rows), cells, beside, int(offsets[-1]), at_least),
        geometry=of_own if meshes[0] is own else cell_geometry(meshes, dtype),
        diffusivity=jnp.asarray(coarse_means(cell_diffusivity(gram, own), meshes), dtype=dtype),
        reaction=jnp.asarray(gram.reaction, dtype=dtype),
        num_levels=jnp.asarray(len(meshes), dtype=jnp.int32),
        level_starts=jnp.asarray(np.cumsum([0, *sizes[:-1]]), dtype=jnp.int32),
        level_sizes=jnp.asarray(sizes, dtype=jnp.int32),
        coverage=jnp.asarray(coverage, dtype=dtype),
    )


def cell_geometry(meshes: tuple[Mesh, ...], dtype: np.dtype) -> norm.CellGeometry:
    """Cells of several meshes side by side."""
    inverse = [inverse_jacobians(mesh.nodes, mesh.cells) for mesh in meshes]
    volumes = np.concatenate([cell_volumes(mesh.nodes, mesh.cells) for mesh in meshes])
    return norm.CellGeometry(
        inverse_jacobian=jnp.asarray(np.concatenate(inverse, axis=2), dtype=dtype),
        measure=jnp.asarray(volumes, dtype=dtype),
    )


def coarse_means(
    diffusivity: Float[np.ndarray, " *cell"], meshes: tuple[Mesh, ...]
) -> Float[np.ndarray, " *coarse"]:
    """Means over the cells inside each coarse cell, mesh after mesh; a number stays one."""
    if not diffusivity.ndim:
        return diffusivity
    parts = [diffusivity.reshape(mesh.num_cells, -1).mean(axis=1) for mesh in meshes]
    return np.concatenate(parts)


def facet_cells(meshes: tuple[Mesh, ...], tag: str) -> Int[np.ndarray, "facet corner"]:
    """Corners of the cells beside tagged facets, nodes numbered through from mesh to mesh."""
    offsets = np.cumsum([0, *(mesh.num_nodes for mesh in meshes)])
    return np.concatenate(
        [m.cells[facets_of_tag(m, tag).cell] + n for m, n in zip(meshes, offsets, strict=False)]
    )


def check_setting(
    problem: BoundaryValueProblem, hierarchy: Hierarchy | None, patch_nodes: int
) -> None:
    if problem.space.element.degree != 1:
        raise RieszError("mini-patches need P1 elements: refine the mesh instead of raising it.")
    if problem.space.axisymmetric:
        raise RieszError(
            "mini-patches know no axis, and the space is axisymmetric: use the exact dual norm."
        )
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
    """Which meshes of the hierarchy make levels: every second, until one patch holds a level.

    Meshes without free nodes make none; the coarsest of the others does.
    """
    chosen = []
    last = len(hierarchy.meshes) - 1
    num_free = [len(norm.free_nodes(mesh, tags)) for mesh in hierarchy.meshes]
    coarsest = next(index for index, count in enumerate(num_free) if count)
    for index in range(last - 1, coarsest - 1, -1):
        is_last = index == coarsest or num_free[index] <= patch_nodes
        if is_last or (last - index) % LEVEL_STEP == 0:
            chosen.append(index)
        if is_last:
            break
    return tuple(chosen)


def restriction(
    hierarchy: Hierarchy, indices: tuple[int, ...], dtype: np.dtype
) -> norm.Restriction:
    """The transposed prolongations, from mesh to mesh down to the coarsest of the chosen ones."""
    steps = []
    for index in range(len(hierarchy.meshes) - 2, min(indices) - 1, -1):
        prolongation = sp.coo_array(hierarchy.prolongations[index])
        fine, coarse = prolongation.coords
        steps.append(
            norm.RestrictionStep(
                coarse=jnp.asarray(coarse, dtype=jnp.int32),
                fine=jnp.asarray(fine, dtype=jnp.int32),
                weights=jnp.asarray(prolongation.data, dtype=dtype),
                num_coarse=hierarchy.meshes[index].num_nodes,
                is_level=index in indices,
            )
        )
    return norm.Restriction(tuple(steps))

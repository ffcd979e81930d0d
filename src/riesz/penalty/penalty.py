"""The plug-in: a weak-form penalty for anybody's JAX loss.

```python
penalty = weak_form_penalty(problem, hierarchy)               # once
loss = misfit + penalty(key, u, zs) / (2 * epsilon**2)        # in each step
```

`u(x, z)` is any function of one place and one sample of the latents. A step costs the same on any
mesh: a few mini-patches are drawn, and only their nodes and quadrature points are evaluated.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.fem.interpolate import PointOperator
from riesz.fem.problem import BoundaryValueProblem, source_operator
from riesz.fem.space import P1
from riesz.fem.weakform import PointSource
from riesz.mesh.refine import Hierarchy
from riesz.penalty.coarse_points import points_on_cells, points_on_facets
from riesz.penalty.patches import Gram
from riesz.penalty.rows import (
    CoarseLevels,
    PrescribedNodes,
    StateFunction,
    function_rows,
    interpolant_rows,
)
from riesz.penalty.schwarz import (
    PATCH_NODES,
    SchwarzNorm,
    SchwarzSample,
    coarse_indices,
    schwarz_norm,
    weighted_mean,
)


class WeakFormPenalty(eqx.Module):
    """How far functions u(x, z) are from solving a problem, by mini-patches."""

    problem: BoundaryValueProblem
    norm: SchwarzNorm
    prescribed: PrescribedNodes
    levels: CoarseLevels | None
    num_patches: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree = None) -> Float[Array, ""]:
        """An unbiased estimate of the mean squared norm over the samples `zs`, never negative.

        The leaves of `zs` have a leading axis of samples; None stands for an equation without
        latents.
        """
        return jnp.mean(self.estimates(self.norm.sample(key, self.num_patches), u, zs))

    def estimates(
        self, sample: SchwarzSample, u: StateFunction, zs: PyTree = None
    ) -> Float[Array, " sample"]:
        """The estimate for each sample of the latents from given patches."""

        problem, fine, coarse = self.problem, self.norm.fine, self.norm.coarse

        def fine_rows(patch, z):
            return interpolant_rows(problem, self.prescribed, fine.table, patch, u, z)

        total = weighted_mean(fine, sample.fine, over(fine_rows, sample.fine.patches, zs))
        if coarse is None or sample.coarse is None or self.levels is None:
            return total
        levels = self.levels

        def coarse_rows(patch, z):
            return function_rows(problem, levels, coarse.table, patch, u, z)

        rows = over(coarse_rows, sample.coarse.patches, zs)
        return total + weighted_mean(coarse, sample.coarse, rows)


def over(rows_of, patches: Int[Array, " patch"], zs: PyTree) -> Float[Array, "patch row sample"]:
    """Rows for every patch and every sample of the latents."""
    if zs is None:
        return jax.vmap(lambda patch: rows_of(patch, None)[:, None])(patches)
    for_patch = jax.vmap(rows_of, in_axes=(None, 0), out_axes=1)
    return jax.vmap(for_patch, in_axes=(0, None))(patches, zs)


def weak_form_penalty(
    problem: BoundaryValueProblem,
    hierarchy: Hierarchy | None = None,
    *,
    num_patches: int = 4,
    patch_nodes: int = PATCH_NODES,
    gram: Gram | None = None,
) -> WeakFormPenalty:
    """Set up the penalty for a problem on P1 elements, on the finest mesh of a hierarchy."""
    norm = schwarz_norm(problem, hierarchy, patch_nodes=patch_nodes, gram=gram)
    place = np.full(problem.space.num_dofs, -1, dtype=np.int32)
    place[np.asarray(problem.fixed)] = np.arange(len(problem.fixed))
    levels = None
    if hierarchy is not None and norm.coarse is not None:
        levels = coarse_part(problem, hierarchy, patch_nodes)
    return WeakFormPenalty(problem, norm, PrescribedNodes(jnp.asarray(place)), levels, num_patches)


def coarse_part(
    problem: BoundaryValueProblem, hierarchy: Hierarchy, patch_nodes: int
) -> CoarseLevels:
    indices = coarse_indices(hierarchy, problem.dirichlet_tags, patch_nodes)
    on_facets = [
        points_on_facets(hierarchy, indices, str(group.terms[0].on), problem.dtype)
        for group in problem.facets
    ]
    return CoarseLevels(
        points=(points_on_cells(hierarchy, indices, problem.dtype), *on_facets),
        operators=tuple(
            joined_operator(hierarchy, indices, source, problem.dtype)
            for source, _ in problem.point_sources
        ),
    )


def joined_operator(
    hierarchy: Hierarchy,
    indices: tuple[int, ...],
    source: PointSource,
    dtype: np.dtype,
) -> PointOperator:
    """Shape functions of all coarse levels at a source's points, nodes numbered through."""
    meshes = [hierarchy.meshes[index] for index in indices]
    offsets = np.cumsum([0, *(mesh.num_nodes for mesh in meshes)])
    operators = [source_operator(P1(mesh), source, dtype) for mesh in meshes]
    return PointOperator(
        cells=operators[0].cells,
        dofs=jnp.concatenate([o.dofs + n for o, n in zip(operators, offsets, strict=False)]),
        weights=jnp.concatenate([o.weights for o in operators]),
        num_dofs=int(offsets[-1]),
    )

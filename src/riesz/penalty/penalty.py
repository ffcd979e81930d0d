"""The plug-in: a weak-form penalty for anybody's JAX loss.

```python
penalty = weak_form_penalty(problem, hierarchy)               # once
loss = misfit + penalty(key, u, zs) / (2 * epsilon**2)        # in each step
```

It is the third term of the relaxed objective, eqs (13) and (19) of Tait & Damoulas (2020), in the
dual norm of the equation. `u(x, z)` is any function of one place and one sample of the latents. A
step costs the same on any mesh: a few mini-patches are drawn, and only their nodes and quadrature
points are evaluated.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.errors import RieszError
from riesz.fem.assembly import check_state, dirichlet_values, residual
from riesz.fem.elements.space import P1, PointOperator
from riesz.fem.problem import BoundaryValueProblem, source_operator, wells_at_known_points
from riesz.fem.terms.weakform import PointSource
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy
from riesz.penalty.gram import DualNorm, Gram, check_energy, dual_norm
from riesz.penalty.level_points import Meshes, points_on_cells, points_on_facets
from riesz.penalty.norm import NormSample, PatchNorm
from riesz.penalty.rows import (
    AbstractPlacedState,
    PrescribedNodes,
    StateFunction,
    TestedLevels,
    full_precision,
    function_rows,
    interpolant_rows,
    values_at_nodes,
)
from riesz.penalty.schwarz import PATCH_NODES, schwarz_norm

States = Float[Array, "sample node"]
Estimates = Float[Array, " sample"]
Rows = tuple[
    Float[Array, "patch row sample"], Float[Array, "coarse_patch coarse_row sample"] | None
]


class AbstractPenalty(eqx.Module):
    """How far states are from solving a problem.

    The leaves of `zs` have a leading axis of samples; None stands for an equation without latents.
    """

    problem: eqx.AbstractVar[BoundaryValueProblem]

    @abstractmethod
    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree = None) -> Float[Array, ""]:
        """The mean squared norm over samples of the residual of functions u(x, z)."""

    @abstractmethod
    def nodal(self, key: PRNGKeyArray, states: States, zs: PyTree = None) -> Float[Array, ""]:
        """The same for states given at all nodes, one a sample of the latents."""


class WeakFormPenalty(AbstractPenalty):
    """By mini-patches: unbiased, and with the default norm never negative."""

    problem: BoundaryValueProblem
    norm: PatchNorm
    prescribed: PrescribedNodes | None  # None where the state is u itself on the boundary too
    finest: TestedLevels | None  # where gradients of u are taken on the finest mesh too
    levels: TestedLevels | None
    num_patches: int = eqx.field(static=True)
    whole_mesh: bool = eqx.field(static=True, default=False)
    tested: BoundaryValueProblem | None = None  # as functions of place see it, if otherwise

    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree = None) -> Float[Array, ""]:
        return jnp.mean(self.estimates(self.norm.sample(key, self.num_patches), u, zs))

    def nodal(self, key: PRNGKeyArray, states: States, zs: PyTree = None) -> Float[Array, ""]:
        sample = self.norm.sample(key, self.num_patches)
        prescribes = self.prescribed is not None
        return jnp.mean(
            over_states(
                self.problem,
                states,
                zs,
                lambda r: self.norm.squared(r, sample),
                prescribes=prescribes,
            )
        )

    def estimates(self, sample: NormSample, u: StateFunction, zs: PyTree = None) -> Estimates:
        """The estimate for each sample of the latents from given patches."""
        fine, coarse = self.rows(sample, u, zs)
        with full_precision():
            total = self.norm.fine.estimate(sample.fine, fine)
            if coarse is None or self.norm.coarse is None or sample.coarse is None:
                return total
            return total + self.norm.coarse.estimate(sample.coarse, coarse)

    def rows(self, sample: NormSample, u: StateFunction, zs: PyTree = None) -> Rows:
        """Residuals on the rows of drawn patches, of the finest mesh and of the coarse levels."""
        problem, fine, coarse, levels = self.problem, self.norm.fine, self.norm.coarse, self.levels
        check_function(problem, u, zs)
        if self.whole_mesh:
            return self.restrict_rows(sample, u, zs)

        def fine_rows(patch, z):
            if self.finest is not None:
                return function_rows(problem, self.finest, fine.table, patch, u, z)
            return interpolant_rows(problem, self.prescribed, fine.table, patch, u, z)

        with full_precision():
            on_finest = map_over_patches(fine_rows, sample.fine.patches, zs)
        if coarse is None or levels is None or sample.coarse is None:
            return on_finest, None

        tested = problem if self.tested is None else self.tested

        def coarse_rows(patch, z):
            return function_rows(tested, levels, coarse.table, patch, u, z)

        with full_precision():
            return on_finest, map_over_patches(coarse_rows, sample.coarse.patches, zs)

    def restrict_rows(self, sample: NormSample, u: StateFunction, zs: PyTree) -> Rows:
        """The same from the interpolant's residual on the whole mesh, restricted exactly."""
        norm, prescribes = self.norm, self.prescribed is not None
        with full_precision():
            states = interpolants(self.problem, u, zs)
            residuals = free_residuals(self.problem, states, zs, prescribes=prescribes)
        fine = norm.fine.residuals_on(sample.fine, residuals)
        if norm.coarse is None or norm.restriction is None or sample.coarse is None:
            return fine, None
        return fine, norm.coarse.residuals_on(sample.coarse, jax.vmap(norm.restriction)(residuals))


class ExactPenalty(AbstractPenalty):
    """By the exact dual norm: the whole mesh in every step; nothing is drawn."""

    problem: BoundaryValueProblem
    norm: DualNorm

    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree = None) -> Float[Array, ""]:
        check_function(self.problem, u, zs)
        return self.nodal(key, interpolants(self.problem, u, zs), zs)

    def nodal(self, key: PRNGKeyArray, states: States, zs: PyTree = None) -> Float[Array, ""]:
        del key
        free = self.problem.free
        return jnp.mean(over_states(self.problem, states, zs, lambda r: self.norm.squared(r[free])))


def map_over_patches(
    rows_of, patches: Int[Array, " patch"], zs: PyTree
) -> Float[Array, "patch row sample"]:
    """Rows for every patch and every sample of the latents."""
    if zs is None:
        return jax.vmap(lambda patch: rows_of(patch, None)[:, None])(patches)
    for_patch = jax.vmap(rows_of, in_axes=(None, 0), out_axes=1)
    return jax.vmap(for_patch, in_axes=(0, None))(patches, zs)


def interpolants(problem: BoundaryValueProblem, u: StateFunction, zs: PyTree) -> States:
    """A function at all nodes, for each sample of the latents."""
    nodes = problem.cells.domain.nodes.T

    def interpolant(z):
        return values_at_nodes(u, jnp.arange(len(nodes)), nodes, z)

    return interpolant(None)[None] if zs is None else jax.vmap(interpolant)(zs)


def over_states(
    problem: BoundaryValueProblem,
    states: States,
    zs: PyTree,
    squared: Callable[[Float[Array, " node"]], Float[Array, ""]],
    *,
    prescribes: bool = True,
) -> Estimates:
    """Squared norms of residuals of nodal states."""
    with full_precision():
        return jax.vmap(squared)(free_residuals(problem, states, zs, prescribes=prescribes))


def free_residuals(
    problem: BoundaryValueProblem, states: States, zs: PyTree, *, prescribes: bool = True
) -> States:
    """Residuals at all nodes, zero where values are prescribed, which are put in if asked for."""
    if states.ndim != 2:
        raise RieszError(
            f"the states have shape {states.shape}: give one row of nodal values a sample."
        )
    check_state(problem, states[0])

    def one(state, z):
        if prescribes:
            prescribed = dirichlet_values(problem, z).astype(state.dtype)
            state = state.at[problem.fixed].set(prescribed)
        return residual(problem, state, z).at[problem.fixed].set(0.0)

    return jax.vmap(one, in_axes=(0, None if zs is None else 0))(states, zs)


def check_function(problem: BoundaryValueProblem, u: StateFunction, zs: PyTree) -> None:
    """Raise if u is not a scalar function of one place and one sample."""
    place = jnp.zeros(problem.space.mesh.dim, problem.dtype)
    z = None if zs is None else jax.tree.map(lambda leaf: leaf[0], zs)
    if isinstance(u, AbstractPlacedState):
        return
    shape = jax.eval_shape(u, place, z).shape
    if shape != ():
        raise RieszError(
            f"u(x, z) has shape {shape} at one place x of shape {place.shape}: it must be a "
            "scalar; index or squeeze the network's output."
        )


def exact_penalty(problem: BoundaryValueProblem, gram: Gram | None = None) -> ExactPenalty:
    """The penalty by the exact dual norm: for small meshes, and to check others against."""
    check_energy(problem, gram)
    return ExactPenalty(problem, dual_norm(problem, gram))


def weak_form_penalty(
    problem: BoundaryValueProblem,
    hierarchy: Hierarchy | None = None,
    *,
    num_patches: int = 4,
    patch_nodes: int = PATCH_NODES,
    coarse_patch_nodes: int | None = None,
    gram: Gram | None = None,
    norm: PatchNorm | None = None,
    gradients: bool = False,
    whole_mesh: bool = False,
    free_boundary: bool = False,
) -> WeakFormPenalty:
    """Set up the penalty for a problem on P1 elements, on the finest mesh of a hierarchy.

    The state is the nodal interpolant of u on the finest mesh; with `gradients`, u itself, by its
    gradient at six points a triangle, so that no wave that the mesh can carry falls between the
    points. Either way the residual is tested with the mesh's shape functions: modes of u finer
    than the mesh are invisible to them, whatever the quadrature. Prescribed values are put into the
    interpolant only: with `gradients`, u must satisfy them by itself. `norm` replaces the Schwarz
    norm by another, one of tapers for instance.

    On coarse levels u is seen by quadrature, which leads to the exact solution rather than to that
    of the mesh; on coarse meshes the two differ. With `whole_mesh` the interpolant's residual is
    formed on the whole mesh in every step and restricted exactly: right, and for small meshes
    cheaper.

    With `free_boundary` the problem's Dirichlet conditions say only where test functions vanish:
    their values are not used, and the state there is u's own. The penalty then holds u to the
    equation inside and leaves its boundary values open.
    """
    if norm is None:
        norm = schwarz_norm(
            problem,
            hierarchy,
            patch_nodes=patch_nodes,
            coarse_patch_nodes=coarse_patch_nodes,
            gram=gram,
        )
    elif gram is not None:
        raise RieszError("norm and gram are both given: build the norm with the gram instead.")
    if gradients and whole_mesh:
        raise RieszError("whole_mesh is for the nodal interpolant: leave out gradients or it.")
    levels = None
    if norm.restriction is not None:
        if hierarchy is None:
            raise RieszError("the norm has coarse levels: pass the hierarchy that it was made of.")
        # In the norm's order: fine to coarse.
        below, steps = len(hierarchy.meshes) - 2, norm.restriction.steps
        indices = tuple(below - k for k, step in enumerate(steps) if step.is_level)
        levels = points_on_levels(problem, hierarchy.meshes, indices)
    finest = (problem.space.mesh,)
    return WeakFormPenalty(
        problem=problem,
        norm=norm,
        prescribed=None if free_boundary else find_prescribed_nodes(problem),
        finest=points_on_levels(problem, finest, (0,)) if gradients else None,
        levels=levels,
        num_patches=num_patches,
        whole_mesh=whole_mesh,
    )


def find_prescribed_nodes(problem: BoundaryValueProblem) -> PrescribedNodes:
    piece_of, fixed = np.full(problem.space.num_dofs, -1, dtype=np.int8), np.asarray(problem.fixed)
    for index, piece in enumerate(problem.dirichlet):
        piece_of[fixed[np.asarray(piece.position)]] = index
    return PrescribedNodes(jnp.asarray(piece_of))


def points_on_levels(
    problem: BoundaryValueProblem, meshes: Meshes, indices: tuple[int, ...]
) -> TestedLevels:
    """Points on some of the meshes."""
    on_facets = [
        points_on_facets(meshes, indices, str(group.terms[0].on), problem.dtype)
        for group in problem.facets
    ]
    return TestedLevels(
        points=(points_on_cells(meshes, indices, problem.dtype), *on_facets),
        operators=tuple(
            join_operators([meshes[index] for index in indices], source, problem.dtype)
            for source, _ in wells_at_known_points(problem)
        ),
    )


def join_operators(meshes: list[Mesh], source: PointSource, dtype: np.dtype) -> PointOperator:
    """Shape functions of all levels at a source's points, nodes numbered through."""
    offsets = np.cumsum([0, *(mesh.num_nodes for mesh in meshes)])
    operators = [source_operator(P1(mesh), source, dtype) for mesh in meshes]
    return PointOperator(
        cells=operators[0].cells,
        dofs=jnp.concatenate([o.dofs + int(n) for o, n in zip(operators, offsets, strict=False)]),
        weights=jnp.concatenate([o.weights for o in operators]),
        num_dofs=int(offsets[-1]),
    )

"""The same problem on finer elements or with half steps: what a discretisation misses shows there.

Unknowns are the same functions of the same coordinates, so that states differ by the discretisation
alone.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import P1, P2, Space
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.terms.coefficient import Nodal, PerCell
from riesz.fem.terms.pointwise import Point
from riesz.fem.time.axis import TimeAxis, kinds_of
from riesz.fem.time.problem import in_time
from riesz.mesh.facets import cell_edges
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import refine
from riesz.mesh.tags import node_shares
from riesz.observe.observables import Several
from riesz.observe.observations import Observations
from riesz.priors.fields import (
    AbstractField,
    AbstractFieldLatent,
    AbstractPlaceField,
    FieldCoefficient,
    Weights,
)
from riesz.priors.gaussian_process import KernelField
from riesz.priors.latent import LatentSpace
from riesz.priors.regions import PiecewiseConstant
from riesz.problem.posing import problem_of
from riesz.problem.problem import InverseProblem

Carry = Callable[[PyTree], PyTree]
"""An equation, or a value in it, as it is on a finer mesh."""

ROUNDING = 2.0**-20
"""Of a cell's edges: parts of it are no smaller."""


class CoarseField(AbstractField):
    """A field of a mesh on one that refines it: in each cell, that of the cell it is part of."""

    field: AbstractField
    corners: Int[Array, "corner cell"]  # of the coarse cells
    parent: Int[Array, " fine"]
    within: Float[Array, "corner corner fine"]  # corners of cells, in their parent's coordinates
    ends: Int[Array, "node corner"]  # coarse nodes that each node lies between
    shares: Float[Array, "node corner"]  # and how near it is to each

    @property
    def is_log(self) -> bool:
        return self.field.is_log

    def gather(self, domain: Domain) -> PyTree[Array]:
        within = self.within if domain.cell is None else self.within[..., domain.cell]
        parent = self.parent if domain.cell is None else self.parent[domain.cell]
        coarse = dataclasses.replace(
            domain, corners=self.corners[:, parent], cell=parent, num_cells=self.corners.shape[1]
        )
        return within, self.field.gather(coarse)

    def at(self, local: PyTree[Array], point: Point, weights: Weights) -> Float[Array, ""]:
        within, own = local
        parts = [share * corner for share, corner in zip(point.barycentric, within, strict=True)]
        return self.field.at(
            own, dataclasses.replace(point, barycentric=tuple(sum(parts[1:], parts[0]))), weights
        )

    def nodal(self, weights: Weights) -> Float[Array, " node"]:
        values = self.field.nodal(weights)[self.ends]
        if self.is_log:  # what is linear in between is the logarithm
            return jnp.exp(jnp.sum(self.shares * jnp.log(values), axis=1))
        return jnp.sum(self.shares * values, axis=1)

    def degree(self) -> int:
        return self.field.degree()


def on_quadratic_elements(problem: InverseProblem) -> InverseProblem:
    """With states that are quadratic in each cell of the same mesh."""
    space = problem.forward.space
    return pose_again(problem, P2(space.mesh, axisymmetric=space.axisymmetric))


def on_refined_mesh(problem: InverseProblem) -> InverseProblem:
    """With every cell cut into 2, 4 or 8."""
    finer = refine(problem.forward.space.mesh)
    return on_parts(problem, finer.mesh, finer.parent)


def on_finer_elements(problem: InverseProblem) -> tuple[InverseProblem, bool]:
    """Quadratic elements where there are some, and whether it is these; or a refined mesh."""
    element = problem.forward.space.element
    is_quadratic = element.degree == 1 and element.dim < 3 and not is_upwinded(problem)
    return (on_quadratic_elements if is_quadratic else on_refined_mesh)(problem), is_quadratic


def is_upwinded(problem: InverseProblem) -> bool:
    """Whether the mesh stabilises what is carried along."""
    return any(term.streamline for one in problem.forwards for term in one.form.terms)


def on_parts(
    problem: InverseProblem, mesh: Mesh, parent: Int[np.ndarray, " fine"]
) -> InverseProblem:
    """On a mesh whose cells are parts of those of the problem's own mesh, each of its `parent`.

    Coordinates mean the same functions, which are those of the mesh at hand: no prior is finer.
    """
    space, dtype = problem.forward.space, problem.forward.dtype
    own, within = space.mesh, corners_in_parents(space.mesh, mesh, parent)
    corner = np.empty(mesh.num_nodes, dtype=np.int64)  # of some cell, for each node
    corner[mesh.cells.ravel()] = np.arange(mesh.cells.size)
    ends = on_device(own.cells[parent[corner // (mesh.dim + 1)]], np.int32)
    shares = on_device(within.reshape(-1, mesh.dim + 1)[corner], dtype)
    children, corners = on_device(parent, np.int32), on_device(own.cells.T, np.int32)
    tables = corners, children, on_device(np.moveaxis(within, 0, 2), dtype), ends, shares

    def carry_field(field: AbstractField) -> AbstractField:
        match field:
            case KernelField():
                return dataclasses.replace(field, nodes=on_device(mesh.nodes, dtype))
            case AbstractPlaceField():
                return field
            case PiecewiseConstant():
                region = np.asarray(field.region)[parent]
                volumes = node_shares(mesh, region, field.shares.shape[1])
                return PiecewiseConstant(on_device(region, np.int32), on_device(volumes, dtype))
        return CoarseField(field, *tables)

    def carry(part: Any) -> Any:
        match part:
            case PerCell():
                return PerCell(part.values[children])
            case Nodal():
                return Nodal(jnp.einsum("nk,nk...->n...", shares, part.values[ends]))
            case FieldCoefficient():
                return FieldCoefficient(carry_field(part.field), part.name)
        return part

    def is_on_mesh(part: Any) -> bool:
        return isinstance(part, PerCell | Nodal | FieldCoefficient)

    latents = {
        name: dataclasses.replace(one, field=carry_field(one.field))
        if isinstance(one, AbstractFieldLatent)
        else one
        for name, one in problem.latents.latents.items()
    }
    make = P1 if space.element.degree == 1 else P2
    return pose_again(
        dataclasses.replace(problem, latents=LatentSpace(latents, problem.latents.names)),
        make(mesh, axisymmetric=space.axisymmetric),
        lambda tree: jax.tree.map(carry, tree, is_leaf=is_on_mesh),
    )


def corners_in_parents(
    coarse: Mesh, fine: Mesh, parent: Int[np.ndarray, " fine"]
) -> Float[np.ndarray, "fine corner corner"]:
    """Corners of cells in the barycentric coordinates of the cell that each is part of."""
    whole = coarse.nodes[coarse.cells[parent]]
    offsets = fine.nodes[fine.cells] - whole[:, :1]
    inside = np.linalg.solve((whole[:, 1:] - whole[:, :1]).swapaxes(1, 2), offsets.swapaxes(1, 2))
    # Cells are cut in their middles: what is left of binary fractions is rounding.
    inside = np.round(inside.swapaxes(1, 2) / ROUNDING) * ROUNDING
    return np.concatenate([1 - inside.sum(axis=2, keepdims=True), inside], axis=2)


def with_half_steps(problem: InverseProblem) -> InverseProblem:
    """Of a problem in time, with every step cut into two."""
    axis = problem.in_time.axis
    times = np.sort(np.concatenate([axis.times, (axis.times[:-1] + axis.times[1:]) / 2]))
    halved = TimeAxis(times, kinds_of(times), axis.origin)
    return pose_again(problem, problem.forward.space, axis=halved)


def between_nodes(mesh: Mesh) -> Int[np.ndarray, "node 2"]:
    """The nodes that each node of the refined mesh lies between."""
    nodes = np.arange(mesh.num_nodes)
    return np.concatenate([np.stack([nodes, nodes], axis=1), cell_edges(mesh)[0]])


def pose_again(
    problem: InverseProblem,
    space: Space,
    carry: Carry = lambda tree: tree,
    axis: TimeAxis | None = None,
) -> InverseProblem:
    """The same problem on another space or time axis; warnings were given the first time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forwards = tuple(again(one, space, carry) for one in problem.forwards)
        transient = None
        if problem.time is not None:
            own = problem.time
            initial = None if own.initial is None else carry(own.initial.value)
            transient = in_time(forwards[0], axis or own.axis, initial, own.scheme)
            forwards = (transient.step,)
        known = (problem.likelihood, np.inf, None, transient)
        return problem_of(forwards, problem.latents, experiment_observations(problem), *known)


def again(forward: BoundaryValueProblem, space: Space, carry: Carry) -> BoundaryValueProblem:
    # Where tags meet the later one wins, and pieces stand from the last to the first.
    pieces = {piece.tag: carry(piece.value) for piece in reversed(forward.dirichlet)}
    start, own = forward.start, forward.space
    if start is not None and space.num_dofs != own.num_dofs:
        # Quadratic functions have no values on edges of a finer mesh at hand: Newton's own start.
        start = finer_start(start, own, space, carry) if own.element.degree == 1 else None
    how = {"dtype": forward.dtype, "newton": forward.newton, "initial": start}
    return boundary_value_problem(space, carry(forward.form), pieces, **how)


def finer_start(
    start: Float[Array, " node"], own: Space, space: Space, carry: Carry
) -> Float[Array, " dof"]:
    if space.mesh is own.mesh:
        return start[between_nodes(own.mesh)].mean(axis=1)
    return carry(Nodal(start)).values


def experiment_observations(problem: InverseProblem) -> list[Observations]:
    """What was observed of each experiment."""
    observed = problem.observations
    if not problem.others:
        return [observed]
    assert isinstance(observed.what, Several)
    ends = np.cumsum([one.num_sensors for one in observed.what.each])[:-1]
    parts = zip(np.split(observed.points, ends), np.split(observed.values, ends), strict=True)
    return [
        Observations(points, values, what)
        for (points, values), what in zip(parts, observed.what.each, strict=True)
    ]

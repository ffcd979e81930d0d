"""The same problem on finer elements or with half steps: what a discretisation misses shows there.

Unknowns are the same functions of the same coordinates, so that states differ by the discretisation
alone.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
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
from riesz.observe.observables import Several
from riesz.observe.observations import Observations
from riesz.priors.fields import AbstractField, AbstractPlaceField, FieldCoefficient, Weights
from riesz.problem.posing import problem_of
from riesz.problem.problem import InverseProblem

Carry = Callable[[PyTree], PyTree]
"""An equation, or a value in it, as it is on a finer mesh."""


class CoarseField(AbstractField):
    """A field of a mesh on one that refines it: in each cell, that of the cell it is part of."""

    field: AbstractField
    corners: Int[Array, "corner cell"]  # of the coarse cells
    parent: Int[Array, " fine"]
    within: Float[Array, "corner corner fine"]  # corners of cells, in their parent's coordinates
    ends: Int[Array, "node 2"]  # coarse nodes that each node lies between

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
        return self.field.nodal(weights)[self.ends].mean(axis=1)

    def degree(self) -> int:
        return self.field.degree()


def on_quadratic_elements(problem: InverseProblem) -> InverseProblem:
    """With states that are quadratic in each cell of the same mesh."""
    space = problem.forward.space
    return pose_again(problem, P2(space.mesh, axisymmetric=space.axisymmetric))


def on_refined_mesh(problem: InverseProblem) -> InverseProblem:
    """With every cell cut into 2, 4 or 8."""
    space = problem.forward.space
    mesh, finer = space.mesh, refine(space.mesh)
    ends = between_nodes(mesh)
    # A child's corner lies at a parent's corner, or half-way between two.
    coarse = mesh.cells[finer.parent][:, np.newaxis, :, np.newaxis]
    within = (coarse == ends[finer.mesh.cells][:, :, np.newaxis]).mean(axis=3)
    tables = (
        on_device(mesh.cells.T, np.int32),
        on_device(finer.parent, np.int32),
        on_device(np.moveaxis(within, 0, 2), problem.forward.dtype),
        on_device(ends, np.int32),
    )

    def carry(part: Any) -> Any:
        match part:
            case PerCell():
                return PerCell(part.values[tables[1]])
            case Nodal():
                return Nodal(part.values[tables[3]].mean(axis=1))
            case FieldCoefficient(field=field) if not isinstance(field, AbstractPlaceField):
                return FieldCoefficient(CoarseField(field, *tables), part.name)
        return part

    def is_on_mesh(part: Any) -> bool:
        return isinstance(part, PerCell | Nodal | FieldCoefficient)

    make = P1 if space.element.degree == 1 else P2
    return pose_again(
        problem,
        make(finer.mesh, axisymmetric=space.axisymmetric),
        lambda tree: jax.tree.map(carry, tree, is_leaf=is_on_mesh),
    )


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
        start = start[between_nodes(own.mesh)].mean(axis=1) if own.element.degree == 1 else None
    how = {"dtype": forward.dtype, "newton": forward.newton, "initial": start}
    return boundary_value_problem(space, carry(forward.form), pieces, **how)


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

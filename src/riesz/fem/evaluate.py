"""The state, coefficients and fluxes at points of the domain.

They are evaluated by the same pointwise code that integrates them, in the cell that holds each
point, so that whatever can stand in an equation can also be mapped or measured.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from riesz.errors import RieszError
from riesz.fem.assembly import DofValues, local_states
from riesz.fem.elements.domain import Domain
from riesz.fem.kernel import Entity, entities_of, position, resolve_terms, state_at, sum_of_terms
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import AbstractCoefficient, resolve
from riesz.fem.terms.pointwise import Point
from riesz.mesh.location import locate

AtPoints = Float[Array, " point"]


class EvaluationPoints(eqx.Module):
    """Points of the domain: the cell that holds each, and where in it."""

    cells: Domain
    barycentric: Float[Array, "corner point"]

    @property
    def num_points(self) -> int:
        return self.barycentric.shape[1]


def evaluation_points(
    problem: BoundaryValueProblem, points: ArrayLike, *, tolerance: float | None = None
) -> EvaluationPoints:
    """Where points lie; raises where one is outside by more than `tolerance`, a length."""
    result = locate(problem.space.mesh, points, tolerance=tolerance, outside="raise")
    return EvaluationPoints(
        problem.cells.domain.take(jnp.asarray(result.cell, dtype=jnp.int32)),
        jnp.asarray(result.barycentric.T, dtype=problem.dtype),
    )


def centroids(problem: BoundaryValueProblem) -> EvaluationPoints:
    """The middle of each cell."""
    mesh = problem.space.mesh
    every = jnp.arange(mesh.num_cells, dtype=jnp.int32)
    middle = np.full((mesh.dim + 1, mesh.num_cells), 1 / (mesh.dim + 1))
    return EvaluationPoints(
        problem.cells.domain.take(every), jnp.asarray(middle, dtype=problem.dtype)
    )


def evaluate_at(
    of_point: Callable[[PyTree, Point], Array],
    local: PyTree[Array],
    problem: BoundaryValueProblem,
    where: EvaluationPoints,
    state: DofValues,
    z: PyTree,
) -> Float[Array, " point *components"]:
    """A function of what is known at each point; `local` is what each cell gathered for it."""
    entities = entities_of(where.cells, local_states(where.cells, state), ())

    def of_entity(entity: Entity, gathered: PyTree, barycentric: Float[Array, " corner"]) -> Array:
        weights = tuple(barycentric)
        u = state_at(problem.space.element, entity, weights)
        return of_point(gathered, Point(position(entity.vertices, weights), weights, u, z))

    return jax.vmap(of_entity, in_axes=-1)(entities, local, where.barycentric)


def states_at(
    problem: BoundaryValueProblem, where: EvaluationPoints, state: DofValues, z: PyTree
) -> AtPoints:
    """The state at points."""
    return evaluate_at(lambda _, point: point.u.value, (), problem, where, state, z)


def coefficients_at(
    problem: BoundaryValueProblem,
    where: EvaluationPoints,
    coefficient: AbstractCoefficient,
    state: DofValues,
    z: PyTree,
) -> Float[Array, " point *components"]:
    """A coefficient at points: a number, vector or tensor each."""
    known = resolve(coefficient, z, "unknown")
    return evaluate_at(known.at, known.gather(where.cells), problem, where, state, z)


def fluxes_at(
    problem: BoundaryValueProblem, where: EvaluationPoints, state: DofValues, z: PyTree
) -> Float[Array, "point dim"]:
    r"""$-F$ at points, such as Darcy's $-a\nabla u$: constant on each cell where $a$ is."""
    physics = resolve_terms(problem.cells.terms, problem.space.element, z)

    def minus_flux(gathered: PyTree, point: Point) -> Array:
        flux: Any = sum_of_terms(physics, gathered, None, point).flux
        if flux is None:
            raise RieszError(f"{problem.form!r} has no flux: no term multiplies grad v.")
        zero = jnp.zeros_like(point.x[0])
        return -jnp.stack([zero if part is None else zero + part for part in flux])

    return evaluate_at(minus_flux, physics.gather(where.cells), problem, where, state, z)

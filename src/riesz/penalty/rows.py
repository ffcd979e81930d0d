"""Residuals on the rows of sampled mini-patches, for states that are functions of place.

On the finest mesh the state is the nodal interpolant of the function: only the nodes of the patch
are evaluated. On coarser levels an interpolant would not do: the fine solution's coarse interpolant
does not solve the equation. There the function and its gradient are taken at quadrature points.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Integer, PyTree

from riesz.fem.assembly import piece_values, source_rates
from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import PointOperator
from riesz.fem.kernel import Physics, entity_residuals, resolve_terms, sum_of_terms
from riesz.fem.problem import BoundaryValueProblem, Group, wells_at_known_points
from riesz.fem.terms.pointwise import LinearForm, Point, State
from riesz.penalty.level_points import LevelPoints
from riesz.penalty.patch import PatchTable


class Place(eqx.Module):
    """A point, and the cell of the finest mesh that holds it."""

    x: Float[Array, " dim"]
    corners: Int[Array, " corner"]  # nodes of the cell
    barycentric: Float[Array, " corner"]


class AbstractPlacedState(eqx.Module):
    """A state that reads nodal arrays of the finest mesh beside the coordinates."""

    @abstractmethod
    def at(self, place: Place, z: PyTree) -> Float[Array, ""]:
        """The value at one place; its derivative by `place.x` is the state's gradient."""


StateFunction = Callable[[Float[Array, " dim"], PyTree], Float[Array, ""]] | AbstractPlacedState
"""The state u(x, z) at one place."""


def value_at(u: StateFunction, place: Place, z: PyTree) -> Float[Array, ""]:
    """The state at one place."""
    return u.at(place, z) if isinstance(u, AbstractPlacedState) else u(place.x, z)


def values_at_nodes(
    u: StateFunction, nodes: Int[Array, " node"], x: Float[Array, "node dim"], z: PyTree
) -> Float[Array, " node"]:
    """The state at nodes of the finest mesh, with their coordinates."""
    num_corners = x.shape[1] + 1
    first = jnp.zeros(num_corners, x.dtype).at[0].set(1.0)

    def at(node, place):
        return value_at(u, Place(place, jnp.broadcast_to(node, (num_corners,)), first), z)

    return jax.vmap(at)(nodes, x)


def full_precision():
    """A context in which GPUs do not round the factors of float32 products to ten bits.

    A residual is a small difference of large numbers, those of the network included.
    """
    return jax.default_matmul_precision("highest")


class PrescribedNodes(eqx.Module):
    """For each mesh node, which of the problem's Dirichlet conditions holds there; -1 for none."""

    piece: Int[Array, " node"]


class TestedLevels(eqx.Module):
    """Quadrature points for each group of terms on some levels, and the wells there."""

    points: tuple[LevelPoints, ...]
    operators: tuple[PointOperator, ...]  # all levels' shape functions at each source's points


def interpolant_rows(
    problem: BoundaryValueProblem,
    prescribed: PrescribedNodes | None,
    table: PatchTable,
    patch: Int[Array, ""],
    u: StateFunction,
    z: PyTree,
) -> Float[Array, " row"]:
    """The residual of the nodal interpolant of u, with prescribed values where there are any."""
    nodes = table.nodes[patch]
    x = problem.cells.domain.nodes[:, nodes].T
    values = values_at_nodes(u, nodes, x, z)
    if prescribed is not None:
        values = with_prescribed(problem, prescribed, nodes, x, values, z)
    operators = tuple(operator for _, operator in wells_at_known_points(problem))
    total = point_loads(problem, operators, table.rows[patch], z)
    groups = zip((problem.cells, *problem.facets), (table.cells, *table.facets), strict=True)
    for group, entities in groups:
        domain = group.domain.take(entities.entities[patch])
        local = tuple(values[entities.nodes[patch].astype(jnp.int32)].T)
        physics = resolve_terms(group.terms, problem.space.element, z)
        parts = jnp.stack(entity_residuals(physics, domain, local), axis=1)
        total = total + sum_into_rows(parts, entities.rows[patch], len(total))
    return total


def with_prescribed(
    problem: BoundaryValueProblem,
    prescribed: PrescribedNodes,
    nodes: Int[Array, " node"],
    x: Float[Array, "node dim"],
    values: Float[Array, " node"],
    z: PyTree,
) -> Float[Array, " node"]:
    """Values at some nodes, with those put in that are prescribed there and nowhere else."""
    piece_of = prescribed.piece[nodes]
    for index, piece in enumerate(problem.dirichlet):
        if not len(piece.x):
            continue
        held = piece_of == index
        # A condition may make no sense away from its own nodes: there it is asked at one of them.
        asked = dataclasses.replace(
            piece,
            position=nodes,
            x=jnp.where(held[:, None], x, piece.x[:1]),
            ends=jnp.broadcast_to(nodes[:, None], (len(nodes), 2)),
        )
        values = jnp.where(held, piece_values(asked, z).astype(values.dtype), values)
    return values


def sum_into_rows(
    parts: Float[Array, "entity corner"], rows: Integer[Array, "entity corner"], num_rows: int
) -> Float[Array, " row"]:
    """Contributions of corners added up by row; those of corners outside the patch are dropped."""
    total = jnp.zeros(num_rows + 1, parts.dtype)
    return total.at[rows.astype(jnp.int32)].add(parts)[:num_rows]


def point_loads(
    problem: BoundaryValueProblem,
    operators: tuple[PointOperator, ...],
    rows: Int[Array, " row"],
    z: PyTree,
) -> Float[Array, " row"]:
    """What the point sources contribute to the rows of a patch."""
    total = jnp.zeros(len(rows), problem.dtype)
    for (source, _), operator in zip(problem.point_sources, operators, strict=True):
        loads = source.sign * operator.weights * source_rates(source, z)[None, :]
        here = operator.dofs[None] == rows[:, None, None]
        total = total + jnp.sum(jnp.where(here, loads[None], 0.0), axis=(1, 2))
    return total


def function_rows(
    problem: BoundaryValueProblem,
    levels: TestedLevels,
    table: PatchTable,
    patch: Int[Array, ""],
    u: StateFunction,
    z: PyTree,
) -> Float[Array, " row"]:
    """The residual of u itself, tested with the shape functions of a patch."""
    num_rows = table.rows.shape[1]
    total = point_loads(problem, levels.operators, table.rows[patch], z)
    groups = zip(
        (problem.cells, *problem.facets), levels.points, (table.cells, *table.facets), strict=True
    )
    for group, places, entities in groups:
        chosen = places.take(entities.entities[patch])
        parts = apply_to_tests(problem, group, chosen, u, z)
        total = total + sum_into_rows(parts, entities.rows[patch], num_rows)
    return total


def apply_to_tests(
    problem: BoundaryValueProblem, group: Group, places: LevelPoints, u: StateFunction, z: PyTree
) -> Float[Array, "entity corner"]:
    """The form at every quadrature point of chosen entities, tested with their corners."""
    physics = resolve_terms(group.terms, problem.space.element, z)
    forms = jax.vmap(lambda q: forms_at(physics, problem.cells.domain, places, q, u, z))(
        jnp.arange(len(places.weights))
    )
    shapes = places.barycentric
    slopes = jnp.concatenate(
        [-places.inverse_jacobian.sum(axis=0, keepdims=True), places.inverse_jacobian]
    )
    density = jnp.zeros(places.weights.shape, shapes.dtype) if forms[0] is None else forms[0]
    tested = density[:, None] * shapes
    if forms[1] is not None:
        tested = tested + jnp.einsum("dqe,cde->qce", jnp.stack(forms[1]), slopes)
    return jnp.sum(places.weights[:, None] * tested, axis=0).T


def forms_at(
    physics: Physics,
    cells: Domain,
    places: LevelPoints,
    q: Int[Array, ""],
    u: StateFunction,
    z: PyTree,
) -> tuple[Float[Array, " entity"] | None, tuple[Float[Array, " entity"], ...] | None]:
    """Density and flux at quadrature point q of every entity."""
    fine = cells.take(places.fine_cell[q])

    def at(x, corners, barycentric, normal, local):
        value, slopes = value_and_slopes(u, Place(x, corners, barycentric), z)
        point = Point(x, tuple(barycentric), State(value, tuple(slopes)), z)
        form = sum_of_terms(physics, local, normal, point)
        return form.density, full_flux(form, len(x))

    return jax.vmap(at, in_axes=(-1, -1, -1, -1, -1), out_axes=-1)(
        places.x[q], fine.corners, places.fine_barycentric[q], places.normal, physics.gather(fine)
    )


def value_and_slopes(
    u: StateFunction, place: Place, z: PyTree
) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
    """The state and its gradient at one place.

    Forward mode: what depends on the place alone is then not done again for every sample of z.
    """

    def along(direction):
        return jax.jvp(
            lambda x: value_at(u, Place(x, place.corners, place.barycentric), z),
            (place.x,),
            (direction,),
        )

    directions = jnp.eye(len(place.x), dtype=place.x.dtype)
    return jax.vmap(along, out_axes=(None, 0))(directions)


def full_flux(form: LinearForm, dim: int) -> tuple[Float[Array, ""], ...] | None:
    if form.flux is None:
        return None
    none = jnp.zeros_like(next(part for part in form.flux if part is not None))
    return tuple(none if form.flux[d] is None else form.flux[d] for d in range(dim))

"""Residuals, matrix-free, and sparse Jacobians of a boundary-value problem.

`state` is always the vector of all unknowns; latents `z` are any pytree that the equation's
coefficients read. All functions here can be jitted, differentiated and mapped over `state` and `z`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from riesz.errors import FormError
from riesz.fem.elements.domain import Domain
from riesz.fem.elements.space import P1, PointOperator, point_operator
from riesz.fem.kernel import entity_matrices, entity_residuals, resolve_terms
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem, DirichletPiece, Group, boundary_value_problem
from riesz.fem.terms.coefficient import Latent, Nodal, as_floats, latent_value, resolve
from riesz.fem.terms.series import Series
from riesz.fem.terms.weakform import PointSource, WeakForm
from riesz.mesh.mesh import Mesh

DofValues = Float[Array, " dof"]
FreeValues = Float[Array, " free"]


@eqx.filter_jit
def residual(problem: BoundaryValueProblem, state: DofValues, z: Any = None) -> DofValues:
    r"""$r_i = \mathrm{form}(u; \phi_i)$ for every shape function, those at fixed unknowns included.

    On free unknowns it vanishes at the solution; on fixed ones it is the flux that holds the
    prescribed values (see `budget`).
    """
    check_state(problem, state)

    def residuals_of_cells(start, count):
        return group_residuals(problem, slice_cells(problem.cells, start, count), state, z)

    total = problem.accumulation(residuals_of_cells)
    for group in problem.facets:
        for dofs, part in zip(
            group.domain.dofs, group_residuals(problem, group, state, z), strict=True
        ):
            total = total.at[dofs].add(part)
    return total if not problem.point_sources else total + residual_of_wells(problem, z)


def residual_of_wells(problem: BoundaryValueProblem, z: PyTree = None) -> DofValues:
    """The part of the residual that point sources make, whatever the state."""
    total = jnp.zeros(problem.space.num_dofs, problem.dtype)
    for source, operator in wells_of(problem, z):
        rates = jnp.asarray(source_rates(source, z), total.dtype)
        total = total + source.sign * operator.transpose_product(rates)
    return total


def wells_of(
    problem: BoundaryValueProblem, z: PyTree
) -> Iterator[tuple[PointSource, PointOperator]]:
    """Point sources, and the shape functions where they are."""
    for source, operator in problem.point_sources:
        if operator is not None:
            yield source, operator
            continue
        places = source_places(source, z).astype(problem.dtype)
        if places.shape[1] != problem.space.mesh.dim:
            raise FormError(
                f"the place of a point source has shape {places.shape}, but the mesh is in "
                f"{problem.space.mesh.dim} dimensions: give as many coordinates."
            )
        yield source, point_operator(problem.space, places, dtype=problem.dtype)


def source_places(source: PointSource, z: PyTree) -> Float[Array, "well dim"]:
    if not isinstance(source.points, Latent):
        return source.points
    label = "the place of the point source"
    return jnp.atleast_2d(as_floats(latent_value(source.points, z, label), label))


def check_state(problem: BoundaryValueProblem, state: Float[Array, "..."]) -> None:
    """Raise where a state has not one number for each unknown of the problem's space."""
    wanted = (problem.space.num_dofs,)
    if state.shape != wanted:
        raise FormError(
            f"the state has shape {state.shape}, but the space has {wanted[0]} unknowns: give the "
            "vector of all of them, prescribed ones included."
        )


def free_residual(problem: BoundaryValueProblem, state: DofValues, z: PyTree = None) -> FreeValues:
    """The residual tested with the shape functions of free unknowns only."""
    return residual(problem, state, z)[problem.free]


def group_residuals(
    problem: BoundaryValueProblem, group: Group, state: DofValues, z: PyTree
) -> tuple[Float[Array, " entity"], ...]:
    """Contributions of each cell or facet of a group to its local unknowns."""
    local = local_states(group.domain, state)
    physics = resolve_terms(group.terms, problem.space.element, z)
    return entity_residuals(physics, group.domain, local)


def slice_cells(group: Group, start: Int[Array, ""], count: int) -> Group:
    """The group on `count` cells from `start` on."""
    if count == len(group.domain.measure):
        return group
    return eqx.tree_at(lambda g: g.domain, group, group.domain.slice_cells(start, count))


def local_states(domain: Domain, state: DofValues) -> list[Float[Array, " entity"]]:
    """The state at the local unknowns of every entity, one array a local unknown."""
    return [
        state.at[dofs].get(mode="promise_in_bounds", wrap_negative_indices=False)
        for dofs in domain.dofs
    ]


def source_rates(source: PointSource, z: PyTree) -> Float[Array, " well"]:
    """One rate a point, from the form or from `z`; a single point may have a plain number."""
    name = "rates of the point source"
    match source.rates:
        case Latent(name=own):
            label, given = repr(own), latent_value(source.rates, z, name)
        case Series():
            label, given = "in time", source.rates.now(z, name)
        case known:
            label, given = "given", known
    rates = jnp.atleast_1d(as_floats(given, name))
    count = len(source_places(source, z))
    if rates.shape != (count,):
        raise FormError(
            f"{name} {label} have shape {rates.shape}, but there are {count} points: give one rate "
            "a point."
        )
    return rates


@eqx.filter_jit
def jacobian(problem: BoundaryValueProblem, state: DofValues, z: Any = None) -> SparseMatrix:
    r"""$\partial r_i/\partial u_j$ on free unknowns: the stiffness matrix of a linear equation."""
    check_state(problem, state)
    values = jnp.zeros(len(problem.pattern.rows), problem.dtype)
    for group in (problem.cells, *problem.facets):
        local = local_states(group.domain, state)
        physics = resolve_terms(group.terms, problem.space.element, z)
        rows = entity_matrices(physics, group.domain, local)
        for entries, row in zip(group.entries, rows, strict=True):
            values = values.at[entries].add(row, mode="drop")
    return SparseMatrix(problem.pattern, values)


def matrix(mesh: Mesh, form: WeakForm, dirichlet: Mapping[str, Any] | None = None) -> SparseMatrix:
    """The matrix of a linear form without latents, such as stiffness or mass, for P1 on a mesh."""
    problem = boundary_value_problem(P1(mesh), form, dirichlet)
    return jacobian(problem, jnp.zeros(mesh.num_nodes))


def dirichlet_values(problem: BoundaryValueProblem, z: PyTree = None) -> Float[Array, " fixed"]:
    """Prescribed values at the fixed unknowns."""
    values = jnp.zeros(len(problem.fixed), problem.dtype)
    for piece in problem.dirichlet:
        values = values.at[piece.position].set(piece_values(piece, z).astype(values.dtype))
    return values


def piece_values(piece: DirichletPiece, z: PyTree) -> Float[Array, " piece"]:
    coefficient = resolve(piece.value, z, "Dirichlet value")
    if isinstance(coefficient, Nodal):
        return coefficient.values[piece.ends].mean(axis=1)
    return coefficient.at_places(piece.x, z)


@eqx.filter_jit
def with_dirichlet(
    problem: BoundaryValueProblem, free_values: FreeValues, z: PyTree = None
) -> DofValues:
    """The vector of all unknowns from the free ones and the prescribed values."""
    state = jnp.zeros(problem.space.num_dofs, problem.dtype)
    state = state.at[problem.fixed].set(dirichlet_values(problem, z))
    return state.at[problem.free].set(free_values)

"""A boundary-value problem: an equation on a space with its Dirichlet conditions, ready for jit.

Built and checked once on the host. All arrays in it are arguments of the compiled functions that
receive it, never constants folded into them.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.errors import FormError
from riesz.fem.accumulate import Accumulation, accumulation
from riesz.fem.checks import check_prescribed, check_term
from riesz.fem.elements.domain import Domain, cell_domain, facet_domain
from riesz.fem.elements.space import PointOperator, Space, facet_dofs, point_operator
from riesz.fem.linear.sparse import SparsePattern, cell_pairs, pattern_tables
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Latent,
    PerCell,
    as_coefficient,
    is_traced,
)
from riesz.fem.terms.weakform import PointSource, Term, WeakForm
from riesz.mesh.tags import facets_of_tag
from riesz.notes import Note, NoteWarning


class Group(eqx.Module):
    """Terms that are integrated over the same cells or facets."""

    terms: tuple[Term, ...]
    domain: Domain
    entries: Int[Array, "local local entity"]  # of each pair of unknowns in the matrix pattern


class DirichletPiece(eqx.Module):
    """Prescribed values at some unknowns."""

    tag: str = eqx.field(static=True)
    value: AbstractCoefficient
    position: Int[Array, " piece"]  # in the list of all fixed unknowns
    x: Float[Array, "piece dim"]
    ends: Int[Array, "piece 2"]  # mesh nodes around it, equal for an unknown at a node


class Newton(eqx.Module):
    """Settings of the iteration: stop at a relative residual, halve steps that do not reduce it."""

    tolerance: float = eqx.field(static=True, default=1e-9)
    max_steps: int = eqx.field(static=True, default=30)
    max_halvings: int = eqx.field(static=True, default=10)


class BoundaryValueProblem(eqx.Module):
    """Find u with form(u; v) = 0 for all v that vanish where u is prescribed."""

    cells: Group
    facets: tuple[Group, ...]
    point_sources: tuple[tuple[PointSource, PointOperator | None], ...]  # none: at unknown places
    dirichlet: tuple[DirichletPiece, ...]
    free: Int[Array, " free"]
    fixed: Int[Array, " fixed"]
    accumulation: Accumulation
    pattern: SparsePattern  # of the matrix on free unknowns
    space: Space = eqx.field(static=True)
    form: WeakForm
    newton: Newton = Newton()
    start: Float[Array, " dof"] | None = None  # of Newton's iteration; zero where there is none

    @property
    def num_free(self) -> int:
        return len(self.free)

    @property
    def dirichlet_tags(self) -> tuple[str, ...]:
        return tuple(piece.tag for piece in self.dirichlet)

    @property
    def dtype(self) -> np.dtype:
        return self.cells.domain.measure.dtype

    def __repr__(self) -> str:
        return f"BoundaryValueProblem({self.form!r}, {self.num_free} free of {self.space!r})"


def boundary_value_problem(
    space: Space,
    form: WeakForm,
    dirichlet: Mapping[str, Any] | None = None,
    *,
    dtype: DTypeLike | None = None,
    quadrature_degree: int | None = None,
    newton: Newton | None = None,
    initial: Any = None,
) -> BoundaryValueProblem:
    """Bind an equation to a space and check it.

    `dirichlet` maps tags ("boundary" is the whole of it) to values: numbers, `nodal(...)` arrays,
    functions of (x) or (x, z), or names of latents; where tags meet, the later one wins. For an
    equation that is not linear, `newton` has settings of its iteration and `initial` is where that
    starts: a number, or one for each unknown of the state.
    """
    check_kinds(space, form, dirichlet)
    check_not_compiled()
    dtype = working_dtype(dtype)
    check_terms_exist(form)
    cell_dofs = np.asarray(space.cell_dofs.T, dtype=np.int32, order="C")
    # Sorting leaves the interpreter to others: the pattern is made beside the rest.
    with ThreadPoolExecutor(max_workers=1) as beside:
        pairs = beside.submit(cell_pairs, cell_dofs, space.num_dofs)
        pieces = dirichlet_unknowns(space, dirichlet or {})
        free, fixed = free_and_fixed(space, [dofs for _, _, dofs in pieces])
        tables = beside.submit(
            lambda: pattern_tables(pairs.result(), cell_dofs, free, space.num_dofs)
        )
        domains = domains_of(space, form, quadrature_degree, dtype)
        sums = accumulation(cell_dofs, space.num_dofs)
        pattern = tables.result()
    groups = groups_of(form, domains, pattern.entries)
    problem = BoundaryValueProblem(
        cells=groups[0],
        facets=tuple(groups[1:]),
        point_sources=bind_point_sources(space, form, dtype),
        dirichlet=tuple(dirichlet_piece(space, *piece, fixed, dtype) for piece in pieces),
        free=on_device(free, np.int32),
        fixed=on_device(fixed, np.int32),
        accumulation=sums,
        pattern=pattern.on_device(),
        space=space,
        form=form,
        newton=Newton() if newton is None else newton,
        start=None if initial is None else start_values(space, initial, dtype),
    )
    check_coefficients(problem)
    return problem


def start_values(space: Space, initial: Any, dtype: np.dtype) -> Float[Array, " dof"]:
    """Where Newton's iteration starts: a number, or the vector of all unknowns."""
    shape, wanted = jnp.shape(initial), (space.num_dofs,)
    if shape not in ((), wanted):
        raise FormError(
            f"initial has shape {shape}, but the space has {wanted[0]} unknowns: give one number, "
            "or the vector of all of them, prescribed ones included."
        )
    return jnp.broadcast_to(jnp.asarray(initial, dtype), wanted)


def with_form(problem: BoundaryValueProblem, form: WeakForm) -> BoundaryValueProblem:
    """Another equation on the same space, with the same unknowns fixed."""
    check_terms_exist(form)
    domains = domains_of(problem.space, form, None, problem.dtype)
    groups = groups_of(form, domains, problem.cells.entries)
    other = dataclasses.replace(
        problem,
        cells=groups[0],
        facets=tuple(groups[1:]),
        point_sources=bind_point_sources(problem.space, form, problem.dtype),
        form=form,
    )
    check_coefficients(other)
    return other


def bind_point_sources(
    space: Space, form: WeakForm, dtype: np.dtype
) -> tuple[tuple[PointSource, PointOperator | None], ...]:
    return tuple(
        (one, None if isinstance(one.points, Latent) else source_operator(space, one, dtype))
        for one in form.point_sources
    )


def wells_at_known_points(
    problem: BoundaryValueProblem,
) -> tuple[tuple[PointSource, PointOperator], ...]:
    """Point sources with their shape functions, which there are none of at unknown places."""
    result = []
    for source, operator in problem.point_sources:
        if operator is None:
            raise FormError(
                "the place of a point source is unknown, which takes exact solves: use the "
                "density exact; or a smooth source, source(lambda x, z: ...), wider than a cell."
            )
        result.append((source, operator))
    return tuple(result)


def source_operator(space: Space, source: PointSource, dtype: np.dtype) -> PointOperator:
    """The shape functions of a space at the points of a source."""
    points = np.asarray(source.points)
    return point_operator(space, points, dtype=dtype, tolerance=source.tolerance)


def check_coefficients(problem: BoundaryValueProblem, z: PyTree = None) -> None:
    """Raise where coefficients do not fit; with `z`, those that depend on it are checked too."""
    for group in (problem.cells, *problem.facets):
        for term in group.terms:
            check_term(term, group.domain, problem.space.mesh, z)
    for piece in problem.dirichlet:
        label = f"the Dirichlet value on {piece.tag!r}"
        check_prescribed(piece.value, piece.x, problem.space.mesh, z, label)


def check_kinds(space: Any, form: Any, dirichlet: Any) -> None:
    if not isinstance(space, Space):
        raise FormError(f"the space is a {type(space).__name__}: make one by P1(mesh) or P2(mesh).")
    if not isinstance(form, WeakForm):
        raise FormError(
            f"the equation is a {type(form).__name__}: add and subtract terms, as in "
            "diffusion(a) - source(f); it is understood to be zero."
        )
    if dirichlet is not None and not isinstance(dirichlet, Mapping):
        raise FormError(
            f"the Dirichlet conditions are a {type(dirichlet).__name__}: give a value for each "
            'tag, as in {"boundary": 0.0}.'
        )


def check_not_compiled() -> None:
    """Raise inside jit, where tables of a problem cannot be made: numbers are not known there."""
    if is_traced(jnp.zeros(())):
        raise FormError(
            "a problem is put together inside jit: build it outside, name what changes, as in "
            "diffusion('a'), and pass it as z={'a': value}."
        )


def working_dtype(dtype: DTypeLike | None) -> np.dtype:
    """Float64 unless told otherwise; says so when JAX would round to float32 unasked."""
    if dtype is not None:
        return jnp.dtype(dtype)
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            "coordinates and coefficients are rounded to float32 because JAX runs without float64: "
            'add jax.config.update("jax_enable_x64", True) at the top of the program, or pass '
            "dtype=jnp.float32 to say that this is meant.",
            stacklevel=3,
        )
        return jnp.dtype(jnp.float32)
    return jnp.dtype(jnp.float64)


def check_terms_exist(form: WeakForm) -> None:
    if not any(term.on is None for term in form.terms):
        raise FormError(
            f"{form!r} has no term over the cells: add diffusion(...), reaction(...) or another."
        )


def group_terms(form: WeakForm) -> dict[str | None, list[Term]]:
    """Terms by where they are integrated, the cells first."""
    groups: dict[str | None, list[Term]] = {None: []}
    for term in form.terms:
        groups.setdefault(term.on, []).append(term)
    return groups


def domains_of(
    space: Space, form: WeakForm, quadrature_degree: int | None, dtype: np.dtype
) -> list[Domain]:
    """Where each group of terms is integrated."""
    return [
        domain_of(space, terms, on, quadrature_degree, dtype)
        for on, terms in group_terms(form).items()
    ]


def domain_of(
    space: Space,
    terms: list[Term],
    on: str | None,
    quadrature_degree: int | None,
    dtype: np.dtype,
) -> Domain:
    element = space.element
    if element.degree != 1 and any(term.streamline for term in terms):
        raise FormError("supg=True needs P1 elements: refine the mesh or leave supg out.")
    degree = max(term.degree(element.degree) for term in terms)
    degree = degree if quadrature_degree is None else quadrature_degree
    if on is None:
        return cell_domain(space, degree, dtype)
    return facet_domain(space, facets_of_tag(space.mesh, on), degree, dtype)


def groups_of(
    form: WeakForm, domains: list[Domain], entries: Int[np.ndarray | Array, "local local cell"]
) -> list[Group]:
    """Terms by where they are integrated, with the entries of the cells, or of those at facets."""
    groups = []
    for terms, domain in zip(group_terms(form).values(), domains, strict=True):
        at = domain.cell
        own = entries if at is None else np.asarray(entries)[:, :, np.asarray(at)]
        groups.append(Group(tuple(terms), domain, on_device(own)))
    return groups


def free_and_fixed(
    space: Space, pieces: list[Int[np.ndarray, " _"]]
) -> tuple[Int[np.ndarray, " free"], Int[np.ndarray, " fixed"]]:
    """The unknowns that no piece prescribes, and those that one does."""
    prescribed = np.zeros(space.num_dofs, dtype=bool)
    for dofs in pieces:
        prescribed[dofs] = True
    if prescribed.all():
        raise FormError(
            f"all {space.num_dofs} unknowns are prescribed by Dirichlet conditions: refine the "
            "mesh or free a part of the boundary, so that something is left to find."
        )
    return np.flatnonzero(~prescribed), np.flatnonzero(prescribed)


def dirichlet_unknowns(
    space: Space, dirichlet: Mapping[str, Any]
) -> list[tuple[str, AbstractCoefficient, Int[np.ndarray, " piece"]]]:
    """Tags, values and the unknowns they prescribe, disjoint."""
    pieces, taken = [], np.zeros(space.num_dofs, dtype=bool)
    for tag, value in reversed(list(dirichlet.items())):
        dofs = facet_dofs(space, facets_of_tag(space.mesh, tag).nodes)
        coefficient = as_coefficient(value, f"Dirichlet value on {tag!r}")
        if isinstance(coefficient, PerCell):
            raise FormError(f"the Dirichlet value on {tag!r} is per cell: give it at the nodes.")
        own = dofs[~taken[dofs]]
        if len(dofs) and not len(own):
            warnings.warn(NoteWarning(Note("idle_dirichlet", tag=tag)), stacklevel=3)
        pieces.append((tag, coefficient, own))
        taken[dofs] = True
    return pieces


def dirichlet_piece(
    space: Space,
    tag: str,
    value: AbstractCoefficient,
    dofs: Int[np.ndarray, " piece"],
    fixed: Int[np.ndarray, " fixed"],
    dtype: np.dtype,
) -> DirichletPiece:
    ends = np.stack([dofs, dofs], axis=1)
    at_edge = dofs >= space.mesh.num_nodes
    ends[at_edge] = space.edges[dofs[at_edge] - space.mesh.num_nodes]
    return DirichletPiece(
        tag=tag,
        value=value,
        position=on_device(np.searchsorted(fixed, dofs), np.int32),
        x=on_device(space.points[dofs], dtype),
        ends=on_device(ends, np.int32),
    )

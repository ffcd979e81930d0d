"""Multigrid for a boundary-value problem: its levels from nested meshes, or from aggregates.

Smoothing a point at a time levels errors along strong couplings only. Where these go in some
directions and not in others (flat cells, layers, anisotropy) a mesh that is coarser in all of them
cannot represent what is left: there aggregates of the matrix itself lead to coarser levels.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from riesz.arrays import on_device
from riesz.errors import SolveError
from riesz.fem.kernel import conductions, resolved
from riesz.fem.linear.multigrid.aggregation import smoothed_aggregation, strong
from riesz.fem.linear.multigrid.solver import Multigrid, from_prolongations
from riesz.fem.linear.multigrid.tables import dimensions
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Constant,
    Function,
    is_traced,
    reads_state,
    with_parts,
)
from riesz.fem.terms.weakform import MOVING, Term, diffusion
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import Hierarchy, midpoint_prolongation

COARSEST = 100
"""Unknowns of the coarsest level, at most: a dense inverse of so many costs little."""

MOST_LEVELS = 30

SMOOTHING = {True: 3, False: 8}
"""Steps of smoothing for symmetric matrices and others: transport at a cell Peclet number of 100
takes a third of the iterations with eight steps instead of three, and less time."""

ALL_ROUND = 1.5
"""Strong neighbours that an unknown has in each dimension, at least, where its couplings go in all
directions: two on a grid."""

MOST_LINKED = 0.25
"""The share of unknowns with fewer up to which coarser meshes are taken."""

SMOOTHING_OF_JUMPS = 6
"""The same where coefficients are given cell by cell: coarse levels do not see where they jump."""


def multigrid(
    problem: BoundaryValueProblem,
    hierarchy: Hierarchy | None = None,
    *,
    z: Any = None,
    **settings: Any,
) -> Multigrid:
    """A solver for the matrices of a problem.

    With a `hierarchy` whose finest mesh is the problem's, its prolongations lead from level to
    level where couplings go in all directions; otherwise, where it ends with too many unknowns, or
    where there is none, aggregates do. `z` holds values of the unknowns in whose matrix couplings
    are looked at; coefficients that it does not tell count as one. Conjugate gradients need a
    symmetric matrix: `is_symmetric` says whether it is, where the equation does not.
    """
    prolongations = prolongations_of(problem, hierarchy, z)
    return from_prolongations(problem.pattern, prolongations, **settled(problem, settings))


def settled(problem: BoundaryValueProblem, settings: dict[str, Any]) -> dict[str, Any]:
    """With what the equation says where a setting does not."""
    is_symmetric = settings.get("is_symmetric", problem.form.is_symmetric)
    has_jumps = is_symmetric and problem.form.has_jumps
    smoothing = SMOOTHING_OF_JUMPS if has_jumps else SMOOTHING[is_symmetric]
    return {"is_symmetric": is_symmetric, "smoothing": smoothing} | settings


def prolongations_of(
    problem: BoundaryValueProblem, hierarchy: Hierarchy | None, z: Any = None
) -> list[sp.csr_array]:
    """Between the free unknowns of levels, that to the finest first."""
    mesh, free = problem.space.mesh, np.asarray(problem.free)
    matrix = representative(problem, z)
    prolongations = []
    if problem.space.element.degree == 2:
        between = midpoint_prolongation(mesh.num_nodes, problem.space.edges)
        free = narrowed(prolongations, between, free)
    if hierarchy is not None:
        check_hierarchy(hierarchy, mesh)
        if is_all_round(matrix, mesh.dim):
            for between in hierarchy.prolongations[::-1]:
                if len(free) <= COARSEST:
                    break
                free = narrowed(prolongations, between, free)
                matrix = coarsened(matrix, prolongations[-1])
    while len(prolongations) < MOST_LEVELS and dimensions(matrix)[0] > COARSEST:
        aggregated = smoothed_aggregation(matrix)
        if not 0 < dimensions(aggregated)[1] <= 0.8 * dimensions(matrix)[0]:
            break
        prolongations.append(aggregated)
        matrix = coarsened(matrix, aggregated)
    return prolongations


def representative(problem: BoundaryValueProblem, z: Any = None) -> sp.csr_array:
    """The matrix of diffusion alone for linear elements: what hangs together how strongly.

    Storage, leakage and the like help smoothing, and transport is what upwinding is for.
    Coefficients that are not known are one. The host adds cells up: to compile a whole matrix for
    it would take several times as long as all the rest that is done before the first solve.
    """
    z = None if is_traced(z) else z
    mesh, pattern = problem.space.mesh, problem.pattern
    columns, starts = np.asarray(pattern.columns), np.asarray(pattern.row_starts)
    values = np.zeros(len(columns) + 1)  # fixed unknowns have the last one
    for group in (problem.cells, *problem.facets):
        with jax.ensure_compile_time_eval():  # whoever asks may be in the middle of being compiled
            terms = of_diffusion(group.terms, z)
            if not terms and group is not problem.cells:
                continue
            terms = terms or diffusion(1.0).terms
            physics = resolved(terms, problem.space.element, z)
            tensors = np.asarray(conductions(physics, group.domain), float)
        slopes = np.asarray(group.domain.inverse_jacobian, float)
        slopes = np.concatenate([-slopes.sum(axis=0, keepdims=True), slopes])
        local = np.einsum("iac,jac->ijc", slopes, np.einsum("bac,jbc->jac", tensors, slopes))
        entries = np.asarray(group.entries)[: mesh.dim + 1, : mesh.dim + 1]
        values += np.bincount(entries.ravel(), local.ravel(), len(values))
    matrix = sp.csr_array((values[:-1], columns, starts), shape=(pattern.size, pattern.size))
    size = np.searchsorted(np.asarray(problem.free), mesh.num_nodes)  # middles of edges follow
    matrix = sp.csr_array(matrix[:size, :size])
    if z is not None and not (np.isfinite(matrix.data).all() and (matrix.diagonal() != 0).all()):
        return representative(problem)
    return matrix


def of_diffusion(terms: tuple[Term, ...], z: Any) -> tuple[Term, ...]:
    """Those that move something, with ones for what is not known."""

    def known(part: AbstractCoefficient) -> AbstractCoefficient:
        arguments = part.num_arguments if isinstance(part, Function) else 0
        is_open = z is None and (part.names or arguments > 1)
        return Constant(on_device(1.0)) if is_open or reads_state(part) else part

    def with_known(term: Term) -> Term:
        own = {name: with_parts(one, known) for name, one in term.coefficients.items()}
        return dataclasses.replace(term, coefficients=own)

    return tuple(with_known(term) for term in terms if term.integrand in MOVING)


def is_all_round(matrix: sp.csr_array, dim: int) -> bool:
    """Whether most unknowns hang together with neighbours in all directions."""
    entries = sp.coo_array(matrix)
    neighbours = np.bincount(entries.row[strong(entries)], minlength=len(matrix.indptr) - 1)
    return float(np.mean(neighbours < ALL_ROUND * dim)) <= MOST_LINKED


def coarsened(matrix: sp.csr_array, prolongation: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(prolongation.T @ matrix @ prolongation)


def narrowed(
    prolongations: list[sp.csr_array], between: sp.csr_array, free: Int[np.ndarray, " free"]
) -> Int[np.ndarray, " coarse_free"]:
    """Add the part of a prolongation between free unknowns; return the coarser ones.

    The coarser unknowns are the first of the finer ones: what is fixed there is fixed here.
    """
    coarse = free[free < dimensions(between)[1]]
    prolongations.append(sp.csr_array(between[free][:, coarse]))
    return coarse


def check_hierarchy(hierarchy: Hierarchy, mesh: Mesh) -> None:
    finest = hierarchy.meshes[-1]
    if finest is not mesh and finest.num_nodes != mesh.num_nodes:
        raise SolveError(
            f"the finest mesh of the hierarchy has {finest.num_nodes} nodes, but that of the "
            f"problem has {mesh.num_nodes}: build the problem on hierarchy.meshes[-1]."
        )

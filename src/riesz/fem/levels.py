"""Multigrid for a boundary-value problem: its levels from nested meshes, or from aggregates."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from riesz.errors import SolveError
from riesz.fem.elements.domain import stiffness
from riesz.fem.linear.multigrid.aggregation import smoothed_aggregation
from riesz.fem.linear.multigrid.solver import Multigrid, from_prolongations
from riesz.fem.linear.multigrid.tables import dimensions
from riesz.fem.problem import BoundaryValueProblem
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import Hierarchy, midpoint_prolongation

COARSEST = 100
"""Unknowns of the coarsest level, at most: a dense inverse of so many costs little."""

MOST_LEVELS = 30

SMOOTHING = {True: 3, False: 8}
"""Steps of smoothing for symmetric matrices and others: transport at a cell Peclet number of 100
takes a third of the iterations with eight steps instead of three, and less time."""

SMOOTHING_OF_JUMPS = 6
"""The same where coefficients are given cell by cell: coarse levels do not see where they jump."""


def multigrid(
    problem: BoundaryValueProblem, hierarchy: Hierarchy | None = None, **settings: Any
) -> Multigrid:
    """A solver for the matrices of a problem.

    With a `hierarchy` whose finest mesh is the problem's, its prolongations lead from level to
    level; where it ends with too many unknowns, or there is none, aggregates go on. Conjugate
    gradients need a symmetric matrix: `is_symmetric` says whether it is, where the equation does
    not.
    """
    prolongations = prolongations_of(problem, hierarchy)
    return from_prolongations(problem.pattern, prolongations, **settled(problem, settings))


def settled(problem: BoundaryValueProblem, settings: dict[str, Any]) -> dict[str, Any]:
    """With what the equation says where a setting does not."""
    is_symmetric = settings.get("is_symmetric", problem.form.is_symmetric)
    has_jumps = is_symmetric and problem.form.has_jumps
    smoothing = SMOOTHING_OF_JUMPS if has_jumps else SMOOTHING[is_symmetric]
    return {"is_symmetric": is_symmetric, "smoothing": smoothing} | settings


def prolongations_of(
    problem: BoundaryValueProblem, hierarchy: Hierarchy | None
) -> list[sp.csr_array]:
    """Between the free unknowns of levels, that to the finest first."""
    mesh, free = problem.space.mesh, np.asarray(problem.free)
    prolongations = []
    if problem.space.element.degree == 2:
        between = midpoint_prolongation(mesh.num_nodes, problem.space.edges)
        free = narrowed(prolongations, between, free)
    meshes = (mesh,)
    if hierarchy is not None:
        check_hierarchy(hierarchy, mesh)
        meshes = hierarchy.meshes[::-1]
        for between in hierarchy.prolongations[::-1]:
            if len(free) <= COARSEST:
                break
            free = narrowed(prolongations, between, free)
            meshes = meshes[1:]
    if len(free) > COARSEST:
        prolongations += aggregated(meshes[0], free)
    return prolongations


def narrowed(
    prolongations: list[sp.csr_array], between: sp.csr_array, free: Int[np.ndarray, " free"]
) -> Int[np.ndarray, " coarse_free"]:
    """Add the part of a prolongation between free unknowns; return the coarser ones.

    The coarser unknowns are the first of the finer ones: what is fixed there is fixed here.
    """
    coarse = free[free < dimensions(between)[1]]
    prolongations.append(sp.csr_array(between[free][:, coarse]))
    return coarse


def aggregated(mesh: Mesh, free: Int[np.ndarray, " free"]) -> list[sp.csr_array]:
    """Prolongations by smoothed aggregation, of linear elements with diffusivity one."""
    matrix = sp.csr_array(stiffness(mesh)[free][:, free])
    prolongations = []
    while dimensions(matrix)[0] > COARSEST and len(prolongations) < MOST_LEVELS:
        prolongation = smoothed_aggregation(matrix, len(prolongations))
        if dimensions(prolongation)[1] > 0.8 * dimensions(matrix)[0]:
            break
        prolongations.append(prolongation)
        matrix = sp.csr_array(prolongation.T @ matrix @ prolongation)
    return prolongations


def check_hierarchy(hierarchy: Hierarchy, mesh: Mesh) -> None:
    finest = hierarchy.meshes[-1]
    if finest is not mesh and finest.num_nodes != mesh.num_nodes:
        raise SolveError(
            f"the finest mesh of the hierarchy has {finest.num_nodes} nodes, but that of the "
            f"problem has {mesh.num_nodes}: build the problem on hierarchy.meshes[-1]."
        )

"""Which linear solver suits a problem: one place decides, by what was measured.

The table is on the page "Linear solvers" of the book; `make bench-solve` measures it anew. Sparse
LU factorises once for all right-hand sides and needs next to no compilation; its work grows with
the power 1.5 of the unknowns in two dimensions and with their square in three. That of multigrid
grows as they do, but it compiles for ten to thirty seconds.

Its levels come from nested meshes, or from aggregates. Smoothing a point at a time levels errors
along strong couplings only. Where these go in some directions and not in others (flat cells,
layers, anisotropy) a mesh that is coarser in all of them cannot represent what is left: there
aggregates of the matrix itself lead to coarser levels.
"""

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from riesz.arrays import on_device
from riesz.errors import SolveError
from riesz.fem.elements.space import Space
from riesz.fem.kernel import conductions, resolve_terms
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic, Dense, SparseLU
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
from riesz.fem.terms.integrands import MOVING
from riesz.fem.terms.weakform import Term, diffusion
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy_of, midpoint_prolongation

LARGEST_FOR_LU = {1: 10_000_000, 2: 400_000, 3: 20_000}
"""Unknowns, by dimension, up to which sparse LU is the faster way to one symmetric system."""

FOR_MANY_MATRICES = 0.25
"""That number times so much where a hundred matrices are met or more: what multigrid takes to be
compiled no longer counts."""

FOR_TRANSPORT = 2
"""That number times so much where the matrix is not symmetric: more iterations are needed."""

FOR_MANY_RHS = 3
"""That number times so much for tens of right-hand sides: the factors serve them all."""

FITS_IN_MEMORY = {1: 10_000_000, 2: 2_000_000, 3: 120_000}
"""Unknowns whose LU factors take some gigabytes: the way back where multigrid does not converge."""

LARGEST_DENSE = 2_000
"""Unknowns up to which accelerators solve dense systems: a host is far away from them."""

LU_SECONDS = {1: (5e-6, 1.0), 2: (8e-7, 1.2), 3: (2.5e-9, 2.0)}
"""Seconds of sparse LU on two cores, by dimension: a factor, and the power of the unknowns."""

ITERATED_SECONDS = {1: 3e-6, 2: 3e-6, 3: 1.1e-5}
"""Those of multigrid for each unknown, its coarser matrices included."""

DENSE_SECONDS = 2e-11
"""Those of dense LU, for the cube of the unknowns."""

DEVICE_GAIN = 100
"""So many times quicker is an accelerator."""

NUMBERS_AT_ONCE = {"cpu": 100_000, "other": 1 << 24}
"""Right-hand sides are solved for together as long as they have no more numbers than this in all.

Triangular solves of a few sides take half the time of as many single ones on a CPU, but what is
gathered from many at once no longer fits into its cache.
"""

_made: WeakKeyDictionary[Space, dict[tuple, Multigrid]] = WeakKeyDictionary()

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


def choose_solver(
    problem: BoundaryValueProblem,
    solver: AbstractLinearSolver | None = None,
    *,
    num_rhs: int = 1,
    num_matrices: int = 1,
    platform: str | None = None,
    z: Any = None,
) -> AbstractLinearSolver:
    """The solver that was asked for, or else the one that suits the problem.

    `num_rhs` is how many right-hand sides each of `num_matrices` meets, `platform` where it is
    solved, by default where JAX computes; `z` are values of the unknowns that stand for others, or
    a function that gives them. Inside compiled code a problem has no numbers to choose by: sparse
    LU is taken.
    """
    if solver is not None and not isinstance(solver, Automatic):
        return solver
    if is_traced(problem):
        return SparseLU()
    on_host = (platform or jax.default_backend()) == "cpu"
    size, dim = problem.num_free, problem.space.mesh.dim
    if not on_host:
        return Dense() if size <= LARGEST_DENSE else default_multigrid(problem, fallback=False, z=z)
    if size <= largest_for_lu(problem, num_rhs, num_matrices):
        return SparseLU()
    return default_multigrid(problem, fallback=size <= FITS_IN_MEMORY[dim], z=z)


def largest_for_lu(problem: BoundaryValueProblem, num_rhs: int, num_matrices: int) -> float:
    """Unknowns up to which sparse LU is the faster way."""
    largest = float(LARGEST_FOR_LU[problem.space.mesh.dim])
    largest *= FOR_MANY_MATRICES if num_matrices >= 100 else 1
    largest *= 1 if problem.form.is_symmetric else FOR_TRANSPORT
    return largest * (FOR_MANY_RHS if num_rhs >= 10 else 1)


def split_in_parts(
    rows: Shaped[Array, " row *shape"], size: int
) -> Shaped[Array, " part width *shape"]:
    """Rows that stand for so many numbers each, by parts of those to be worked on together.

    Parts have the same length, for which zeros follow the last row.
    """
    most = NUMBERS_AT_ONCE["cpu" if jax.default_backend() == "cpu" else "other"] // size
    count = len(rows)
    num_parts = -(-count // max(1, min(count, most)))
    width = -(-count // num_parts)
    filling = ((0, num_parts * width - count), *((0, 0),) * (rows.ndim - 1))
    return jnp.pad(rows, filling).reshape(num_parts, width, *rows.shape[1:])


def map_in_parts(
    function: Callable[[Array], Array],
    rows: Shaped[Array, " row *shape"],
    size: int,
) -> Float[Array, " row *other"]:
    """A function of one row for all of them, where it solves for so many numbers."""
    images = jax.lax.map(jax.vmap(function), split_in_parts(rows, size))
    return images.reshape(-1, *images.shape[2:])[: len(rows)]


def one_by_one(function: Callable[..., PyTree], rows: PyTree, size: int) -> PyTree:
    """A function of each row that solves for so many numbers, as one with solves of the host asks.

    Several factorisations at a time have been seen to wait for each other forever on two cores.
    An accelerator solves by itself, and is idle with one solve at a time.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.map(function, rows)
    count = len(jax.tree.leaves(rows)[0])
    together = max(1, min(count, NUMBERS_AT_ONCE["other"] // size))
    return jax.lax.map(function, rows, batch_size=together)


def default_multigrid(problem: BoundaryValueProblem, *, fallback: bool, z: Any = None) -> Multigrid:
    """Multigrid for a problem, remembered: levels depend on the space, what is fixed and diffusion.

    Unknown coefficients are those of the first `z`: levels serve other values of them as well.
    """
    known = _made.setdefault(problem.space, {})
    fixed = problem.dirichlet_tags, problem.form.is_symmetric, str(problem.dtype)
    key = (*fixed, fallback, z is None or is_traced(z), *content_of_diffusion(problem))
    if key not in known:
        with jax.ensure_compile_time_eval():
            values = z() if callable(z) else z
        nested = hierarchy_of(problem.space.mesh)
        known[key] = multigrid(problem, nested, z=values, fallback=fallback)
    return known[key]


def content_of_diffusion(problem: BoundaryValueProblem) -> tuple:
    """The coefficients of diffusion, as something to look up by."""
    terms = [term for term in problem.form.terms if term.integrand in MOVING]
    leaves, structure = jax.tree.flatten(terms)
    return structure, *(
        hash(np.asarray(leaf).tobytes()) if eqx.is_array(leaf) else leaf for leaf in leaves
    )


def estimate_seconds(
    problem: BoundaryValueProblem, solver: AbstractLinearSolver, *, platform: str | None = None
) -> float:
    """Seconds of one linear solve, assembly included, within a factor of about two: from sizes.

    No clock is asked: what hangs on it must come out the same each time.
    """
    size, dim = problem.num_free, problem.space.mesh.dim
    on_host = (platform or jax.default_backend()) == "cpu"
    if isinstance(solver, SparseLU):
        factor, power = LU_SECONDS[dim]
        seconds = factor * size**power
    elif isinstance(solver, Dense):
        seconds = DENSE_SECONDS * size**3 / (1 if on_host else DEVICE_GAIN)
    else:
        seconds = ITERATED_SECONDS[dim] * size / (1 if on_host else DEVICE_GAIN)
        seconds *= 1 if problem.form.is_symmetric else FOR_TRANSPORT
    return seconds


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
    return from_prolongations(problem.pattern, prolongations, **resolve_settings(problem, settings))


def resolve_settings(problem: BoundaryValueProblem, settings: dict[str, Any]) -> dict[str, Any]:
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
    matrix = representative_matrix(problem, z)
    prolongations = []
    if problem.space.element.degree == 2:
        between = midpoint_prolongation(mesh.num_nodes, problem.space.edges)
        free = append_free_part(prolongations, between, free)
    if hierarchy is not None:
        check_hierarchy(hierarchy, mesh)
        if is_all_round(matrix, mesh.dim):
            for between in hierarchy.prolongations[::-1]:
                if len(free) <= COARSEST:
                    break
                free = append_free_part(prolongations, between, free)
                matrix = galerkin_product(matrix, prolongations[-1])
    while len(prolongations) < MOST_LEVELS and dimensions(matrix)[0] > COARSEST:
        aggregated = smoothed_aggregation(matrix)
        if not 0 < dimensions(aggregated)[1] <= 0.8 * dimensions(matrix)[0]:
            break
        prolongations.append(aggregated)
        matrix = galerkin_product(matrix, aggregated)
    return prolongations


def representative_matrix(problem: BoundaryValueProblem, z: Any = None) -> sp.csr_array:
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
            physics = resolve_terms(terms, problem.space.element, z)
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
        return representative_matrix(problem)
    return matrix


def of_diffusion(terms: tuple[Term, ...], z: Any) -> tuple[Term, ...]:
    """Those that move something, with ones for what is not known."""

    def one_if_unknown(part: AbstractCoefficient) -> AbstractCoefficient:
        arguments = part.num_arguments if isinstance(part, Function) else 0
        is_open = z is None and (part.names or arguments > 1)
        return Constant(on_device(1.0)) if is_open or reads_state(part) else part

    def with_known(term: Term) -> Term:
        own = {name: with_parts(one, one_if_unknown) for name, one in term.coefficients.items()}
        return dataclasses.replace(term, coefficients=own)

    return tuple(with_known(term) for term in terms if term.integrand in MOVING)


def is_all_round(matrix: sp.csr_array, dim: int) -> bool:
    """Whether most unknowns hang together with neighbours in all directions."""
    entries = sp.coo_array(matrix)
    neighbours = np.bincount(entries.row[strong(entries)], minlength=len(matrix.indptr) - 1)
    return float(np.mean(neighbours < ALL_ROUND * dim)) <= MOST_LINKED


def galerkin_product(matrix: sp.csr_array, prolongation: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(prolongation.T @ matrix @ prolongation)


def append_free_part(
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

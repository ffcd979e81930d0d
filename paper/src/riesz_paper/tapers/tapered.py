"""Norms from a table of the inverse Gram matrix: tapered as in the paper, or by principal blocks.

Both need solves with the whole Gram matrix, one for each free node, before the first step. The
default norm (`schwarz`) needs none; these are here to reproduce the paper and to compare.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import KDTree

from riesz.errors import RieszError
from riesz.fem.linear.host_lu import Pattern, elimination_of, factorise
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.problem import BoundaryValueProblem
from riesz.penalty.gram import Gram, dual_norm
from riesz.penalty.norm import PatchNorm
from riesz.penalty.patch import PatchTable, overlapping_patches, patch_table
from riesz_paper.tapers.patches import BlockPatches, TaperedPatches
from riesz_paper.tapers.taper import AbstractTaper, radius_holding

BLOCK_NODES = 64
MAX_BYTES = 2e9
SIDES_AT_ONCE = 8
"""Right-hand sides of one solve: more would not stay in the cache, and be slower by far."""


def tapered_norm(
    problem: BoundaryValueProblem,
    taper: AbstractTaper,
    *,
    printed: bool = False,
    gram: Gram | None = None,
    max_bytes: float = MAX_BYTES,
) -> PatchNorm:
    r"""The paper's norm, $r^\top \Gamma r$ with a tapered inverse, by one patch a free node.

    With `HardTaper` it is indefinite, so that it may be negative; with `Wendland` it is positive,
    though an estimate from a few rows need not be. `printed` leaves out the factor $N$ as the
    paper's formula does. `gram` is the inner product of test functions, `Gram()` by default.
    """
    points = free_points(problem)
    tree = KDTree(points)
    width = int(tree.query_ball_point(points, taper.radius, return_length=True).max())
    check_memory(problem, len(points), width, width, max_bytes, "shorten the taper's radius")
    # Nearest first: the node itself leads its row, and what lies beyond the radius trails.
    found = tree.query(points, k=width)
    distances, near = (np.reshape(part, (-1, width)) for part in found)
    weights = taper.weights(distances, points.shape[1])
    near = np.where(weights > 0, near, -1)
    inverse = inverse_entries(gram_matrix(problem, gram), np.arange(len(points)), near)
    return PatchNorm(
        TaperedPatches(
            table=table_on(problem, near),
            inverse_rows=jnp.asarray(weights * inverse, problem.dtype),
            printed=printed,
        )
    )


def block_norm(
    problem: BoundaryValueProblem,
    *,
    patch_nodes: int = BLOCK_NODES,
    gram: Gram | None = None,
    max_bytes: float = MAX_BYTES,
) -> PatchNorm:
    r"""The norm by principal blocks, $\frac1c \sum_p r_p^\top [A^{-1}]_{pp}\,r_p$: never negative.

    The patches are those of the default norm's finest level, each node in $c$ of them.
    """
    points = free_points(problem)
    if patch_nodes > len(points):
        raise RieszError(
            f"a patch of {patch_nodes} nodes is larger than the mesh with its {len(points)} free "
            "nodes: ask for smaller patches, or use the exact dual norm."
        )
    rows = overlapping_patches(points, patch_nodes)
    num_patches, width = rows.shape
    check_memory(problem, num_patches, width, width**2, max_bytes, "ask for smaller patches")
    entries = inverse_entries(
        gram_matrix(problem, gram), rows.ravel(), np.repeat(rows, width, axis=0)
    )
    absent = (rows[:, :, None] < 0) | (rows[:, None, :] < 0)
    blocks = np.where(absent, 0.0, entries.reshape(absent.shape))
    return PatchNorm(
        BlockPatches(
            table=table_on(problem, rows),
            blocks=jnp.asarray(blocks, problem.dtype),
            coverage=jnp.asarray((rows >= 0).sum() / len(points), problem.dtype),
        )
    )


def taper_radius(problem: BoundaryValueProblem, patch_nodes: int) -> float:
    """The radius at which a problem's tapered patches hold this many free nodes on average."""
    return radius_holding(free_points(problem), patch_nodes)


def free_points(problem: BoundaryValueProblem) -> Float[np.ndarray, "free dim"]:
    if problem.space.element.degree != 1:
        raise RieszError("mini-patches need P1 elements: refine the mesh instead of raising it.")
    return problem.space.points[np.asarray(problem.free)]


def gram_matrix(problem: BoundaryValueProblem, gram: Gram | None) -> SparseMatrix:
    return dual_norm(problem, gram).gram


def inverse_entries(
    gram: SparseMatrix,
    columns: Int[np.ndarray, " pair"],
    wanted: Int[np.ndarray, "pair width"],
) -> Float[np.ndarray, "pair width"]:
    """Entries of the inverse in the given columns; whatever for indices below zero.

    One factorisation, and some right-hand sides at once: beside the entries little is held.
    """
    pattern = gram.pattern
    stands = Pattern(np.asarray(pattern.columns), np.asarray(pattern.row_starts))
    factor = factorise(np.asarray(gram.values), elimination_of(stands))
    if factor is None:
        raise RieszError(
            "the Gram matrix is singular: prescribe values on a part of the boundary, or add a "
            "reaction, as in gram=Gram(reaction=1.0)."
        )
    size, order = pattern.size, np.argsort(columns, kind="stable")
    firsts = np.arange(0, size + SIDES_AT_ONCE, SIDES_AT_ONCE)
    cuts = np.searchsorted(columns[order], firsts)
    entries = np.zeros(wanted.shape)
    for first, low, high in zip(firsts, cuts[:-1], cuts[1:], strict=False):
        sides = np.zeros((size, SIDES_AT_ONCE))
        np.fill_diagonal(sides[first:], 1.0)
        solutions = factor.solve(sides)
        here = order[low:high]
        entries[here] = solutions[wanted[here], columns[here, None] - first]
    return entries


def table_on(problem: BoundaryValueProblem, near: Int[np.ndarray, "patch row"]) -> PatchTable:
    """The patch table for rows given by their places among the free nodes."""
    rows = np.where(near < 0, -1, np.asarray(problem.free)[near])
    beside = tuple(np.asarray(group.domain.corners).T for group in problem.facets)
    return patch_table(rows, problem.space.mesh.cells, beside, problem.space.num_dofs)


def check_memory(
    problem: BoundaryValueProblem,
    num_patches: int,
    num_rows: int,
    num_entries: int,
    max_bytes: float,
    advice: str,
) -> None:
    """Raise before any work if the table would be too large, entries and patches together.

    A patch is taken to touch twice as many cells as its share of the mesh, which is ample.
    """
    mesh = problem.space.mesh
    touched = min(2 * num_rows * mesh.num_cells / mesh.num_nodes, mesh.num_cells)
    of_cells = touched * (4 + 4 * (mesh.dim + 1))
    needed = num_patches * (num_entries * problem.dtype.itemsize + 8 * num_rows + of_cells)
    if needed > max_bytes:
        raise RieszError(
            f"the table of {num_patches} patches with up to {num_rows} nodes would take "
            f"{needed / 1e6:.3g} MB, more than max_bytes = {max_bytes / 1e6:.3g} MB: {advice}, "
            "coarsen the mesh, raise max_bytes, or use the default norm, which needs no table."
        )

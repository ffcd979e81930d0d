"""Sparse LU on the host, called from compiled code.

Only NumPy and SciPy run in here: touching JAX from a callback can wait for a thread that waits for
the callback. A failed factorisation answers with NaN, which callers turn into a clear error.

Unknowns are eliminated in the order of nested dissection (George 1973): a thin layer that cuts the
rest in two comes last, and each part is treated alike. SuperLU's own orderings leave as many
nonzeros, but elimination trees that it takes ten times as long to work through on 257 x 257 nodes.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import dijkstra

from riesz.deadline import check_clock
from riesz.fem.linear.host_band import BandMatrix, band_of, factors_of

CACHED_NONZEROS = 20_000_000
"""Factors are kept up to this many nonzeros in all (320 MB), and always the latest one."""

CACHED_FACTORS = 32
"""And no more than this many: enough for gradients and Hessian actions to meet theirs again."""

SINGULAR = 1e15
"""Condition number, after scaling the rows, from which a matrix counts as singular."""

PANEL = 4
"""Columns that SuperLU updates at once. Few of them, and no supernodes with zeros stored in them,
suit matrices of triangular meshes: a third faster than its own choice on 33^2 to 129^2 nodes."""

SAMPLED = 64
"""Entries by which a matrix is looked up."""

CACHED_PATTERNS = 8
"""Patterns whose elimination order is kept: a mesh has one, whatever its coefficients."""


# SuperLU frees the memory of factors only in the thread that made them, and callbacks come from
# any of XLA's threads: one thread does all of these solves, and lets old factors go.
_solver_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="riesz-lu")

SMALLEST = 16
"""Unknowns that are not divided any further."""

NEAR_MIDDLE = (0.4, 0.6)
"""A cut may leave a part so small or large if it is thinner there."""


class Pattern(NamedTuple):
    """Where the entries of a square matrix stand, row by row (CSR)."""

    columns: Int[np.ndarray, " entry"]
    row_starts: Int[np.ndarray, " size_plus_one"]


@dataclass(frozen=True, eq=False)
class Elimination:
    """A pattern in the order of elimination, and where its entries and unknowns come from."""

    pattern: Pattern
    band: BandMatrix | None  # a faster way where the matrix is symmetric and positive
    order: Int[np.ndarray, " unknown"]
    entries: Int[np.ndarray, " entry"]
    rows: Int[np.ndarray, " entry"]
    column_starts: Int[np.ndarray, " size_plus_one"]

    def matrix(self, values: Float[np.ndarray, " entry"]) -> sp.csc_array:
        size = len(self.order)
        reordered = values[self.entries].astype(np.float64)
        return sp.csc_array((reordered, self.rows, self.column_starts), shape=(size, size))


@dataclass(frozen=True)
class Factors:
    """LU factors of a matrix whose unknowns were put in another order."""

    order: Int[np.ndarray, " unknown"]
    lu: spla.SuperLU

    @property
    def num_nonzeros(self) -> int:
        return self.lu.nnz

    def solve(
        self, all_rhs: Float[np.ndarray, " unknown *side"], trans: str = "N"
    ) -> Float[np.ndarray, " unknown *side"]:
        solutions = np.empty(all_rhs.shape)
        solutions[self.order] = self.lu.solve(all_rhs[self.order].astype(np.float64), trans=trans)
        return solutions


class CachedFactors(NamedTuple):
    """Factors, or that there are none, and of what."""

    elimination: Elimination
    values: Float[np.ndarray, " entry"]
    factors: Factors | None


_eliminations: list[Elimination] = []
_ordering = threading.Lock()
_factors: OrderedDict[bytes, CachedFactors] = OrderedDict()


def lu_solve(
    values: ArrayLike,
    columns: ArrayLike,
    row_starts: ArrayLike,
    right_hand_side: ArrayLike,
    *,
    transposed: bool,
) -> Float[np.ndarray, "*batch size"]:
    """Solve A x = b (or with A transposed), A in CSR; leading axes are a batch of systems.

    Arguments come as read-only views or as JAX arrays; asarray copies neither. Where the time of a
    fit is over, the error ends the compiled program that asked.
    """
    check_clock()
    parts = map(np.asarray, (values, columns, row_starts, right_hand_side))
    return solve_batch(*parts, transposed=transposed)


def solve_batch(
    values: Float[np.ndarray, "*#batch entry"],
    columns: Int[np.ndarray, "*#batch entry"],
    row_starts: Int[np.ndarray, "*#batch size_plus_one"],
    right_hand_side: Float[np.ndarray, "*#batch size"],
    *,
    transposed: bool,
) -> Float[np.ndarray, "*batch size"]:
    """The same on NumPy arrays.

    Arguments that do not vary over the batch have length-one axes there; then one factorisation
    serves all right-hand sides.
    """
    batch = np.broadcast_shapes(values.shape[:-1], right_hand_side.shape[:-1])
    size = right_hand_side.shape[-1]
    pattern = Pattern(
        columns.reshape(-1, columns.shape[-1])[0], row_starts.reshape(-1, size + 1)[0]
    )
    matrices = np.broadcast_to(values, (*batch, values.shape[-1])).reshape(-1, values.shape[-1])
    all_rhs = np.broadcast_to(right_hand_side, (*batch, size)).reshape(-1, size)
    if values.size == values.shape[-1]:
        together = solver_of(matrices[0], pattern, transposed=transposed)(all_rhs.T)
        return together.T.reshape(*batch, size).astype(right_hand_side.dtype)
    solutions = np.empty(all_rhs.shape, dtype=right_hand_side.dtype)
    for solution, matrix, rhs in zip(solutions, matrices, all_rhs, strict=True):
        solution[:] = solver_of(matrix, pattern, transposed=transposed)(rhs)
    return solutions.reshape(*batch, size)


def solver_of(
    values: Float[np.ndarray, " entry"], pattern: Pattern, *, transposed: bool
) -> Callable[[Float[np.ndarray, " size *side"]], Float[np.ndarray, " size *side"]]:
    """For any right-hand sides, by the factors that suit the matrix."""
    elimination = elimination_of(pattern)
    band = None if elimination.band is None else factors_of(elimination.band, values)
    if band is not None:
        return band.solve
    own = (values, elimination.pattern)
    return lambda all_rhs: _solver_thread.submit(solve_by_lu, *own, all_rhs, transposed).result()


def solve_by_lu(
    values: Float[np.ndarray, " entry"],
    pattern: Pattern,
    right_hand_side: Float[np.ndarray, " size *side"],
    transposed: bool,
) -> Float[np.ndarray, " size *side"]:
    factors = factorise_lu(values, pattern)
    if factors is None:
        return np.full_like(right_hand_side, np.nan)
    # The factors are those of the transpose: CSR arrays read as CSC.
    return factors.solve(right_hand_side, trans="N" if transposed else "T")


def factorise_lu(values: Float[np.ndarray, " entry"], pattern: Pattern) -> Factors | None:
    """LU factors, remembered: a gradient, a Hessian action or a step meets the same matrix again.

    Matrices are looked up by some of their entries and compared by all: a digest of them takes as
    long as a solve.
    """
    elimination, key = elimination_of(pattern), sample(values)
    known = _factors.get(key)
    is_known = known is not None and known.elimination is elimination
    if known is None or not is_known or not np.array_equal(known.values, values):
        known = CachedFactors(elimination, values.copy(), factorise(values, elimination))
        _factors[key] = known
    _factors.move_to_end(key)
    forget_old_factors()
    return known.factors


def sample(values: Float[np.ndarray, " entry"]) -> bytes:
    """Some entries, and the sum of all; of entries that are not finite as well."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = values.sum()
    return values[:: max(1, len(values) // SAMPLED)].tobytes() + total.tobytes()


def forget_old_factors() -> None:
    while len(_factors) > CACHED_FACTORS:
        _factors.popitem(last=False)
    while len(_factors) > 1 and num_nonzeros() > CACHED_NONZEROS:
        _factors.popitem(last=False)


def num_nonzeros() -> int:
    return sum(known.factors.num_nonzeros for known in _factors.values() if known.factors)


def factorise(values: Float[np.ndarray, " entry"], elimination: Elimination) -> Factors | None:
    """Factors of the transpose, or None where the matrix is singular or not finite."""
    if not np.isfinite(values).all():
        return None
    matrix = elimination.matrix(values)
    sizes = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[:-1])
    if not sizes.all():  # SuperLU has been seen to call BLAS with illegal sizes
        return None
    try:
        # Finite-element matrices are structurally symmetric and nearly diagonally dominant:
        # a mild pivot threshold keeps to the order given.
        lu = spla.splu(
            matrix,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.01,
            relax=1,
            panel_size=PANEL,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # SuperLU's word for an exactly singular matrix
        return None
    factors = Factors(elimination.order, lu)
    return factors if condition(matrix, sizes, elimination, factors) < SINGULAR else None


def elimination_of(pattern: Pattern) -> Elimination:
    """How a pattern is eliminated, remembered: finding out costs as much as a few factors."""
    with _ordering:
        for number, known in enumerate(_eliminations):
            if all(map(np.array_equal, known.pattern, pattern)):
                _eliminations.insert(0, _eliminations.pop(number))
                return known
        _eliminations.insert(0, order_elimination(Pattern(*(part.copy() for part in pattern))))
        del _eliminations[CACHED_PATTERNS:]
        return _eliminations[0]


def order_elimination(pattern: Pattern) -> Elimination:
    size = len(pattern.row_starts) - 1
    # The transpose: CSR arrays read as CSC.
    numbers = np.arange(len(pattern.columns))
    numbered = sp.csc_array((numbers, *pattern), shape=(size, size))
    order = elimination_order(numbered)
    reordered = sp.csc_array(numbered[order][:, order])
    reordered.sort_indices()  # or SuperLU would do it, in these very arrays
    band = band_of(sp.csr_array((numbers, *pattern), shape=(size, size)))
    return Elimination(pattern, band, order, reordered.data, reordered.indices, reordered.indptr)


def condition(
    matrix: sp.csc_array,
    sizes: Float[np.ndarray, " unknown"],
    elimination: Elimination,
    factors: Factors,
) -> float:
    r"""A lower bound of $\|S\|_1\|S^{-1}\|_1$, where $S = D^{-1/2} A D^{-1/2}$.

    $D$ holds the `sizes`, the largest entry of each column, so that coefficients of any contrast do
    no harm. For a positive vector $w$ of size about one the bound $\|S^{-\top} w\|_\infty$ is sharp
    where the inverse is positive, as that of a diffusion operator is.
    """
    root = np.sqrt(sizes)
    weights = 1 + 0.5 * np.sin(np.arange(len(root)))  # orthogonal to no likely null vector
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(matrix.data) / root[matrix.indices]
        norm = (np.add.reduceat(scaled, matrix.indptr[:-1]) / root).max()
        rhs = np.empty(len(root))
        rhs[elimination.order] = root * weights
        response = np.abs(root * factors.solve(rhs, trans="T")[elimination.order]).max()
    return float(norm * response) if np.isfinite(response) else np.inf


def elimination_order(pattern: sp.sparray) -> Int[np.ndarray, " unknown"]:
    """The unknowns of a square matrix, first eliminated first."""
    square = sp.csr_array(pattern)
    square.data = np.ones(square.nnz, np.int8)
    order = np.empty(len(square.indptr) - 1, dtype=np.int64)
    # Graphs still to be divided, their unknowns, and where in the order these begin.
    waiting = [(square + square.T, np.arange(len(order)), 0)]
    while waiting:
        graph, unknowns, start = waiting.pop()
        parts = [] if len(unknowns) <= SMALLEST else dissect(graph)
        if not parts:
            order[start : start + len(unknowns)] = unknowns
            continue
        *rest, layer = parts
        for part in rest:
            waiting.append((graph[part][:, part], unknowns[part], start))
            start += len(part)
        order[start : start + len(layer)] = unknowns[layer]
    return order


def dissect(graph: sp.csr_array) -> list[Int[np.ndarray, " unknown"]]:
    """Two parts and the layer between them; nothing where there is no such layer.

    Layers are the sets at equal distance from an end of the graph, found as the point farthest
    from any other; parts that hang together in no way need none.
    """
    from_somewhere = hops(graph, 0)
    if not np.isfinite(from_somewhere).all():
        apart = ~np.isfinite(from_somewhere)
        return [np.flatnonzero(~apart), np.flatnonzero(apart), np.zeros(0, dtype=np.int64)]
    distance = hops(graph, int(np.argmax(from_somewhere))).astype(np.int64)
    sizes = np.bincount(distance)
    before, up_to = np.cumsum(sizes) - sizes, np.cumsum(sizes)
    low, high = NEAR_MIDDLE
    middle = np.flatnonzero((up_to > low * len(distance)) & (before < high * len(distance)))
    layer = middle[np.argmin(sizes[middle])]
    parts = [np.flatnonzero(distance < layer), np.flatnonzero(distance > layer)]
    if not all(len(part) for part in parts):
        return []
    return [*parts, np.flatnonzero(distance == layer)]


def hops(graph: sp.csr_array, unknown: int) -> Float[np.ndarray, " unknown"]:
    """How many steps all others are away; infinitely many where no way leads."""
    return dijkstra(graph, directed=False, unweighted=True, indices=unknown)

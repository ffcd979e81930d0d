"""Banded Cholesky factors on the host, for symmetric positive matrices of a small bandwidth.

With unknowns in the order of reverse Cuthill-McKee, matrices of meshes up to about 65 x 65 nodes
have so few diagonals that LAPACK fills and factorises the whole band in a third of the time that
SuperLU takes for the entries that matter. Functions of LAPACK are called as C does, without
Python's lock: chains that solve in several threads do not wait for each other.
"""

import ctypes
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.linalg import cython_lapack  # pyright: ignore[reportAttributeAccessIssue]
from scipy.sparse.csgraph import reverse_cuthill_mckee

WIDEST = 64
"""Diagonals below the main one. LAPACK cuts wider bands into blocks for threads, which wait for
each other longer than they work; with one thread wider bands gain little."""

ASYMMETRY = 1e-13
"""Differences across the diagonal, over the largest entry, that are rounding errors of sums."""

NEARLY_SINGULAR = 1e-10
"""A pivot, over the entry on the diagonal, from which on LU is to find out whether there is a
solution: it estimates the condition number."""

CACHED_FACTORS = 32
"""Enough for gradients and Hessian actions of some threads to meet theirs again."""


def lapack(name: str, num_arguments: int):
    """A function of the LAPACK that SciPy brings: it takes addresses, and returns nothing."""
    capsule = cython_lapack.__pyx_capi__[name]
    capsule_name = ctypes.pythonapi.PyCapsule_GetName
    capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * num_arguments)
    return kind(address(capsule, capsule_name(capsule)))


_factorise, _solve = lapack("dpbtrf", 6), lapack("dpbtrs", 9)
_lower = ctypes.c_char(b"L")


def number(value: int) -> ctypes.c_int:
    return ctypes.c_int(value)


def call_lapack(function, *arguments: ctypes.c_char | ctypes.c_int | np.ndarray) -> int:
    """Call a function of LAPACK with addresses, and return what went wrong: 0 is nothing."""
    failed = number(0)
    function(
        *(
            one.ctypes.data if isinstance(one, np.ndarray) else ctypes.addressof(one)
            for one in (*arguments, failed)
        )
    )
    return failed.value


@dataclass(frozen=True)
class BandFactors:
    """The Cholesky factor of a matrix whose unknowns were put in another order."""

    order: Int[np.ndarray, " unknown"]
    factor: Float[np.ndarray, "unknown diagonal"]

    def solve(self, all_rhs: Float[np.ndarray, " unknown *side"]) -> Float[np.ndarray, "..."]:
        """For the matrix or its transpose, which are the same."""
        size, num_diagonals = self.factor.shape
        # One side after the other, as Fortran has them.
        ordered = np.array(all_rhs[self.order].T, dtype=np.float64, order="C", copy=True)
        count = number(ordered.size // size)
        sizes = (number(size), number(num_diagonals - 1), count)
        rows = number(num_diagonals)
        call_lapack(_solve, _lower, *sizes, self.factor, rows, ordered, number(size))
        solutions = np.empty(all_rhs.shape)
        solutions[self.order] = ordered.T
        return solutions


@dataclass(frozen=True, eq=False)
class BandMatrix:
    """Where the entries of a pattern stand in the lower band of its matrix."""

    order: Int[np.ndarray, " unknown"]
    entries: Int[np.ndarray, " lower"]  # on the diagonal and below it
    mirrored: Int[np.ndarray, " lower"]  # those across the diagonal
    places: Int[np.ndarray, " lower"]
    width: int

    def factorise(self, values: Float[np.ndarray, " entry"]) -> BandFactors | None:
        """Nothing where the matrix is not symmetric or not positive, or nearly so."""
        lower = values[self.entries]
        if not np.isfinite(lower).all():
            return None
        if np.abs(lower - values[self.mirrored]).max() > ASYMMETRY * np.abs(lower).max():
            return None
        factor = np.zeros((len(self.order), self.width + 1))
        factor.ravel()[self.places] = lower
        diagonal = factor[:, 0].copy()
        sizes = (number(len(self.order)), number(self.width))
        failed = call_lapack(_factorise, _lower, *sizes, factor, number(self.width + 1))
        if failed or not (factor[:, 0] ** 2 > NEARLY_SINGULAR * diagonal).all():
            return None
        return BandFactors(self.order, factor)


_recent: OrderedDict[tuple[BandMatrix, bytes], BandFactors | None] = OrderedDict()
_lock = threading.Lock()


def factors_of(band: BandMatrix, values: Float[np.ndarray, " entry"]) -> BandFactors | None:
    """The factors of a matrix, remembered: a gradient or a Hessian action meets it again."""
    key = (band, values.tobytes())
    with _lock:
        if key in _recent:
            _recent.move_to_end(key)
            return _recent[key]
    factors = band.factorise(values)
    with _lock:
        _recent[key] = factors
        while len(_recent) > CACHED_FACTORS:
            _recent.popitem(last=False)
    return factors


def band_of(numbered: sp.csr_array) -> BandMatrix | None:
    """The band of a pattern whose entries are numbered; none where it is too wide.

    None either where the pattern is not symmetric, or its rows are not sorted.
    """
    transposed = sp.csr_array(numbered.T)
    transposed.sort_indices()
    if not np.array_equal(transposed.indices, numbered.indices):
        return None
    order = reverse_cuthill_mckee(sp.csr_matrix(numbered), symmetric_mode=True)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    entries = sp.coo_array(numbered)
    row, column = position[entries.row], position[entries.col]
    width = int((row - column).max())
    if width > WIDEST:
        return None
    is_lower = row >= column
    places = column * (width + 1) + row - column
    return BandMatrix(
        order, entries.data[is_lower], transposed.data[is_lower], places[is_lower], width
    )

"""Sparse products without a scatter: each row gathers its few neighbours from a table of slots.

A scatter-add runs on one thread of a CPU, and in no fixed order on a GPU. Tables are wider than
most rows need, so rows of similar length stand together in slices, each as wide as its longest.
Slots come before rows, so that neighbouring threads of a GPU, and lanes of a CPU, read neighbouring
numbers. Slices are filled up with empty rows: with an odd number of rows compiled loops take twice
as long.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device

TOGETHER = 7
"""Slots summed in one pass on a CPU. From eight on the compiled loop is three times as slow."""

ALIGNED = 8
"""Numbers of rows are multiples of this."""

SLICE_COST = 0.03, 50_000
"""Another slice must save this share of a table, and so many slots: it is a loop of its own."""

Counts = Int[np.ndarray, " row"]


def dimensions(matrix: sp.csr_array) -> tuple[int, int]:
    rows, columns = matrix.shape  # pyright: ignore[reportGeneralTypeIssues]
    return rows, columns


def gather(source: Float[Array, " any"], places: Int[Array, "..."]) -> Float[Array, "..."]:
    """The numbers at some places, all of which must be there."""
    return source.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


def weighted_sum(
    weights: Float[Array, "slot row"], places: Int[Array, "slot row"], source: Float[Array, " any"]
) -> Float[Array, " row"]:
    r"""$\sum_k w_{ki}\,x_{p_{ki}}$ for every row $i$."""
    return jax.lax.platform_dependent(
        weights, places, source, cpu=sum_in_passes, default=sum_at_once
    )


def sum_at_once(weights, places, source):
    source = jax.lax.optimization_barrier(source)
    total = weights[0] * gather(source, places[0])
    for weight, place in zip(weights[1:], places[1:], strict=True):
        total = total + weight * gather(source, place)
    return total


def sum_in_passes(weights, places, source):
    """A loop over passes, of which there are at least two.

    Compilers for CPUs would compute anew, for each row that reads them, the numbers of a source
    that is itself an expression; what enters a loop is computed once.
    """
    together = len(places) // num_passes(len(places))

    def add(number, total):
        for slot in range(together):
            at = number * together + slot
            total = total + weights[at] * gather(source, places[at])
        return total

    return jax.lax.fori_loop(0, num_passes(len(places)), add, jnp.zeros_like(weights[0]))


def num_passes(width: int) -> int:
    return max(min(width, 2), -(-width // TOGETHER))


def round_width(width: int) -> int:
    """The next width that falls into passes of equal length."""
    return -(-width // num_passes(width)) * num_passes(width) if width else 1


def slice_widths(counts: Counts) -> list[int]:
    """Widths of the slices that waste least, each slice having its cost; the narrowest first."""
    rows = np.bincount(counts)
    lengths = np.flatnonzero(rows)
    share, number = SLICE_COST
    price = max(share * counts.sum(), number)
    before = np.concatenate([[0], np.cumsum(rows[lengths])])
    best, cut = [0.0], [0]
    for last in range(1, len(lengths) + 1):
        width = round_width(int(lengths[last - 1]))
        totals = [best[k] + (before[last] - before[k]) * width + price for k in range(last)]
        cut.append(int(np.argmin(totals)))
        best.append(totals[cut[-1]])
    widths, last = [], len(lengths)
    while last:
        widths.append(round_width(int(lengths[last - 1])))
        last = cut[last]
    return widths[::-1]


def by_slice(counts: Counts, widths: list[int]) -> list[Int[np.ndarray, " some"]]:
    """The rows of each slice, the widest first; -1 for those that fill it up."""
    belongs = np.searchsorted(widths, counts)
    rows = [np.flatnonzero(belongs == number) for number in range(len(widths) - 1, -1, -1)]
    return [np.concatenate([own, np.full(-len(own) % ALIGNED, -1)]) for own in rows]


class Layout(NamedTuple):
    """The rows of a square matrix in the order of the slices of its table."""

    order: Int[np.ndarray, " padded"]  # the number of unknowns for rows that fill up
    position: Int[np.ndarray, " unknown"]  # of each unknown in the order
    widths: list[int]  # of the slices, the widest first
    lengths: list[int]

    def reorder(self, pattern: sp.csr_array) -> sp.csr_array:
        """A square matrix with rows and columns in this order."""
        shape = (len(self.order),) * 2
        result = sp.csr_array(self.rows_of(sp.csr_array(self.rows_of(pattern).T)).T, shape=shape)
        result.sort_indices()
        return result

    def rows_of(self, matrix: sp.csr_array) -> sp.csr_array:
        """The rows of a matrix in this order."""
        counts = np.append(np.diff(matrix.indptr), 0)[self.order]
        starts = np.zeros(len(counts) + 1, matrix.indptr.dtype)
        np.cumsum(counts, out=starts[1:])
        begins = matrix.indptr.take(self.order)  # the last one is the end of all
        entries = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], counts)
        parts = matrix.data[entries], matrix.indices[entries], starts
        return sp.csr_array(parts, shape=(len(counts), dimensions(matrix)[1]))


def layout(pattern: sp.csr_array, order: Int[np.ndarray, " unknown"]) -> Layout:
    """Each slice of the table is a stretch, with the given order of rows within it."""
    counts = np.diff(pattern.indptr)[order]
    widths = slice_widths(counts)
    slices = by_slice(counts, widths)
    places = np.concatenate(slices)
    padded = np.where(places < 0, len(order), order[places])
    position = np.empty(len(order), np.int32)
    position[order[places[places >= 0]]] = np.flatnonzero(places >= 0)
    return Layout(padded, position, widths[::-1], [len(rows) for rows in slices])


class Combination(eqx.Module):
    """Fixed linear combinations of the numbers of a vector: a sparse matrix of known values.

    Tables, [slot, row], one for each slice.
    """

    places: tuple[Int[Array, "_ _"], ...]
    weights: tuple[Float[Array, "_ _"], ...]
    order: Int[Array, " row"] | None  # where each row stands in the slices one after the other

    def __call__(self, source: Float[Array, " any"]) -> Float[Array, " row"]:
        sums = [
            weighted_sum(weights.astype(source.dtype), places, source)
            for weights, places in zip(self.weights, self.places, strict=True)
        ]
        if self.order is None:
            return sums[0]
        return gather(jnp.concatenate(sums), self.order)


def combination(matrix: sp.csr_array) -> Combination:
    """The tables of a sparse matrix; zeros may follow the result, up to a multiple of `ALIGNED`."""
    counts = np.diff(matrix.indptr)
    widths = slice_widths(counts)
    slices = by_slice(counts, widths)
    places, weights = [], []
    for rows, width in zip(slices, widths[::-1], strict=True):
        entries = slots(matrix.indptr, rows, width)
        result = entries < matrix.nnz
        entries = np.minimum(entries, matrix.nnz - 1)
        places.append(on_device(np.where(result, matrix.indices[entries], 0), np.int32))
        weights.append(on_device(np.where(result, matrix.data[entries], 0.0)))
    if len(widths) == 1:
        return Combination(tuple(places), tuple(weights), None)
    stands = np.concatenate(slices)
    order = np.full(len(counts) + -len(counts) % ALIGNED, np.argmax(stands < 0), np.int32)
    order[stands[stands >= 0]] = np.flatnonzero(stands >= 0)
    return Combination(tuple(places), tuple(weights), on_device(order))


def slots(
    row_starts: Int[np.ndarray, " row_plus_one"], rows: Int[np.ndarray, " some"], width: int
) -> Int[np.ndarray, "slot some"]:
    """Entries of some rows, one slot after the other; the number of all entries for none."""
    starts, ends = row_starts[rows], np.where(rows < 0, 0, row_starts[rows + 1])
    entries = starts + np.arange(width, dtype=row_starts.dtype)[:, None]
    return np.where(entries < ends, entries, row_starts[-1])


class Table(eqx.Module):
    """Where the entries of a square matrix stand; the diagonal has the first slot.

    Rows stand in the order of the slices, which follow one another.
    """

    columns: tuple[Int[Array, "_ _"], ...]
    entries: tuple[Int[Array, "_ _"], ...]  # one past the end where a row has fewer

    def fill(self, values: Float[Array, " entry"]) -> "Rows":
        return Rows(
            self.columns,
            tuple(
                values.at[part].get(mode="fill", fill_value=0.0, wrap_negative_indices=False)
                for part in self.entries
            ),
        )


class Rows(eqx.Module):
    """A square matrix by its rows."""

    columns: tuple[Int[Array, "_ _"], ...]
    values: tuple[Float[Array, "_ _"], ...]

    def __matmul__(self, vector: Float[Array, " row"]) -> Float[Array, " row"]:
        parts = zip(self.values, self.columns, strict=True)
        return jnp.concatenate([weighted_sum(values, places, vector) for values, places in parts])

    def diagonal(self) -> Float[Array, " row"]:
        return jnp.concatenate([values[0] for values in self.values])

    def magnitudes(self) -> Float[Array, " row"]:
        """The sum of the sizes of the entries of each row."""
        return jnp.concatenate([jnp.sum(abs(values), axis=0) for values in self.values])

    def astype(self, dtype) -> "Rows":
        return Rows(self.columns, tuple(values.astype(dtype) for values in self.values))

    def to_dense(self) -> Float[Array, "row row"]:
        """With ones on the diagonal of rows that only fill up."""
        dense, start = jnp.diag(jnp.where(self.diagonal() == 0, 1.0, 0.0)), 0
        for values, columns in zip(self.values, self.columns, strict=True):
            rows = start + jnp.arange(values.shape[1])
            dense = dense.at[jnp.broadcast_to(rows, columns.shape), columns].add(values)
            start += values.shape[1]
        return dense


def table(pattern: sp.csr_array, layout: Layout) -> Table:
    """The tables of a pattern that is in the order of a layout."""
    entries = diagonal_first(pattern)
    columns, places, start = [], [], 0
    for width, length in zip(layout.widths, layout.lengths, strict=True):
        rows = np.arange(start, start + length)
        own = slots(pattern.indptr, rows, width)
        result = own < pattern.nnz
        own = entries[np.minimum(own, pattern.nnz - 1)]
        columns.append(on_device(np.where(result, pattern.indices[own], rows), np.int32))
        places.append(on_device(np.where(result, own, pattern.nnz), np.int32))
        start += length
    return Table(tuple(columns), tuple(places))


def diagonal_first(pattern: sp.csr_array) -> Int[np.ndarray, " entry"]:
    """Entries row by row, the diagonal first."""
    rows = np.repeat(np.arange(len(pattern.indptr) - 1), np.diff(pattern.indptr))
    on_diagonal = np.flatnonzero(pattern.indices == rows)
    entries, starts = np.arange(pattern.nnz), pattern.indptr[rows[on_diagonal]]
    entries[on_diagonal], entries[starts] = starts, on_diagonal
    return entries

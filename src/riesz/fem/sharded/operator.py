"""Sparse products by rows: each device has those that it owns.

Tables have an axis of devices before the others, along which they are sharded; within `shard_map`
each device sees its own.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int

from riesz.devices import AXIS
from riesz.fem.linear.multigrid.tables import diagonal_first, rounded, slots, weighted_sum
from riesz.fem.sharded.partition import AnyArray, Exchange, Shares, exchange


class SharedCombination(eqx.Module):
    """Fixed linear combinations of numbers that devices own: a sparse matrix of known values."""

    exchange: Exchange
    places: Int[AnyArray, "*device slot row"]
    weights: Float[AnyArray, "*device slot row"]

    def __call__(self, own: Float[Array, " place"]) -> Float[Array, " row"]:
        weights, places = jnp.asarray(self.weights, own.dtype), jnp.asarray(self.places)
        return weighted_sum(weights, places, self.exchange(own))


class SharedTable(eqx.Module):
    """Where the entries of a square matrix stand; the diagonal has the first slot."""

    exchange: Exchange
    columns: Int[AnyArray, "*device slot row"]
    entries: Int[AnyArray, "*device slot row"]  # among the device's own; past the end: none

    def filled(self, values: Float[Array, " entry"]) -> "SharedRows":
        found = values.at[self.entries].get(
            mode="fill", fill_value=0.0, wrap_negative_indices=False
        )
        return SharedRows(self.exchange, jnp.asarray(self.columns), found)


class SharedRows(eqx.Module):
    """The rows of a square matrix that a device owns."""

    exchange: Exchange
    columns: Int[Array, "slot row"]
    values: Float[Array, "slot row"]

    def __matmul__(self, own: Float[Array, " row"]) -> Float[Array, " row"]:
        return weighted_sum(self.values, self.columns, self.exchange(own))

    def magnitudes(self) -> Float[Array, " row"]:
        """The sum of the sizes of the entries of each row."""
        return jnp.sum(abs(self.values), axis=0)

    def inverse_diagonal(self) -> Float[Array, " row"]:
        """Divided by a bound of the eigenvalues of the scaled matrix (Gershgorin); zero where a row
        only fills up."""
        diagonal = self.values[0]
        shares = jnp.where(diagonal == 0, 0.0, self.magnitudes() / abs(diagonal))
        bound = jax.lax.pmax(jnp.max(shares), AXIS)
        return jnp.where(diagonal == 0, 0.0, 1 / (bound * diagonal))


def shared_combination(matrix: sp.csr_array, rows: Shares, columns: Shares) -> SharedCombination:
    """A sparse matrix by the owners of its rows, for vectors by the owners of its columns."""
    entries = row_slots(matrix, rows)
    told, places = exchange(columns, [matrix.indices[own[own < matrix.nnz]] for own in entries])
    found = entries < matrix.nnz
    kept = np.minimum(entries, matrix.nnz - 1)
    stands = np.stack([at[matrix.indices[own]] for at, own in zip(places, kept, strict=True)])
    weights = np.where(found, matrix.data[kept], 0.0)
    return SharedCombination(told, np.where(found, stands, 0).astype(np.int32), weights)


def shared_table(pattern: sp.csr_array, rows: Shares, of_entries: Shares) -> SharedTable:
    """The tables of a square pattern by the owners of its rows and, alike, of its entries."""
    ordered, entries = diagonal_first(pattern), row_slots(pattern, rows)
    found = entries < pattern.nnz
    kept = ordered[np.minimum(entries, pattern.nnz - 1)]
    told, places = exchange(
        rows, [pattern.indices[own[is_one]] for own, is_one in zip(kept, found, strict=True)]
    )
    stands = np.stack([at[pattern.indices[own]] for at, own in zip(places, kept, strict=True)])
    first = (np.arange(rows.num_devices) * of_entries.num_places)[:, None, None]
    own = np.where(found, of_entries.position[kept] - first, of_entries.num_places)
    return SharedTable(told, np.where(found, stands, 0).astype(np.int32), own.astype(np.int32))


def row_slots(matrix: sp.csr_array, rows: Shares) -> Int[np.ndarray, "device slot row"]:
    """Entries of the rows of each device, slot by slot; the number of all entries for none."""
    width = rounded(int(np.diff(matrix.indptr).max()))
    size = len(matrix.indptr) - 1
    own = np.where(rows.order == size, -1, rows.order)
    return np.stack([slots(matrix.indptr, one, width) for one in own])

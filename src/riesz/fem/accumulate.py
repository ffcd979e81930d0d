"""Adding the contributions of cells to the unknowns they share.

Two things decide the speed of this sum on a CPU. A scatter-add runs on one thread, so each unknown
gathers its contributions from a table of slots instead; unknowns with unusually many cells spill
the rest into a short scatter-add. And fresh memory costs more than the arithmetic, so large meshes
are worked off in chunks of cells whose temporaries are small enough to be used again. (An
accelerator has memory that is as fast at once, and wants all cells together.)
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device
from riesz.mesh.rows import group_by_key

CHUNK_CELLS = 1 << 17
"""Cells in a chunk: temporaries of about 10 MB, below what the allocator maps afresh each time."""

SPILL_SHARE = 0.02
"""At most this share of the contributions is left to the scatter-add."""

LocalResiduals = Callable[[Int[Array, ""], int], Sequence[Float[Array, " chunk"]]]
"""Contributions of `count` cells from `start` on, one array for each local unknown."""


class Accumulation(eqx.Module):
    """For each chunk of cells, its window of unknowns and where their contributions stand."""

    starts: Int[Array, " chunk"]  # first cell
    window_starts: Int[Array, " chunk"]  # first unknown
    slots: Int[Array, "chunk slot window"]  # positions, or one past the end where there are fewer
    spilled: Int[Array, "chunk spill"]  # positions that found no slot
    spilled_to: Int[Array, "chunk spill"]  # their unknowns, counted from the window's first
    num_dofs: int = eqx.field(static=True)
    chunk_cells: int = eqx.field(static=True)

    def __call__(self, local_residuals: LocalResiduals) -> Float[Array, " dof"]:
        tables = (self.starts, self.window_starts, self.slots, self.spilled, self.spilled_to)
        if len(self.starts) == 1:
            return self.window_sum(local_residuals, tuple(table[0] for table in tables))
        dtype = jax.eval_shape(lambda: local_residuals(self.starts[0], self.chunk_cells)[0]).dtype

        def add_chunk(total, table):
            window, window_start = self.window_sum(local_residuals, table), table[1]
            old = jax.lax.dynamic_slice_in_dim(total, window_start, len(window))
            return jax.lax.dynamic_update_slice_in_dim(total, old + window, window_start, 0), None

        total, _ = jax.lax.scan(add_chunk, jnp.zeros(self.num_dofs, dtype), tables)
        return total

    def window_sum(
        self, local_residuals: LocalResiduals, table: tuple[Int[Array, "..."], ...]
    ) -> Float[Array, " window"]:
        """The sum of one chunk's contributions over its window of unknowns."""
        start, _, slots, spilled, spilled_to = table
        local = local_residuals(start, self.chunk_cells)
        flat = jnp.concatenate(local)
        total = gather_slot(flat, slots[0])
        for slot in slots[1:]:
            total = total + gather_slot(flat, slot)
        return total.at[spilled_to].add(gather_slot(flat, spilled), mode="drop")


def gather_slot(flat: Float[Array, " position"], slot: Int[Array, " any"]) -> Float[Array, " any"]:
    return flat.at[slot].get(mode="fill", fill_value=0.0, wrap_negative_indices=False)


class Chunk(NamedTuple):
    """Cells that are worked off together; the first ones may have been counted before."""

    start: int
    num_counted: int
    lowest: int  # unknown of those not counted before
    width: int  # from the lowest to the highest


class ChunkTable(NamedTuple):
    """Where the contributions of one chunk stand, unknown by unknown."""

    position: Int[np.ndarray, " contribution"]
    starts: Int[np.ndarray, " window"]  # the first position of each unknown of the window
    counts: Int[np.ndarray, " window"]


def accumulation(dofs: Int[np.ndarray, "local cell"], num_dofs: int) -> Accumulation:
    """Tables for contributions of all cells; one chunk where the numbering has no locality."""
    num_local, num_cells = dofs.shape
    largest = CHUNK_CELLS if jax.default_backend() == "cpu" else num_cells
    # Equal chunks: the last one overlaps its neighbour by less than the number of chunks.
    chunk_cells = -(-num_cells // -(-num_cells // largest))
    chunks = chunks_of(dofs, chunk_cells)
    width = max(chunk.width for chunk in chunks)
    if len(chunks) > 1 and width * len(chunks) > 2 * num_dofs:
        chunk_cells = num_cells
        chunks = [Chunk(0, 0, 0, num_dofs)]
        width = num_dofs
    # A window may not reach past the last unknown: shift it back.
    window_starts = [min(chunk.lowest, num_dofs - width) for chunk in chunks]
    tables = [
        chunk_table(dofs[:, chunk.start : chunk.start + chunk_cells], chunk.num_counted, at, width)
        for chunk, at in zip(chunks, window_starts, strict=True)
    ]
    most = max(int(table.counts.max()) for table in tables)
    num_with = [np.bincount(table.counts, minlength=most + 1) for table in tables]
    depth = slot_count(np.sum(num_with, axis=0))
    past_end = num_local * chunk_cells
    spill = max(int(np.maximum(table.counts - depth, 0).sum()) for table in tables)
    slots = np.empty((len(chunks), depth, width), dtype=np.int32)
    spilled = np.full((len(chunks), spill), past_end, dtype=np.int32)
    spilled_to = np.full((len(chunks), spill), width, dtype=np.int32)
    for k, (position, starts, counts) in enumerate(tables):
        for slot in range(depth):
            place = np.minimum(starts + slot, len(position) - 1)
            slots[k, slot] = np.where(slot < counts, position.take(place), past_end)
        owner, over = overflow(starts, counts, depth)
        spilled[k, : len(over)], spilled_to[k, : len(over)] = position[over], owner
    return Accumulation(
        starts=on_device([chunk.start for chunk in chunks], np.int32),
        window_starts=on_device(window_starts, np.int32),
        slots=on_device(slots),
        spilled=on_device(spilled),
        spilled_to=on_device(spilled_to),
        num_dofs=num_dofs,
        chunk_cells=chunk_cells,
    )


def chunks_of(dofs: Int[np.ndarray, "local cell"], chunk_cells: int) -> list[Chunk]:
    """Cut the cells into chunks of equal size; the last one overlaps, but counts only new cells."""
    num_cells = dofs.shape[1]
    begins = np.arange(0, num_cells, chunk_cells)
    lowest = np.minimum.reduceat(dofs.min(axis=0), begins)
    highest = np.maximum.reduceat(dofs.max(axis=0), begins)
    last = num_cells - chunk_cells
    return [
        Chunk(min(begin, last), max(begin - last, 0), low, high - low + 1)
        for begin, low, high in zip(*map(np.ndarray.tolist, (begins, lowest, highest)), strict=True)
    ]


def chunk_table(
    dofs: Int[np.ndarray, "local cell"], num_counted: int, window_start: int, width: int
) -> ChunkTable:
    """Contributions of one chunk by unknown, leaving out its first `num_counted` cells."""
    owner = dofs[:, num_counted:].ravel() - window_start
    order, starts, _ = group_by_key(owner, width)
    if num_counted:
        order = np.arange(dofs.size).reshape(dofs.shape)[:, num_counted:].ravel()[order]
    return ChunkTable(order, starts[:-1], np.diff(starts))


def overflow(
    starts: Int[np.ndarray, " window"], counts: Int[np.ndarray, " window"], depth: int
) -> tuple[Int[np.ndarray, " spill"], Int[np.ndarray, " spill"]]:
    """Unknowns with more contributions than slots, and the places of those that find none."""
    (full,) = np.nonzero(counts > depth)
    extra = counts[full] - depth
    owner = np.repeat(full, extra)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(extra) - extra, extra)
    return owner, starts[owner] + depth + rank


def slot_count(num_with: Int[np.ndarray, " contributions"]) -> int:
    """The smallest number of slots that leaves at most `SPILL_SHARE` of the contributions over.

    `num_with` tells how many unknowns have no contribution, one, two and so on.
    """
    per_slot = num_with[::-1].cumsum()[::-1][1:]  # how many have a first one, a second, ...
    left = per_slot[::-1].cumsum()[::-1] - per_slot
    return int(np.argmax(left <= SPILL_SHARE * per_slot.sum())) + 1

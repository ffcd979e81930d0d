"""Adding the contributions of cells to the unknowns they share.

Two things decide the speed of this sum on a CPU. A scatter-add runs on one thread, so each unknown
gathers its contributions from a table of slots instead; unknowns with unusually many cells spill
the rest into a short scatter-add. And fresh memory costs more than the arithmetic, so large meshes
are worked off in chunks of cells whose temporaries are small enough to be used again.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.arrays import on_device

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
        total = gathered(flat, slots[0])
        for slot in slots[1:]:
            total = total + gathered(flat, slot)
        return total.at[spilled_to].add(gathered(flat, spilled), mode="drop")


def gathered(flat: Float[Array, " position"], slot: Int[Array, " any"]) -> Float[Array, " any"]:
    return flat.at[slot].get(mode="fill", fill_value=0.0, wrap_negative_indices=False)


class ChunkTable(eqx.Module):
    """The same for one chunk, on the host and as wide as it happens to be."""

    start: int
    window_start: int
    owner: Int[np.ndarray, " contribution"]  # unknown, counted from the window's first
    position: Int[np.ndarray, " contribution"]
    rank: Int[np.ndarray, " contribution"]  # place among the contributions to that unknown


def accumulation(dofs: Int[np.ndarray, "cell local"], num_dofs: int) -> Accumulation:
    """Tables for contributions of all cells; one chunk where the numbering has no locality."""
    num_cells = len(dofs)
    # Equal chunks: the last one overlaps its neighbour by less than the number of chunks.
    chunk_cells = -(-num_cells // -(-num_cells // CHUNK_CELLS))
    chunks = chunk_tables(dofs, chunk_cells)
    width = max(int(chunk.owner.max()) for chunk in chunks) + 1
    if len(chunks) > 1 and width * len(chunks) > 2 * num_dofs:
        chunk_cells = num_cells
        chunks = chunk_tables(dofs, chunk_cells)
        width = num_dofs
    depth = slot_count(np.concatenate([chunk.rank for chunk in chunks]))
    past_end = dofs.shape[1] * chunk_cells
    slots = np.full((len(chunks), depth, width), past_end, dtype=np.int32)
    spill = max(int(np.sum(chunk.rank >= depth)) for chunk in chunks)
    spilled = np.full((len(chunks), spill), past_end, dtype=np.int32)
    spilled_to = np.full((len(chunks), spill), width, dtype=np.int32)
    # A window may not reach past the last unknown: shift it back, and its owners forward.
    window_starts = np.minimum([chunk.window_start for chunk in chunks], num_dofs - width)
    for k, chunk in enumerate(chunks):
        owner = chunk.owner + chunk.window_start - window_starts[k]
        fits = chunk.rank < depth
        slots[k, chunk.rank[fits], owner[fits]] = chunk.position[fits]
        over = np.count_nonzero(~fits)
        spilled[k, :over], spilled_to[k, :over] = chunk.position[~fits], owner[~fits]
    return Accumulation(
        starts=on_device([chunk.start for chunk in chunks], np.int32),
        window_starts=on_device(window_starts, np.int32),
        slots=on_device(slots),
        spilled=on_device(spilled),
        spilled_to=on_device(spilled_to),
        num_dofs=num_dofs,
        chunk_cells=chunk_cells,
    )


def chunk_tables(dofs: Int[np.ndarray, "cell local"], chunk_cells: int) -> list[ChunkTable]:
    """Cut the cells into chunks of equal size; the last one overlaps, but counts only new cells."""
    num_cells = len(dofs)
    chunks = []
    for begin in range(0, num_cells, chunk_cells):
        start = min(begin, num_cells - chunk_cells)
        chunks.append(chunk_table(dofs[start : start + chunk_cells], start, begin - start))
    return chunks


def chunk_table(dofs: Int[np.ndarray, "cell local"], start: int, num_counted: int) -> ChunkTable:
    """Contributions of one chunk sorted by unknown, leaving out its first `num_counted` cells."""
    positions = np.arange(dofs.size).reshape(dofs.shape[::-1])[:, num_counted:].ravel()
    owner = dofs[num_counted:].T.ravel()
    window_start = int(owner.min())
    owner = owner - window_start
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ChunkTable(start, window_start, owner[order], positions[order], rank)


def slot_count(rank: Int[np.ndarray, " contribution"]) -> int:
    """The smallest number of slots that leaves at most `SPILL_SHARE` of the contributions over."""
    per_rank = np.bincount(rank)
    left_over = per_rank[::-1].cumsum()[::-1] - per_rank  # with ranks up to k in slots
    return int(np.argmax(left_over <= SPILL_SHARE * len(rank))) + 1

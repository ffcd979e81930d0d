"""Adding the contributions of cells to the unknowns they share.

A scatter-add runs on one thread in XLA's CPU backend; the same sum by gathering is a parallel
loop over unknowns and about twice as fast there. Unknowns with unusually many cells spill the
rest into a short scatter-add, so that one fan of cells does not widen the table for all.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

SPILL_SHARE = 0.02
"""At most this share of the contributions is left to the scatter-add."""


class Accumulation(eqx.Module):
    """For each unknown, where its contributions stand in the concatenated local arrays."""

    slots: Int[Array, "slot dof"]  # positions, or an index past the end where there are fewer
    spilled: Int[Array, " spill"]  # positions that found no slot
    spilled_dofs: Int[Array, " spill"]

    def __call__(self, local: Sequence[Float[Array, " entity"]]) -> Float[Array, " dof"]:
        # The barriers keep XLA from recomputing the physics once for every slot.
        flat = jax.lax.optimization_barrier(jnp.concatenate(local))
        total = gathered(flat, self.slots[0])
        for slot in self.slots[1:]:
            total = total + gathered(flat, slot)
        return total.at[self.spilled_dofs].add(flat[self.spilled])


def gathered(flat: Float[Array, " position"], slot: Int[Array, " dof"]) -> Float[Array, " dof"]:
    return flat.at[slot].get(mode="fill", fill_value=0.0)


def accumulation(dofs: Int[np.ndarray, "entity local"], num_dofs: int) -> Accumulation:
    """The table for contributions of shape (entity, local)."""
    owner = dofs.T.ravel()
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=num_dofs)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = slot_count(counts)
    fits = rank < width
    slots = np.full((width, num_dofs), len(owner), dtype=np.int32)
    slots[rank[fits], owner[order[fits]]] = order[fits]
    spilled = order[~fits]
    return Accumulation(
        slots=jnp.asarray(slots),
        spilled=jnp.asarray(spilled, dtype=jnp.int32),
        spilled_dofs=jnp.asarray(owner[spilled], dtype=jnp.int32),
    )


def slot_count(counts: Int[np.ndarray, " dof"]) -> int:
    """The smallest number of slots that leaves at most `SPILL_SHARE` of the contributions over."""
    histogram = np.bincount(counts)
    at_least = histogram[::-1].cumsum()[::-1]  # how many unknowns have at least k contributions
    left_over = at_least[::-1].cumsum()[::-1]  # contributions of rank k - 1 and higher
    return max(int(np.argmax(np.append(left_over[1:], 0) <= SPILL_SHARE * counts.sum())), 1)

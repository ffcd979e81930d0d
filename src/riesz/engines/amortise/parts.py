"""One program for any number of rows: in parts of one size, which devices share.

Rows are data sets, or draws to be solved for; each is worked on by itself, so that its numbers do
not hang on its neighbours, nor on how many devices there are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from riesz.errors import RieszError

Devices = Sequence[Any]
"""Some of `jax.devices()`."""

AXIS = "rows"

NUMBERS_AT_ONCE = {"cpu": 1 << 20, "other": 1 << 27}
"""Numbers that a device may hold of one kind: a processor's cache, or a gigabyte."""

MOST_ROWS = {"cpu": 16, "other": 2048}


def num_at_once(numbers: int, most: int | None = None) -> int:
    """Rows of so many numbers each that a device works on together."""
    kind = "cpu" if jax.default_backend() == "cpu" else "other"
    most = MOST_ROWS[kind] if most is None else most
    return int(np.clip(NUMBERS_AT_ONCE[kind] // max(1, numbers), 1, most))


def as_devices(devices: Any) -> Devices:
    """All of them, the first so many, or those that are given."""
    every = jax.devices()
    if devices is None:
        return tuple(every)
    if isinstance(devices, int):
        if not 1 <= devices <= len(every):
            raise RieszError(f"devices is {devices}: JAX finds {len(every)}, give 1 to so many.")
        return tuple(every[:devices])
    found = tuple(devices)
    if not found or not all(isinstance(one, jax.Device) for one in found):
        raise RieszError("devices are not those of JAX: give a number, or some of jax.devices().")
    return found


def by_parts(
    program: Callable[[Any, Any], PyTree],
    shared: Any,
    rows: PyTree,
    *,
    width: int,
    devices: Devices,
) -> PyTree:
    """`program(shared, row)` for all rows, leaves with a leading axis, as arrays of the host.

    Each device works on `width` rows at a time; the last part is filled by repeating rows.
    """
    mesh = Mesh(np.asarray(devices), (AXIS,))
    copied = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(AXIS))
    count, whole = len(jax.tree.leaves(rows)[0]), width * len(devices)
    arrays, rest = eqx.partition(shared, eqx.is_array)
    shared = eqx.combine(jax.device_put(arrays, copied), rest)
    found = []
    for start in range(0, count, whole):
        own = np.minimum(np.arange(start, start + whole), count - 1)
        part = jax.tree.map(lambda leaf, own=own: np.asarray(leaf)[own], rows)
        found.append(shared_out(program, mesh, shared, jax.device_put(part, split)))
        if len(found) > 1:  # one part is computed while the one before it is fetched
            found[-2] = jax.tree.map(np.asarray, found[-2])
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *found)


@eqx.filter_jit
def shared_out(
    program: Callable[[Any, Any], PyTree], mesh: Mesh, shared: Any, rows: PyTree
) -> PyTree:
    arrays, rest = eqx.partition(shared, eqx.is_array)

    def local(arrays, rows):
        whole = eqx.combine(arrays, rest)
        return jax.vmap(lambda row: program(whole, row))(rows)

    spread = PartitionSpec(AXIS)
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(PartitionSpec(), spread),
        out_specs=spread,
        check_vma=False,
    )(arrays, rows)

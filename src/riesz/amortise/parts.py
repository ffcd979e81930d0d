"""One program for any number of rows: in parts of one size, which devices share.

Rows are data sets, or draws to be solved for; each is worked on by itself, so that its numbers do
not hang on its neighbours, nor on how many devices there are.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from riesz.devices import Devices, num_rows, over_rows

NUMBERS_AT_ONCE = {"cpu": 1 << 20, "other": 1 << 27}
"""Numbers that a device may hold of one kind: a processor's cache, or a gigabyte."""

MOST_ROWS = {"cpu": 16, "other": 2048}


def num_at_once(numbers: int, most: int | None = None) -> int:
    """Rows of so many numbers each that a device works on together."""
    kind = "cpu" if jax.default_backend() == "cpu" else "other"
    most = MOST_ROWS[kind] if most is None else most
    return int(np.clip(NUMBERS_AT_ONCE[kind] // max(1, numbers), 1, most))


def map_data_sets(
    program: Callable[[Any, Any], PyTree],
    shared: Any,
    rows: PyTree,
    *,
    width: int,
    devices: Devices | None,
) -> PyTree:
    """`program(shared, row)` for all rows, leaves with a leading axis, as arrays of the host.

    Each device works on `width` rows at a time; the last part is filled by repeating a row.
    """
    count, whole = num_rows(rows), width * (1 if devices is None else devices.count)
    rows = jax.tree.map(np.asarray, rows)
    result = []
    for start in range(0, count, whole):
        own = np.minimum(np.arange(start, start + whole), count - 1)
        part = jax.tree.map(lambda leaf, own=own: leaf[own], rows)
        done = over_rows(map_rows, (program, shared), part, devices)
        result.append(jax.tree.map(np.asarray, done))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *result)


@eqx.filter_jit
def map_rows(program: Callable[[Any, Any], PyTree], shared: Any, rows: PyTree) -> PyTree:
    return jax.vmap(lambda row: program(shared, row))(rows)

"""Rows of work on several devices, and in several processes.

Draws of a check, chains, directions and batches of samples are rows that know nothing of each
other. Each process takes a stretch of them, and each of its devices a part of that, by one program
for all (`shard_map`); what they find is gathered afterwards. Nothing is exchanged in between, so
that solves of the host, which some programs call, never wait for each other. What is no row is
computed by every process for itself, to the same numbers.

Any number of rows goes through one program in parts of one size. Each row is worked on by itself,
so that its numbers do not hang on its neighbours, nor on how many devices there are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import PyTree

from riesz.arrays import on_device
from riesz.errors import LostProcessError, RieszError

AXIS = "rows"

HEARTBEAT, JOINING = 20, 120
"""Seconds without a sign of life after which a process counts as dead, and for all to come."""


@dataclass(frozen=True)
class Devices:
    """The devices of this process along one axis, and how many processes do the same."""

    mesh: Mesh
    num_processes: int = 1
    number: int = 0  # of this process

    @property
    def count(self) -> int:
        return self.mesh.size * self.num_processes


Wanted = int | Literal["all"] | Sequence[Any] | Devices
"""A number, of each process, all, JAX's own, or what was made of one of these."""


def devices_of(wanted: Wanted | None) -> Devices | None:
    """Those that share work; None where the default device does all of it."""
    if wanted is None or isinstance(wanted, Devices):
        return wanted
    mesh = mesh_of(wanted)
    if mesh.size * jax.process_count() == 1 and mesh.devices[0] == jax.local_devices()[0]:
        return None
    return Devices(mesh, jax.process_count(), jax.process_index())


def mesh_of(wanted: Wanted) -> Mesh:
    """Devices of this process along one axis."""
    if isinstance(wanted, Devices):
        return wanted.mesh
    here = jax.local_devices()
    if isinstance(wanted, str):
        if wanted != "all":
            raise RieszError(f"devices is {wanted!r}: give a number, 'all', or JAX's devices.")
        own = here
    elif isinstance(wanted, int):
        if not 1 <= wanted <= len(here):
            raise RieszError(
                f"devices is {wanted}, and JAX has {len(here)} here: give a number from 1 to "
                f"{len(here)}, or 'all'. (A host is one device unless XLA_FLAGS has "
                "--xla_force_host_platform_device_count=N.)"
            )
        own = here[:wanted]
    else:
        own = local_devices(wanted)
    return Mesh(np.array(own), (AXIS,))


def local_devices(wanted: Sequence[Any]) -> list[Any]:
    """Those of this process, of which each must have as many."""
    if not wanted or not all(isinstance(one, jax.Device) for one in wanted):
        raise RieszError(f"devices is {wanted!r}: give a number, 'all', or JAX's devices.")
    held = [sum(one.process_index == i for one in wanted) for i in range(jax.process_count())]
    if len(set(held)) > 1:
        raise RieszError(
            f"devices has {', '.join(map(str, held))} of the processes: give as many of each."
        )
    return [one for one in wanted if one.process_index == jax.process_index()]


def over_rows(
    function: Callable[..., PyTree], shared: tuple, rows: PyTree, devices: Devices | None
) -> PyTree:
    """`function(*shared, rows)`, whose results have the rows' leading axis, by all devices.

    Rows are filled up to a multiple of the devices by repeating the last one.
    """
    if devices is None:
        return function(*shared, rows)
    count = num_rows(rows)
    own, _ = own_rows(rows, devices)
    result = gather_rows(map_on_mesh(devices.mesh, function, shared, own), devices)
    return jax.tree.map(lambda leaf: leaf[:count], result)


def sum_over_rows(
    function: Callable[..., PyTree], shared: tuple, rows: PyTree, devices: Devices | None
) -> PyTree:
    """`function(*shared, rows, counted)`, a sum over the rows: those that are counted, or all.

    What fills rows up is not counted.
    """
    if devices is None:
        return function(*shared, rows, None)
    own, counted = own_rows(rows, devices)
    parts = map_on_mesh(devices.mesh, WithLeadingAxis(function), shared, own, counted)
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), gather_rows(parts, devices))


def map_each(
    function: Callable[..., PyTree], shared: tuple, rows: list[PyTree], devices: Devices
) -> list[PyTree]:
    """`function(*shared, row)` for each of a list of rows."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    result = over_rows(OneByOne(function), shared, stacked, devices)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], result) for i in range(len(rows))]


class WithLeadingAxis(eqx.Module):
    """A function whose result has an axis of length one before the others."""

    function: Callable[..., PyTree]

    def __call__(self, *arguments: Any) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[None], self.function(*arguments))


class OneByOne(eqx.Module):
    """A function of one row for several, one after the other: solves of the host are no batch."""

    function: Callable[..., PyTree]

    def __call__(self, *arguments: Any) -> PyTree:
        *shared, rows = arguments
        return jax.lax.map(lambda row: self.function(*shared, row), rows)


def num_rows(rows: PyTree) -> int:
    return len(jax.tree.leaves(rows)[0])


def own_rows(rows: PyTree, devices: Devices) -> tuple[PyTree, np.ndarray]:
    """Those of this process, as many for each device, and which of them count."""
    count = num_rows(rows)
    held = math.ceil(count / devices.count) * devices.mesh.size
    numbers = devices.number * held + np.arange(held)
    own = jax.tree.map(lambda leaf: leaf[np.minimum(numbers, count - 1)], rows)
    return own, numbers < count


@eqx.filter_jit
def map_on_mesh(
    mesh: Mesh, function: Callable[..., PyTree], shared: tuple, *rows: PyTree
) -> PyTree:
    """Rows by all devices of this process."""
    arrays, still = eqx.partition((function, shared), eqx.is_array)

    def part(arrays: PyTree, *own: PyTree) -> PyTree:
        function, shared = eqx.combine(arrays, still)
        return function(*shared, *own)

    along = PartitionSpec(AXIS)
    specs = (PartitionSpec(), *(along for _ in rows))
    # Solves of the host do not tell along which axes their results vary.
    by_all = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=along, check_vma=False)
    return by_all(arrays, *rows)


def gather_rows(rows: PyTree, devices: Devices) -> PyTree:
    """What all devices of all processes have found, one after the other, on the default one."""
    host = jax.tree.map(on_host, rows)
    if devices.num_processes > 1:
        host = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), gather_processes(host))
    return jax.tree.map(back_on_device, rows, host)


def on_host(leaf: jax.Array) -> np.ndarray:
    return np.asarray(jr.key_data(leaf) if is_key(leaf) else leaf)


def back_on_device(leaf: jax.Array, numbers: np.ndarray) -> jax.Array:
    values = on_device(numbers)
    return jr.wrap_key_data(values, impl=jr.key_impl(leaf)) if is_key(leaf) else values


def is_key(leaf: jax.Array | np.ndarray) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def gather_processes(host: PyTree) -> PyTree:
    """The same arrays of all processes, stacked; all of them must have come here."""
    try:
        return import_module("jax.experimental.multihost_utils").process_allgather(host)
    except (RuntimeError, ValueError) as error:  # both are what lost connections are told by
        raise LostProcessError(
            "another process of this fit has ended or cannot be reached, and this one cannot go on "
            "without it: look at what it said last, and start all of them again."
        ) from error


def join_processes(
    address: str | None = None, count: int | None = None, number: int | None = None
) -> int:
    """Let this process and others do fits together: each runs the same program, and calls this
    before anything else of JAX. Returns which of them this is, from 0.

    Without arguments SLURM and Open MPI tell who they are. Else `address` is where the first
    process listens, `host:port`, which all of them can reach, `count` how many there are, and
    `number` which of them this is. When one of them ends before its time, so do the others,
    within a minute.
    """
    given = [part is not None for part in (address, count, number)]
    if any(given) and not all(given):
        raise RieszError("address, count and number of processes: give all of them, or none.")
    if count is not None and number is not None and not 0 <= number < count:
        raise RieszError(f"process {number} of {count}: they are numbered from 0 to {count - 1}.")
    if jax.distributed.is_initialized():
        raise RieszError("this process has joined others already: do it once.")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            address,
            count,
            number,
            heartbeat_timeout_seconds=HEARTBEAT,
            initialization_timeout=JOINING,
            shutdown_timeout_seconds=JOINING,
        )
    except (ValueError, RuntimeError) as error:
        raise RieszError(
            f"this process could not join others: {str(error).splitlines()[0]} Start it by srun or "
            "mpirun, or give address, count and number, before any other use of JAX."
        ) from error
    return jax.process_index()


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

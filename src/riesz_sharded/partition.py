"""Which device owns which unknowns, and which values it needs of others, its ghosts.

Worked out once on the host. Parts come from recursive bisection along the longest side (Berger &
Bokhari 1987): of equal size, and with short borders on meshes of any shape.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.solvers.blocks import AXIS, gather

Numbers = Int[np.ndarray, " some"]
AnyArray = Array | np.ndarray  # the host's until it is put on devices


def bisect_points(points: Float[np.ndarray, "point dim"], count: int) -> Int[np.ndarray, " point"]:
    """The part of each point, of `count` parts whose sizes differ by one at most for each cut."""
    owner = np.zeros(len(points), np.int32)
    waiting = [(np.arange(len(points)), 0, count)]
    while waiting:
        own, first, parts = waiting.pop()
        if parts == 1:
            owner[own] = first
            continue
        along = np.argmax(np.ptp(points[own], axis=0)) if len(own) else 0
        low = parts // 2
        cut = len(own) * low // parts
        order = np.argsort(points[own, along], kind="stable")
        waiting.append((own[order[:cut]], first, low))
        waiting.append((own[order[cut:]], first + low, parts - low))
    return owner


@dataclass(frozen=True)
class Shares:
    """Numbers by the device that owns them, as many places for each device."""

    owner: Int[np.ndarray, " number"]
    order: Int[np.ndarray, "device place"]  # the number at each place; how many there are for none
    position: Int[np.ndarray, " number"]  # its place among those of all devices

    @property
    def num_devices(self) -> int:
        return len(self.order)

    @property
    def num_places(self) -> int:
        return self.order.shape[1]


def shares(owner: Int[np.ndarray, " number"], num_devices: int) -> Shares:
    counts = np.bincount(owner, minlength=num_devices)
    width = max(1, int(counts.max()))
    by_owner = np.argsort(owner, kind="stable")
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    position = np.empty(len(owner), np.int64)
    position[by_owner] = owner[by_owner].astype(np.int64) * width + place
    order = np.full(num_devices * width, len(owner))
    order[position] = np.arange(len(owner))
    return Shares(owner, order.reshape(num_devices, width), position)


Ways = tuple[tuple[int, int], ...]
"""From which device to which other."""


class Exchange(eqx.Module):
    """Values that a device owns, then its ghosts: in each round from one other device at most."""

    sent: tuple[Int[AnyArray, "*device sent"], ...]  # places of what is sent in each round
    ways: tuple[Ways, ...] = eqx.field(static=True)

    def __call__(self, own: Float[Array, " place"]) -> Float[Array, " local"]:
        ghosts = [
            jax.lax.ppermute(gather(own, jnp.asarray(places)), AXIS, ways)
            for places, ways in zip(self.sent, self.ways, strict=True)
        ]
        return jnp.concatenate([own, *ghosts])

    @property
    def num_ghosts(self) -> int:
        """Numbers that a device receives, at most."""
        return sum(places.shape[-1] for places in self.sent)


def plan_exchange(
    source: Shares, needed: list[Numbers]
) -> tuple[Exchange, list[Int[np.ndarray, " number"]]]:
    """The exchange that gives each device the numbers it needs, and where they then stand."""
    size, width = len(source.owner), source.num_places
    requests: dict[tuple[int, int], Numbers] = {}
    result = []
    for device, numbers in enumerate(needed):
        distinct = np.unique(numbers)
        owners = source.owner[distinct]
        requests |= {
            (int(other), device): distinct[owners == other]
            for other in np.unique(owners)
            if other != device
        }
        places = np.full(size, -1)
        own = np.flatnonzero(source.owner == device)
        places[own] = source.position[own] - device * width
        result.append(places)
    sent, ways, start = [], [], width
    for pairs in rounds(requests):
        length = max(len(requests[pair]) for pair in pairs)
        table = np.zeros((source.num_devices, length), np.int32)
        for one, other in pairs:
            numbers = requests[one, other]
            table[one, : len(numbers)] = source.position[numbers] - one * width
            result[other][numbers] = start + np.arange(len(numbers))
        sent.append(table)
        ways.append(tuple(pairs))
        start += length
    return Exchange(tuple(sent), tuple(ways)), result


def rounds(requests: dict[tuple[int, int], Numbers]) -> list[list[tuple[int, int]]]:
    """Pairs of devices such that none sends or receives twice in a round; the longest first, so
    that those of a round are of similar length."""
    schedule: list[list[tuple[int, int]]] = []
    for pair in sorted(requests, key=lambda pair: (-len(requests[pair]), pair)):
        free = (pairs for pairs in schedule if all(a != pair[0] and b != pair[1] for a, b in pairs))
        pairs = next(free, None)
        if pairs is None:
            schedule.append([pair])
        else:
            pairs.append(pair)
    return schedule

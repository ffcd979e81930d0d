"""Coefficients that change in time: rows of a table, held or joined by lines, times a factor."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.errors import FormError
from riesz.fem.elements.domain import Domain
from riesz.fem.terms.coefficient import (
    AbstractCoefficient,
    Constant,
    Latent,
    Nodal,
    PerCell,
    as_floats,
    latent_value,
)
from riesz.fem.terms.pointwise import Point

TIME = "t"
"""The entry of `z` that holds the time, for functions of (x, z) as well."""

HELD, LINEAR = "held", "linear"
KINDS = (HELD, LINEAR)


class Samples(eqx.Module):
    """What a series is worth at some times: a sum of a few rows, from a first one on."""

    halfway: Float[Array, " gap"]  # between the times, so that rounding confuses none
    first: Int[Array, " time"]
    weights: Float[Array, "time few"]

    def at(
        self, rows: Float[Array, " row *shape"], time: Float[Array, ""]
    ) -> Float[Array, "*shape"]:
        own = jnp.searchsorted(self.halfway, time)
        weights = self.weights[own].astype(rows.dtype)
        few = jax.lax.dynamic_slice_in_dim(rows, self.first[own], len(weights))
        return jnp.tensordot(weights, few, 1)


class Series(AbstractCoefficient):
    """Values at some times; in between `held` from a row on until the next one, or `linear`.

    It has a value where a time axis has said what counts at its times: means over steps.
    """

    times: Float[Array, " row"]
    rows: Float[Array, " row *shape"] | Latent
    kind: str = eqx.field(static=True)
    over: str | None = eqx.field(static=True)  # "node" or "cell", or one value for all
    factor: Latent | None
    samples: Samples | None = None

    @property
    def names(self) -> tuple[str, ...]:
        given = [part.name for part in (self.rows, self.factor) if isinstance(part, Latent)]
        return (*given, TIME)

    def gather(self, domain: Domain) -> PyTree[Array]:
        raise self.timeless("a coefficient")

    def at(self, local: PyTree[Array], point: Point) -> Array:
        raise self.timeless("a coefficient")

    def timeless(self, label: str) -> FormError:
        return FormError(
            f"{label} changes in time, but there is no time axis: pose a transient problem, with "
            "times=time_axis(...)."
        )

    def degree(self) -> int:
        return 1 if self.over == "node" else 0

    def resolve(self, z: PyTree, label: str) -> AbstractCoefficient:
        value = self.now(z, label)
        return {"node": Nodal, "cell": PerCell, None: Constant}[self.over](value)

    def now(self, z: PyTree, label: str) -> Float[Array, "*shape"]:
        """The value at the time that `z` holds."""
        if self.samples is None or not isinstance(z, Mapping) or TIME not in z:
            raise self.timeless(label)
        rows = self.rows
        if isinstance(rows, Latent):
            name, rows = rows.name, as_floats(latent_value(rows, z, label), label)
            if rows.shape[:1] != self.times.shape:
                raise FormError(
                    f"{label} has {len(self.times)} times, but the unknown {name!r} has shape "
                    f"{rows.shape}: give it one number a time."
                )
        value = self.samples.at(rows, z[TIME])
        if self.factor is not None:
            value = value * latent_value(self.factor, z, f"the factor of {label}")
        return value

    def sample(
        self,
        times: Float[np.ndarray, " time"],
        spans: Float[np.ndarray, "time part 2"],
        parts: Float[np.ndarray, "time part"],
    ) -> "Series":
        """The same with a value at each of some times: a sum of its means over spans of time."""
        shares = mean_shares(np.asarray(self.times), self.kind, spans.reshape(-1, 2))
        ends = np.arange(len(parts) + 1) * parts.shape[1]
        sums = sp.csr_array((parts.ravel(), np.arange(parts.size), ends)) @ shares
        return dataclasses.replace(self, samples=few_rows(times, sums, len(self.times)))


def mean_shares(
    times: Float[np.ndarray, " row"], kind: str, spans: Float[np.ndarray, "span 2"]
) -> sp.csr_array:
    """What each row of a series has in its means over spans of time, or at instants."""
    count, (start, end) = len(times), spans.T
    low, high = min(times[0], start.min()) - 1.0, max(times[-1], end.max()) + 1.0
    edges = np.concatenate([[low], times, [high]])  # the first and the last value go on for good
    first = np.searchsorted(edges, start, side="right") - 1
    last = np.maximum(np.searchsorted(edges, end, side="left") - 1, first)
    counts = last - first + 1
    span = np.repeat(np.arange(len(spans)), counts)
    piece = np.arange(len(span)) + np.repeat(first + counts - np.cumsum(counts), counts)
    begun, ended = np.maximum(start[span], edges[piece]), np.minimum(end[span], edges[piece + 1])
    length = (end - start)[span]
    share = np.where(length > 0, (ended - begun) / np.where(length > 0, length, 1.0), 1.0)
    later = ((begun + ended) / 2 - edges[piece]) / (edges[piece + 1] - edges[piece])
    later = share * later if kind == LINEAR else np.zeros_like(share)
    rows = (np.maximum(piece - 1, 0), np.minimum(piece, count - 1))
    entries = (np.concatenate([share - later, later]), (np.tile(span, 2), np.concatenate(rows)))
    return sp.coo_array(entries, shape=(len(spans), count)).tocsr()


def few_rows(times: Float[np.ndarray, " time"], sums: sp.csr_array, num_rows: int) -> Samples:
    """Sums of so many rows, one for each time."""
    sums.eliminate_zeros()
    sums.sort_indices()
    starts, counts = sums.indptr[:-1], np.diff(sums.indptr)
    first, last = sums.indices[starts], sums.indices[starts + counts - 1]
    width = int((last - first).max()) + 1
    first = np.minimum(first, num_rows - width)
    row = np.repeat(np.arange(len(counts)), counts)
    weights = np.zeros((len(counts), width))
    weights[row, sums.indices - first[row]] = sums.data
    return Samples(
        on_device((times[1:] + times[:-1]) / 2), on_device(first, np.int32), on_device(weights)
    )


def series(
    times: Any, values: Any, *, kind: str = HELD, over: str | None = None, factor: str | None = None
) -> Series:
    """A coefficient, a rate of wells or a prescribed value that changes in time.

    `values` has a row a time (numbers, vectors, values at the nodes or cells where `over` says so),
    or is the name of an unknown with one number a time, such as a process in time. `factor` names
    an unknown that multiplies all. Before the first time its value holds, and after the last one.
    """
    if kind not in KINDS:
        raise FormError(f"the kind of a series is {kind!r}: give {' or '.join(map(repr, KINDS))}.")
    if over not in ("node", "cell", None):
        raise FormError(f"a series over {over!r}: give 'node', 'cell', or leave it out.")
    at = np.asarray(as_floats(times, "times of a series"))
    if at.ndim != 1 or len(at) < (2 if kind == LINEAR else 1):
        fewest = "two times" if kind == LINEAR else "one time"
        raise FormError(f"the times of a series have shape {at.shape}: give at least {fewest}.")
    (back,) = np.nonzero(np.diff(at) <= 0)
    if back.size:
        row = int(back[0]) + 1
        raise FormError(
            f"the times of a series do not rise: {at[row]:g} in row {row + 1} comes after "
            f"{at[row - 1]:g}. Sort its rows, and leave out those that occur twice."
        )
    rows = Latent(values) if isinstance(values, str) else as_floats(values, "values of a series")
    if not isinstance(rows, Latent) and rows.shape[:1] != at.shape:
        raise FormError(
            f"a series has {len(at)} times, but values of shape {rows.shape}: give one row a time."
        )
    named = None if factor is None else Latent(factor)
    return Series(on_device(at), rows, kind, over, named)

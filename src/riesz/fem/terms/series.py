"""Coefficients that change in time: rows of a table, held or joined by lines, times a factor."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

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


class Series(AbstractCoefficient):
    """Values at some times; in between `held` from a row on until the next one, or `linear`.

    A value that is held counts up to the next row's time and no further: a step in time that ends
    there sees what was, not what comes.
    """

    times: Float[Array, " row"]
    rows: Float[Array, " row *shape"] | Latent
    kind: str = eqx.field(static=True)
    over: str | None = eqx.field(static=True)  # "node" or "cell", or one value for all
    factor: Latent | None

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

    def resolved(self, z: PyTree, label: str) -> AbstractCoefficient:
        value = self.now(z, label)
        return {"node": Nodal, "cell": PerCell, None: Constant}[self.over](value)

    def now(self, z: PyTree, label: str) -> Float[Array, "*shape"]:
        """The value at the time that `z` holds."""
        if not isinstance(z, Mapping) or TIME not in z:
            raise self.timeless(label)
        rows = self.rows
        if isinstance(rows, Latent):
            name, rows = rows.name, as_floats(latent_value(rows, z, label), label)
            if rows.shape[:1] != self.times.shape:
                raise FormError(
                    f"{label} has {len(self.times)} times, but the unknown {name!r} has shape "
                    f"{rows.shape}: give it one number a time."
                )
        value = self.between(rows, z[TIME])
        if self.factor is not None:
            value = value * latent_value(self.factor, z, f"the factor of {label}")
        return value

    def between(
        self, rows: Float[Array, " row *shape"], time: Float[Array, ""]
    ) -> Float[Array, "*shape"]:
        if self.kind == HELD:
            row = jnp.searchsorted(self.times, time, side="left") - 1
            return rows[jnp.clip(row, 0, len(self.times) - 1)]
        row = jnp.clip(jnp.searchsorted(self.times, time) - 1, 0, len(self.times) - 2)
        length = self.times[row + 1] - self.times[row]
        share = jnp.clip((time - self.times[row]) / length, 0.0, 1.0)
        return rows[row] + share * (rows[row + 1] - rows[row])


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

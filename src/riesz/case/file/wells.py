"""The wells of a problem file: points and rates, from its own entries and from tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from riesz.case.data.oddities import place_numbers
from riesz.case.data.rows import (
    AXES,
    WELLS,
    DataRows,
    entries_content,
    entry_table,
    plain_rows,
    rows_at_places,
)
from riesz.case.data.schema import CRS
from riesz.case.file.stresses import History
from riesz.case.table import FileTable, NumberOrName, parse_table
from riesz.fem.terms.series import series
from riesz.fem.terms.weakform import WeakForm, point_source
from riesz.fem.time.axis import TimeAxis
from riesz.io.tables.layers import read_table

RATE, TIME, NAME = "rate", "time", "name"
"""Keys of a well, and the columns that they name unless told otherwise."""

ENTRY = "entry"
"""The column of a run's own table that tells which entry of the problem file a well is of."""


Rows = Int[np.ndarray, " row"]


class WellTable(FileTable):
    """A point at which something is put in or, with a negative rate, taken out; or many in a file.

    In a point's table `rate` may name an unknown; beside `file`, all three name columns, and `name`
    does. With a column of dates, a row is the rate of a well from that time on; `share` then names
    an unknown that multiplies all of them.
    """

    NEEDS = (
        ("date", "file", "a table with that column"),
        ("share", "date", "it multiplies rates in time, those of a file"),
        ("layer", "file", "a map layer of points"),
    )

    file: str | None = None
    layer: str | None = None
    crs: CRS = None
    x: NumberOrName = None
    y: NumberOrName = None
    rate: NumberOrName = None
    date: str | None = None
    name: str | None = None
    share: str | None = None

    def faults(self) -> Iterator[str]:
        for key in (*AXES, RATE):
            value = getattr(self, key)
            if self.file is not None and isinstance(value, float):
                yield (
                    f"has a file and {key} = {value:g}: with a file, {key} names one of its "
                    "columns; write the point as [[wells]] of its own"
                )
            if self.file is None and value is None:
                yield f"lacks the key {key!r}: give a number, or name a table by 'file'"
            if self.file is None and key != RATE and isinstance(value, str):
                yield f"has {key} = {value!r}, which is no number: columns need the key 'file'"
        unknown = self.unknown()
        if unknown is not None and not unknown.isidentifier():
            yield f"has rate = {unknown!r}: give a finite number, or the name of an unknown"

    def unknown(self) -> str | None:
        """The unknown that is the rate of a point, if it is one."""
        return self.rate if self.file is None and isinstance(self.rate, str) else None


@dataclass(frozen=True, eq=False)
class WellPoints:
    """The wells of one entry."""

    rows: DataRows  # values are rates, which hold from the times on; sites are names
    unknown: str | None = None  # the name of the rate, where it is not known
    share: str | None = None  # the unknown that rates in time are multiplied by
    steps: Float[np.ndarray, "step well"] | None = None
    """Under a scenario, the rates in each step; of an unknown rate, what multiplies it."""

    @cached_property
    def groups(self) -> list[Rows]:
        """The rows of each well in the order of time; without times, each row is a well."""
        times = self.rows.times
        if times is None:
            return list(np.arange(self.rows.num_rows)[:, None])
        place = place_numbers(self.rows.points)
        order = np.lexsort((times.numbers, place))
        return np.split(order, np.flatnonzero(np.diff(place[order])) + 1)

    @property
    def places(self) -> Float[np.ndarray, "well 2"]:
        return self.rows.points[[own[0] for own in self.groups]]

    @property
    def place_names(self) -> list[str]:
        """Of the places; empty where they have none."""
        names = self.rows.sites
        return ["" if names is None else names[own.min()] for own in self.groups]

    @property
    def count(self) -> int:
        return len(self.groups)

    @property
    def rates(self) -> Float[np.ndarray, " well"]:
        """In time, the last ones."""
        last = self.rows.values[[own[-1] for own in self.groups]]
        return last if self.steps is None else self.steps[-1]

    @property
    def changes(self) -> bool:
        """Whether rates may differ from step to step."""
        return self.rows.times is not None or self.steps is not None

    def step_rates(self, axis: TimeAxis) -> Float[np.ndarray, "step well"]:
        """The mean rate of each well in each step, so that volumes are right wherever rates
        change; of an unknown rate, what multiplies it."""
        rows = self.rows
        if self.steps is not None:
            return self.steps
        if rows.times is None:
            rates = np.ones(self.count) if self.unknown else self.rates
            return np.tile(rates, (axis.num_steps, 1))
        result = []
        for own in self.groups:
            x, y = rows.points[own[0]]
            what = f"the rate of the well at ({x:.10g}, {y:.10g})"
            result.append(History(what, rows.rows(own)).means(axis))
        return np.stack(result, axis=1)


def read_wells(
    path: Path, tables: Sequence[WellTable], crs: str | None = None, kept: Path | None = None
) -> tuple[WellPoints, ...]:
    """The wells of a problem file, each entry's own; those of files from the folder of a run that
    `kept` them, where there is one."""
    return tuple(entry_wells(path, number, table, crs, kept) for number, table in enumerate(tables))


def entry_wells(
    path: Path, number: int, table: WellTable, crs: str | None = None, kept: Path | None = None
) -> WellPoints:
    """The wells of an entry: one point, or the rows of a file."""
    if table.file is None:
        unknown = table.unknown()
        rows = plain_rows(
            path,
            np.array([[table.x, table.y]], dtype=float),
            np.array([0.0 if unknown else table.rate], dtype=float),
            lines=np.array([number + 1]),
            place="[[wells]] entry",
            crs=table.crs,
            sites=None if table.name is None else [table.name],
        )
        return WellPoints(rows.within(crs), unknown)
    if kept is None:
        file = path.parent / table.file
        own = read_table(file, layer=table.layer, value=str(table.rate or RATE))
    else:
        own = entry_table(kept / WELLS, number)
        named = {"date": table.date and TIME, "name": table.name and NAME}
        table = table.model_copy(update=dict.fromkeys((*AXES, RATE, "crs")) | named)
    x, y, rate = (str(getattr(table, key) or key) for key in (*AXES, RATE))
    rows = rows_at_places(own, (x, y), rate, crs=table.crs, date=table.date, site=table.name)
    return WellPoints(rows.within(crs), share=table.share)


def wells(
    path: Path | str, *, x: str = "x", y: str = "y", rate: str = "rate", layer: str | None = None
) -> WeakForm:
    """What the wells of a table put in, by columns of places and rates; subtract it.

    Rates are negative where something is taken out. For a few, and for unknown rates, see
    `point_source`.
    """
    path = Path(path)
    content = {"file": path.name, "x": x, "y": y, "rate": rate}
    content |= {} if layer is None else {"layer": layer}
    return well_sources([entry_wells(path, 0, parse_table(WellTable, content, path))])


def well_sources(wells: Sequence[WellPoints], axis: TimeAxis | None = None) -> WeakForm:
    """What all wells put in: those in time, those of known rates together, and then each of an
    unknown rate."""
    form = WeakForm()
    constant = [one for one in wells if axis is None or not one.changes]
    for one in wells:
        if axis is not None and one.changes:
            factor = one.unknown or one.share
            rates = series(axis.times[:-1], one.step_rates(axis), factor=factor)
            form = form + point_source(one.places, rates)
    if known := [one for one in constant if one.unknown is None]:
        places = np.concatenate([one.places for one in known])
        form = form + point_source(places, np.concatenate([one.rates for one in known]))
    for one in constant:
        if one.unknown is not None:
            (source,) = point_source(one.places, one.unknown).point_sources
            multiple = 1.0 if one.steps is None else float(one.rates[0])
            form = form + WeakForm(point_sources=(replace(source, sign=multiple * source.sign),))
    return form


def wells_content(wells: Sequence[WellPoints], tables: Sequence[WellTable]) -> bytes:
    """The wells that came from files, as a run folder keeps them: files may change, or be large."""
    each = enumerate(zip(wells, tables, strict=True))
    entries = {number: one.rows for number, (one, table) in each if table.file is not None}
    return entries_content((ENTRY, *AXES, RATE, TIME, NAME), entries)

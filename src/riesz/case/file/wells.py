"""The wells of a problem file: points and rates, from its own entries and from tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from pydantic import model_validator

from riesz.case.data.rows import Columns, numeric_columns
from riesz.case.data.schema import CRS
from riesz.case.file.stresses import History
from riesz.case.table import FileTable, NumberOrName, parse_table
from riesz.fem.terms.series import series
from riesz.fem.terms.weakform import WeakForm, point_source
from riesz.fem.time.axis import TimeAxis
from riesz.io.store.files import csv_content
from riesz.io.tables.dates import Times
from riesz.io.tables.layers import TextTable, read_csv, read_table

AXES, RATE, TIME, NAME = ("x", "y"), "rate", "time", "name"
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

    file: str | None = None
    layer: str | None = None
    crs: CRS = None
    x: NumberOrName = None
    y: NumberOrName = None
    rate: NumberOrName = None
    date: str | None = None
    name: str | None = None
    share: str | None = None

    @model_validator(mode="after")
    def check(self):
        for key in (*AXES, RATE):
            value = getattr(self, key)
            if self.file is not None and isinstance(value, float):
                raise ValueError(
                    f"has a file and {key} = {value:g}: with a file, {key} names one of its "
                    "columns; write the point as [[wells]] of its own"
                )
            if self.file is None and value is None:
                raise ValueError(f"lacks the key {key!r}: give a number, or name a table by 'file'")
            if self.file is None and key != RATE and isinstance(value, str):
                raise ValueError(
                    f"has {key} = {value!r}, which is no number: columns need the key 'file'"
                )
        if self.file is None and self.date is not None:
            raise ValueError("has the key 'date', which needs 'file': a table with that column")
        if self.share is not None and self.date is None:
            raise ValueError(
                "has the key 'share', an unknown that rates in time are multiplied by: it needs "
                "'file' and 'date'"
            )
        if self.file is None and self.layer is not None:
            raise ValueError("has the key 'layer', which needs 'file': a map layer of points")
        if self.file is None and isinstance(self.rate, str) and not self.rate.isidentifier():
            raise ValueError(
                f"has rate = {self.rate!r}: give a finite number, or the name of an unknown"
            )
        return self

    def columns(self) -> tuple[str, str, str]:
        """Of the coordinates and the rate, in the file."""
        x, y, rate = (str(getattr(self, key) or key) for key in (*AXES, RATE))
        return x, y, rate

    def unknown(self) -> str | None:
        """The unknown that is the rate of a point, if it is one."""
        return self.rate if self.file is None and isinstance(self.rate, str) else None


@dataclass(frozen=True, eq=False)
class WellPoints:
    """The wells of one entry."""

    columns: Columns  # x, y and, where it is known, the rate
    unknown: str | None = None  # the name of the rate, where it is not
    crs: str | None = None  # as it was told, or of a map layer
    times: Times | None = None  # from which on the rate of a row holds
    names: list[str] | None = None  # of rows, where they have some
    multiple: Float[np.ndarray, " step"] | None = None  # of an unknown rate, under a scenario
    share: str | None = None  # the unknown that rates in time are multiplied by

    @property
    def places(self) -> Float[np.ndarray, "well 2"]:
        """Where the wells are, each once where its rows have times."""
        points = self.columns.points
        return points if self.times is None else np.unique(points, axis=0)

    @property
    def place_names(self) -> list[str]:
        """Of the places; empty where they have none."""
        if self.names is None:
            return [""] * self.count
        if self.times is None:
            return self.names
        first = np.unique(self.columns.points, axis=0, return_index=True)[1]
        return [self.names[row] for row in first]

    @property
    def count(self) -> int:
        return len(self.places)

    @property
    def rates(self) -> Float[np.ndarray, " well"]:
        """In time, the last ones."""
        return np.array([rates[-1] for _, rates in self.histories()])

    def histories(self) -> list[tuple[Rows, Float[np.ndarray, " row"]]]:
        """The rows of each well in the order of time, and its rates."""
        every = self.columns.numbers[:, 2]
        if self.times is None:
            return [(np.array([row]), every[row : row + 1]) for row in range(len(every))]
        place = np.unique(self.columns.points, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((self.times.numbers, place))
        groups = np.split(order, np.flatnonzero(np.diff(place[order])) + 1)
        return [(rows, every[rows]) for rows in groups]


def read_wells(
    path: Path, tables: Sequence[WellTable], crs: str | None = None
) -> tuple[WellPoints, ...]:
    """The wells of a problem file, each entry's own."""
    return tuple(
        well_of(path, number, table, crs)
        if table.file is None
        else wells_in(path.parent, table, crs)
        for number, table in enumerate(tables)
    )


def well_of(path: Path, number: int, table: WellTable, crs: str | None) -> WellPoints:
    """The one well of an entry that is a point."""
    unknown = table.unknown()
    keys = AXES if unknown else (*AXES, RATE)
    numbers = np.array([[getattr(table, key) for key in keys]], dtype=float)
    columns = Columns(path, keys, numbers, np.array([number + 1]), "[[wells]] entry")
    names = None if table.name is None else [table.name]
    return WellPoints(columns.within(table.crs, crs), unknown, crs or table.crs, names=names)


def wells_in(folder: Path, table: WellTable, crs: str | None = None) -> WellPoints:
    """The wells of an entry that names a file."""
    names = table.columns()
    result = read_table(folder / str(table.file), layer=table.layer, value=names[-1])
    own = table.crs or result.crs
    times = None if table.date is None else result.times(table.date)
    called = None if table.name is None else result.words(table.name)
    columns = numeric_columns(result, names).within(own, crs)
    return WellPoints(columns, crs=crs or own, times=times, names=called, share=table.share)


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
    return well_sources([wells_in(path.parent, parse_table(WellTable, content, path))])


def well_sources(wells: Sequence[WellPoints], axis: TimeAxis | None = None) -> WeakForm:
    """What all wells put in: those of known rates together, those in time, and then each of an
    unknown rate."""
    known = [one for one in wells if one.unknown is None and one.times is None]
    form = WeakForm()
    for one in wells:
        if one.times is not None and axis is not None:
            rates = series(axis.times[:-1], step_rates(one, axis), factor=one.share)
            form = form + point_source(one.places, rates)
    if known:
        places = np.concatenate([one.columns.points for one in known])
        form = form + point_source(places, np.concatenate([one.rates for one in known]))
    for one in wells:
        if one.unknown is not None:
            form = form + unknown_source(one, axis)
    return form


def unknown_source(well: WellPoints, axis: TimeAxis | None) -> WeakForm:
    form, multiple = point_source(well.columns.points, well.unknown), well.multiple
    if multiple is None:
        return form
    if axis is None:
        (source,) = form.point_sources
        return WeakForm(point_sources=(replace(source, sign=float(multiple[0])),))
    rates = series(axis.times[:-1], multiple[:, None], factor=well.unknown)
    return point_source(well.columns.points, rates)


def step_rates(wells: WellPoints, axis: TimeAxis) -> Float[np.ndarray, "step well"]:
    """The mean rate of each well in each step, so that volumes are right wherever rates change."""
    columns, times = wells.columns, wells.times
    assert times is not None
    result = []
    for rows, rates in wells.histories():
        x, y = columns.points[rows[0]]

        def at(row: int, rows: Rows = rows) -> str:
            return columns.at(int(rows[row]))

        what = f"the rate of the well at ({x:.10g}, {y:.10g})"
        result.append(History(what, rates, times.rows(rows), at).means(axis))
    return np.stack(result, axis=1)


def wells_content(wells: Sequence[WellPoints], tables: Sequence[WellTable]) -> bytes:
    """The wells that came from files, as a run folder keeps them: files may change, or be large."""
    lines = []
    for number, (one, table) in enumerate(zip(wells, tables, strict=True)):
        if table.file is not None:
            rows = one.columns.numbers.tolist()
            times = [""] * len(rows) if one.times is None else one.times.format()
            names = one.names or [""] * len(rows)
            whole = zip(rows, times, names, strict=True)
            lines += [[number, *row, time, name] for row, time, name in whole]
    return csv_content((ENTRY, *AXES, RATE, TIME, NAME), lines)


def load_wells(
    path: Path, kept: Path, tables: Sequence[WellTable], crs: str | None
) -> tuple[WellPoints, ...]:
    """The same again from a run folder."""
    if all(table.file is None for table in tables):
        return read_wells(path, tables, crs)
    table = read_csv(kept)
    entries = table.numbers(ENTRY)
    return tuple(
        well_of(path, number, one, crs)
        if one.file is None
        else load_well(table.select(entries == number), one)
        for number, one in enumerate(tables)
    )


def load_well(table: TextTable, own: WellTable) -> WellPoints:
    times = None if own.date is None else table.times(TIME)
    names = None if own.name is None else table.words(NAME)
    columns = numeric_columns(table, (*AXES, RATE))
    return WellPoints(columns, times=times, names=names, share=own.share)

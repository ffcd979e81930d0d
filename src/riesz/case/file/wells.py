"""The wells of a problem file: points and rates, from its own entries and from tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from pydantic import model_validator

from riesz.case.data.oddities import place_numbers
from riesz.case.data.rows import AXES, WELLS, DataRows, plain_rows, rows_at_places
from riesz.case.data.schema import CRS
from riesz.case.file.stresses import History
from riesz.case.table import FileTable, NumberOrName, parse_table
from riesz.fem.terms.series import series
from riesz.fem.terms.weakform import WeakForm, point_source
from riesz.fem.time.axis import TimeAxis
from riesz.io.store.files import csv_content
from riesz.io.tables.layers import TextTable, read_csv, read_table

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

    def unknown(self) -> str | None:
        """The unknown that is the rate of a point, if it is one."""
        return self.rate if self.file is None and isinstance(self.rate, str) else None


@dataclass(frozen=True, eq=False)
class WellPoints:
    """The wells of one entry."""

    rows: DataRows  # values are rates, which hold from the times on; sites are names
    unknown: str | None = None  # the name of the rate, where it is not known
    multiple: Float[np.ndarray, " step"] | None = None  # of an unknown rate, under a scenario
    share: str | None = None  # the unknown that rates in time are multiplied by

    @property
    def places(self) -> Float[np.ndarray, "well 2"]:
        """Where the wells are, each once where its rows have times."""
        points = self.rows.points
        return points if self.rows.times is None else np.unique(points, axis=0)

    @property
    def place_names(self) -> list[str]:
        """Of the places; empty where they have none."""
        rows = self.rows
        if rows.sites is None:
            return [""] * self.count
        if rows.times is None:
            return rows.sites
        first = np.unique(rows.points, axis=0, return_index=True)[1]
        return [rows.sites[row] for row in first]

    @property
    def count(self) -> int:
        return len(self.places)

    @property
    def rates(self) -> Float[np.ndarray, " well"]:
        """In time, the last ones."""
        return np.array([rates[-1] for _, rates in self.histories()])

    def histories(self) -> list[tuple[Rows, Float[np.ndarray, " row"]]]:
        """The rows of each well in the order of time, and its rates."""
        every, times = self.rows.values, self.rows.times
        if times is None:
            return [(np.array([row]), every[row : row + 1]) for row in range(len(every))]
        place = place_numbers(self.rows.points)
        order = np.lexsort((times.numbers, place))
        groups = np.split(order, np.flatnonzero(np.diff(place[order])) + 1)
        return [(rows, every[rows]) for rows in groups]


def read_wells(
    path: Path, tables: Sequence[WellTable], crs: str | None = None, kept: Path | None = None
) -> tuple[WellPoints, ...]:
    """The wells of a problem file, each entry's own; those of files from the folder of a run that
    `kept` them, where there is one."""
    from_files = any(table.file is not None for table in tables)
    own = None if kept is None or not from_files else read_csv(kept / WELLS)
    entries = None if own is None else own.numbers(ENTRY)
    result = []
    for number, table in enumerate(tables):
        if table.file is None:
            result.append(well_of(path, number, table, crs))
        elif own is None or entries is None:
            result.append(wells_in(path.parent, table, crs))
        else:
            named = {"date": table.date and TIME, "name": table.name and NAME}
            columns = dict.fromkeys((*AXES, RATE)) | named
            result.append(
                well_points(own.select(entries == number), table.model_copy(update=columns))
            )
    return tuple(result)


def well_of(path: Path, number: int, table: WellTable, crs: str | None) -> WellPoints:
    """The one well of an entry that is a point."""
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


def wells_in(folder: Path, table: WellTable, crs: str | None = None) -> WellPoints:
    """The wells of an entry that names a file."""
    file = folder / str(table.file)
    own = read_table(file, layer=table.layer, value=str(table.rate or RATE))
    return well_points(own, table, table.crs, crs)


def well_points(
    own: TextTable, table: WellTable, named: str | None = None, crs: str | None = None
) -> WellPoints:
    x, y, rate = (str(getattr(table, key) or key) for key in (*AXES, RATE))
    rows = rows_at_places(own, (x, y), rate, crs=named, date=table.date, site=table.name)
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
    return well_sources([wells_in(path.parent, parse_table(WellTable, content, path))])


def well_sources(wells: Sequence[WellPoints], axis: TimeAxis | None = None) -> WeakForm:
    """What all wells put in: those of known rates together, those in time, and then each of an
    unknown rate."""
    known = [one for one in wells if one.unknown is None and one.rows.times is None]
    form = WeakForm()
    for one in wells:
        if one.rows.times is not None and axis is not None:
            rates = series(axis.times[:-1], step_rates(one, axis), factor=one.share)
            form = form + point_source(one.places, rates)
    if known:
        places = np.concatenate([one.rows.points for one in known])
        form = form + point_source(places, np.concatenate([one.rates for one in known]))
    for one in wells:
        if one.unknown is not None:
            form = form + unknown_source(one, axis)
    return form


def unknown_source(well: WellPoints, axis: TimeAxis | None) -> WeakForm:
    points, multiple = well.rows.points, well.multiple
    form = point_source(points, well.unknown)
    if multiple is None:
        return form
    if axis is None:
        (source,) = form.point_sources
        return WeakForm(point_sources=(replace(source, sign=float(multiple[0])),))
    rates = series(axis.times[:-1], multiple[:, None], factor=well.unknown)
    return point_source(points, rates)


def step_rates(wells: WellPoints, axis: TimeAxis) -> Float[np.ndarray, "step well"]:
    """The mean rate of each well in each step, so that volumes are right wherever rates change."""
    every, times = wells.rows, wells.rows.times
    assert times is not None
    result = []
    for rows, rates in wells.histories():
        x, y = every.points[rows[0]]

        def at(row: int, rows: Rows = rows) -> str:
            return every.at(int(rows[row]))

        what = f"the rate of the well at ({x:.10g}, {y:.10g})"
        result.append(History(what, rates, times.rows(rows), at).means(axis))
    return np.stack(result, axis=1)


def wells_content(wells: Sequence[WellPoints], tables: Sequence[WellTable]) -> bytes:
    """The wells that came from files, as a run folder keeps them: files may change, or be large."""
    lines = []
    for number, (one, table) in enumerate(zip(wells, tables, strict=True)):
        if table.file is not None:
            rows = one.rows
            nothing = [""] * rows.num_rows
            times = nothing if rows.times is None else rows.times.format()
            columns = (*rows.points.T.tolist(), rows.values.tolist(), times, rows.sites or nothing)
            lines += [[number, *row] for row in zip(*columns, strict=True)]
    return csv_content((ENTRY, *AXES, RATE, TIME, NAME), lines)

"""Observations as a problem takes them, after joins, filters and aggregation; and their own CSV.

A run folder keeps this table: the files that it was made from may be large, or change. Every bad
number and place is told with its line.
"""

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.case.data.oddities import format_rows
from riesz.case.data.schema import ObservationsTable
from riesz.errors import FileFormatError, MeshError, error_context
from riesz.geometry.crs import project, same_crs, short_crs, unit_clash
from riesz.io.store.files import csv_content
from riesz.io.tables.dates import Times
from riesz.io.tables.layers import TextTable, read_csv
from riesz.io.tables.numbers import is_none
from riesz.mesh.location import locate
from riesz.mesh.mesh import Mesh
from riesz.notes import Note

TABLE, WELLS, RIVERS, REGIONS = "observations.csv", "wells.csv", "rivers.csv", "regions.geojson"
MEASUREMENTS, SERIES = "measurements.json", "series.csv"
"""What a run folder keeps of the files that its problem names; where there are none, no file."""

AXES, VALUE, SD, OVER = ("x", "y"), "value", "sd", "over"
CENSORED, SITE, READINGS, TIME = "censored", "site", "readings", "time"
COVARIATE = "covariate:"
"""Before the names of covariates, which might be those of other columns."""

Covariate = Float[np.ndarray, " _"] | list[str]
"""Numbers, or words that name a category."""

TO_SD = 1.4826
"""From the median distance to the median to a standard deviation, for normal readings."""

ENOUGH = 3
"""Readings from which a scatter can be told."""

PER_ROW = ("points", "values", "censored", "lines", "sd", "over", "readings", "beside")
"""Arrays with an entry for each row."""

Groups = list[Int[np.ndarray, " _"]]
"""The rows of each site."""


@dataclass(frozen=True, eq=False)
class DataRows:
    """One observation a row, in the scale of the state."""

    path: Path  # what errors name
    points: Float[np.ndarray, "row dim"]
    values: Float[np.ndarray, " row"]  # of those below a detection limit, the limit
    censored: Bool[np.ndarray, " row"]
    lines: Int[np.ndarray, " row"]  # of the first reading of each
    sd: Float[np.ndarray, " row"] | None = None
    over: Float[np.ndarray, " row"] | None = None  # exposures, or numbers of trials
    sites: list[str] | None = None
    times: Times | None = None  # when each was read, where that is of use
    readings: Int[np.ndarray, " row"] | None = None  # how many were aggregated
    covariates: Mapping[str, Covariate] = field(default_factory=dict)
    told: tuple[Note, ...] = ()  # how the rows came to be
    notes: tuple[Note, ...] = ()  # what to be aware of
    crs: str | None = None  # as it was told, or of a map layer
    place: str = "line"  # what `lines` counts
    axes: tuple[str, str] = AXES  # what the columns of places are called
    beside: Float[np.ndarray, "row column"] | None = None  # what else measurements of a kind have
    shapes: Sequence[Any] = ()  # of averages: polygons or lines, as GeoJSON

    def at(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"{self.path}, {self.place} {self.lines[row]}"

    @property
    def numbers(self) -> Float[np.ndarray, "row _"]:
        """Coordinates, and what stands beside them."""
        return self.points if self.beside is None else np.hstack([self.points, self.beside])

    def within(self, crs: str | None) -> "DataRows":
        """With places in `crs`, where it and their own are known."""
        if self.crs is None or crs is None or same_crs(self.crs, crs):
            return self
        with error_context(self.path):
            points = project(self.points, self.crs, crs)
        remark = Note("rows_projected", source=short_crs(self.crs), target=short_crs(crs))
        return replace(self, points=points, crs=crs, told=(*self.told, remark))

    @property
    def num_rows(self) -> int:
        return len(self.values)

    def rows(self, which: Int[np.ndarray, " row"], **changes: Any) -> "DataRows":
        """Some rows, by their numbers."""
        of = dict(self.__dict__)
        for name in PER_ROW:
            of[name] = None if of[name] is None else of[name][which]
        of["sites"] = None if self.sites is None else [self.sites[i] for i in which]
        of["times"] = None if self.times is None else self.times.rows(which)
        of["covariates"] = {
            name: [cells[i] for i in which] if isinstance(cells, list) else cells[which]
            for name, cells in self.covariates.items()
        }
        return DataRows(**(of | changes))


def plain_rows(
    path: Path,
    points: Float[np.ndarray, "row dim"],
    values: Float[np.ndarray, " row"] | None = None,
    **more: Any,
) -> DataRows:
    """Values, or places alone, with nothing but what is given beside them."""
    count = len(points)
    own = {"lines": np.arange(count), "censored": np.zeros(count, bool)} | more
    return DataRows(path, points, np.zeros(count) if values is None else values, **own)


def columns_of(table: TextTable, names: Sequence[str]) -> Float[np.ndarray, "row column"]:
    """Columns of numbers, side by side."""
    each = [table.numbers(name) for name in names]
    return np.array(each).reshape(len(names), table.num_rows).T.copy()


def rows_at_places(
    table: TextTable,
    axes: tuple[str, str] | tuple[()],
    value: str | None = None,
    *,
    crs: str | None = None,
    date: str | None = None,
    site: str | None = None,
    beside: Sequence[str] = (),
) -> DataRows:
    """All rows of a table, by names of columns: each with its place and what else it has."""
    return plain_rows(
        table.path,
        columns_of(table, axes),
        None if value is None else table.numbers(value),
        lines=table.lines,
        place=table.place,
        axes=axes or AXES,
        crs=crs or table.crs,
        times=None if date is None else table.times(date),
        sites=None if site is None else table.words(site),
        beside=columns_of(table, beside) if beside else None,
    )


def inside_of(mesh: Mesh, points: Float[np.ndarray, "row 2"]) -> Bool[np.ndarray, " row"]:
    return np.asarray(locate(mesh, points).inside)


def check_inside_mesh(rows: DataRows, mesh: Mesh, advice: str = "drop them") -> None:
    """Raise where places lie outside the domain, with the line of the first."""
    (outside,) = np.nonzero(~inside_of(mesh, rows.points))
    if outside.size:
        x, y = rows.points[outside[0]]
        swapped = inside_of(mesh, rows.points[outside][:, ::-1])
        if swapped.mean() > 0.5 and outside.size > 0.5 * len(rows.points):
            advice = f"swap them, {rows.axes[0]} and {rows.axes[1]}: then they lie inside"
        low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
        clash = unit_clash(rows.points, mesh.nodes)
        raise MeshError(
            f"{rows.path}: {outside.size} of {len(rows.points)} points lie outside the "
            f"domain, first {rows.place} {rows.lines[outside[0]]} at ({x:.10g}, {y:.10g}); "
            f"the domain spans ({low[0]:.6g}, {low[1]:.6g}) to ({high[0]:.6g}, {high[1]:.6g}): "
            f"{clash or f'{advice}, or see that both are in the same coordinates'}."
        )


def data_rows_content(prepared: DataRows) -> bytes:
    """The table as a CSV file; numbers with all their digits."""
    columns: dict[str, Any] = {
        AXES[0]: prepared.points[:, 0],
        AXES[1]: prepared.points[:, 1],
        VALUE: prepared.values,
        SD: prepared.sd,
        OVER: prepared.over,
        CENSORED: prepared.censored.astype(int) if prepared.censored.any() else None,
        SITE: prepared.sites,
        TIME: None if prepared.times is None else prepared.times.format(),
        READINGS: prepared.readings,
    }
    columns |= {COVARIATE + name: cells for name, cells in prepared.covariates.items()}
    given = {name: cells for name, cells in columns.items() if cells is not None}
    lists = (cells if isinstance(cells, list) else cells.tolist() for cells in given.values())
    return csv_content(given, zip(*lists, strict=True))


def entries_content(header: Sequence[str], entries: Mapping[Any, DataRows]) -> bytes:
    """Rows of several entries of a problem file as one CSV file; nothing where there are none.

    The first column tells the entry of a row; of places, what stands beside them, values, times and
    sites there are as many as the header names.
    """
    lines = []
    for entry, rows in entries.items():
        nothing = [""] * rows.num_rows
        times = nothing if rows.times is None else rows.times.format()
        columns = (*rows.numbers.T.tolist(), rows.values.tolist(), times, rows.sites or nothing)
        own = zip(*columns[: len(header) - 1], strict=True)
        lines += [[entry, *row] for row in own]
    return csv_content(header, lines) if entries else b""


def entry_table(path: Path, entry: int | str) -> TextTable:
    """The rows of one entry."""
    table = read_csv(path)
    return table.select(np.array([cell == str(entry) for cell in table.cells(table.header[0])]))


def read_data_rows(path: Path, names: ObservationsTable) -> DataRows:
    """The table of a run folder."""
    table = read_csv(path)
    # Runs of older versions hold the file that was named, which could be nothing but rows to take.
    own = (*AXES, VALUE) if {*AXES, VALUE} <= {*table.header} else (names.x, names.y, names.value)
    flags = table.numbers(CENSORED) if CENSORED in table.header else np.zeros(table.num_rows)
    has_sd = names.sd is not None or names.sd_from_scatter
    aggregated = names.aggregate is not None
    return DataRows(
        path=path,
        points=columns_of(table, own[:2]),
        values=table.numbers(own[2]),
        censored=flags != 0,
        lines=table.lines,
        sd=table.numbers(SD) if has_sd else None,
        over=None if names.over is None else table.numbers(OVER),
        sites=[cell or "" for cell in table.cells(SITE)] if names.site is not None else None,
        times=table.times(TIME) if TIME in table.header else None,
        readings=table.numbers(READINGS).astype(int) if aggregated else None,
        covariates={name: covariate_in(table, COVARIATE + name) for name in names.covariates},
        told=(Note("rows_of_file", count=table.num_rows, file=path.name),),
    )


def covariate_in(table: TextTable, name: str) -> Covariate:
    """Numbers where all cells are, words where none is; raises where they are mixed or missing."""
    cells = table.cells(name)
    words = np.isnan(table.floats(name)).all()
    missing = [row for row, cell in enumerate(cells) if (not cell if words else is_none(cell))]
    if missing:
        raise FileFormatError(
            f"{table.at(missing[0])}: the covariate {name} is missing ({len(missing)} of "
            f"{len(cells)} rows are like that): filter them out by where, or fill them."
        )
    return [str(cell) for cell in cells] if words else table.numbers(name)


def aggregate(
    readings: DataRows,
    sites: list[str],
    how: str,
    dates: list[datetime.date | None] | None,
    floor: float | None,
) -> DataRows:
    """The median, the mean or the last reading of each site.

    With `floor`, a standard deviation that is not exceeded from below, each site's noise is the
    scatter of its readings.
    """
    groups = rows_by_site(sites)
    if how == "mean" and readings.censored.any():
        row = int(np.argmax(readings.censored))
        raise FileFormatError(
            f"{readings.at(row)}: a mean of readings below a detection "
            "limit is not known: use aggregate = 'median'."
        )
    one = readings.rows(np.array([rows[0] for rows in groups]))
    last = [latest(rows, dates) for rows in groups] if how == "last" else None
    middle = np.mean if how == "mean" else np.median
    values = [float(middle(readings.values[rows])) for rows in groups]
    # The median lies among the readings below the limit where these are half of all or more.
    censored = [bool(np.mean(readings.censored[rows]) >= 0.5) for rows in groups]
    if last is not None:
        values = readings.values[last].tolist()
        censored = readings.censored[last].tolist()
    counts = np.array([len(rows) for rows in groups])
    sd = None if readings.sd is None else [np.median(readings.sd[rows]) for rows in groups]
    if floor is not None:
        sd = scatter(readings.values, groups, floor)
    points = [np.median(readings.points[rows], axis=0) for rows in groups]
    spread = {"fewest": counts.min(), "most": counts.max(), "count": len(groups)}
    remark = Note("aggregated", how=how, **spread)
    return one.rows(
        np.arange(len(groups)),
        values=np.array(values),
        censored=np.array(censored),
        points=np.array(points),
        sd=None if sd is None else np.array(sd),
        readings=counts,
        covariates={name: per_site(cells, groups) for name, cells in readings.covariates.items()},
        told=(*readings.told, remark),
        notes=(*readings.notes, *moving_site_notes(readings, groups)),
    )


def rows_by_site(sites: list[str]) -> Groups:
    """In the order in which sites appear first."""
    rows: dict[str, list[int]] = {}
    for row, site in enumerate(sites):
        rows.setdefault(site, []).append(row)
    return [np.array(own) for own in rows.values()]


def latest(rows: Int[np.ndarray, " reading"], dates: list[datetime.date | None] | None) -> int:
    assert dates is not None  # the table was validated
    return int(max(rows, key=lambda row: (dates[row] or datetime.date.min, row)))


def scatter(
    values: Float[np.ndarray, " row"], groups: Groups, floor: float
) -> Float[np.ndarray, " site"]:
    """A robust standard deviation of each site; that of a typical one where readings are few."""
    own = np.array(
        [
            TO_SD * np.median(np.abs(values[rows] - np.median(values[rows])))
            if len(rows) >= ENOUGH
            else np.nan
            for rows in groups
        ]
    )
    typical = np.nanmedian(own) if np.isfinite(own).any() else floor
    return np.maximum(np.where(np.isnan(own), typical, own), floor)


def per_site(cells: Covariate, groups: Groups) -> Covariate:
    """The median of numbers, the most frequent word."""
    if isinstance(cells, list):
        return [Counter(cells[i] for i in rows).most_common(1)[0][0] for rows in groups]
    return np.array([np.median(cells[rows]) for rows in groups])


def moving_site_notes(readings: DataRows, groups: Groups) -> list[Note]:
    """Sites whose readings are at several places."""
    spans = [np.ptp(readings.points[rows], axis=0).max() for rows in groups]
    several = sum(span > 0 for span in spans)
    return [Note("moving_sites", count=several, distance=max(spans))] if several else []


def drop_outside(prepared: DataRows, coarse: Mesh, names: ObservationsTable) -> DataRows:
    """The observations inside the domain; raises where others are not to be dropped."""
    inside = inside_of(coarse, prepared.points)
    if names.outside == "refuse" or not inside.any():
        check_inside_mesh(prepared, coarse, "drop them by observations.outside = 'drop'")
    if inside.all():
        return prepared
    which = format_rows(np.flatnonzero(~inside).tolist(), prepared.lines, prepared.sites)
    counts = {"count": int((~inside).sum()), "total": prepared.num_rows}
    note = Note("outside_dropped", file=prepared.path.name, **counts, which=which)
    told = (*prepared.told, Note("rows_outside", **counts))
    return prepared.rows(np.flatnonzero(inside), told=told, notes=(*prepared.notes, note))

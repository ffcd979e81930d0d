"""From the table [observations] to observations: rows are chosen, joined, read and aggregated."""

import dataclasses
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.case.data.oddities import format_rows, outlier_notes, place_numbers, swap_notes
from riesz.case.data.rows import DataRows, aggregate, columns_of, covariate_in
from riesz.case.data.schema import Filter, ObservationsTable
from riesz.case.table import parse_table
from riesz.errors import FileFormatError
from riesz.io.maps.raster import raster_values
from riesz.io.tables.dates import days_in
from riesz.io.tables.layers import TextTable, read_table
from riesz.io.tables.numbers import BELOW, is_none, number_in, number_or_limit
from riesz.notes import Note

Numbers = Float[np.ndarray, " row"]

AS_FLOAT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+|\d{5,}\.0*")
"""A long number that went through a spreadsheet: digits may be gone."""


def prepare_data(
    folder: Path,
    names: ObservationsTable,
    floor: float | None,
    crs: str | None = None,
    *,
    timed: bool = False,
    table: TextTable | None = None,
) -> DataRows:
    """All that the table asks for; `floor` is the least noise sd where it comes from scatter.

    Places are in the problem's `crs` where nothing says another one. Where readings are `timed`,
    each needs its time, which is read in one way only. `table` is the file, where that was read.
    """
    if table is None:
        table = read_table(folder / names.file, layer=names.layer, value=names.value)
    remarks = [Note("rows_of_file", count=table.num_rows, file=names.file)]
    ranges = [name for name, wanted in names.where.items() if isinstance(wanted, dict)]
    dropped = [note for name in ranges for note in words_for_numbers(table, name)]
    table, more = filter_rows(table, names.where, "where")
    remarks += more
    if names.date is not None and not (timed and names.from_ is None and names.to is None):
        table, more = in_window(table, names.date, names.from_, names.to)
        remarks += more
    table, points, more = locate_rows(folder, table, names)
    values = table.numbers(names.value, limits=True)
    censored = np.array([(cell or "").startswith(BELOW) for cell in table.cells(names.value)])
    if censored.any():
        more = [*more, Note("below_limit", count=censored.sum(), total=len(values))]
    readings = DataRows(
        path=table.path,
        points=points,
        values=values,
        censored=censored,
        lines=table.lines,
        place=table.place,
        axes=(names.x, names.y),
        sd=positive_numbers(table, names.sd, "but a noise sd must be positive"),
        over=positive_numbers(table, names.over, "but what values were counted over is positive"),
        sites=None if names.site is None else identifiers(table, names.site),
        times=table.times(names.date) if timed and names.date is not None else None,
        covariates={
            name: raster_values(folder / names.rasters[name], points, names.crs or table.crs or crs)
            if name in names.rasters and name not in table.header
            else covariate_in(table, name)
            for name in names.covariates
        },
        told=(*remarks, *more),
        crs=names.crs or table.crs,
    )
    if names.transform == "log":
        readings = as_logarithms(readings, names.value)
    if names.aggregate is not None:
        sites = readings.sites or place_numbers(points).astype(str).tolist()
        dates = None if names.aggregate != "last" else dates_of(table, str(names.date))
        least = floor if names.sd_from_scatter else None
        result = aggregate(readings, sites, names.aggregate, dates, least)
        readings = result if names.site is not None else dataclasses.replace(result, sites=None)
    notes = (*dropped, *readings.notes, *odd_numbers(readings, names))
    return dataclasses.replace(readings, notes=notes)


def read_observations(
    path: Path | str,
    *,
    x: str = "x",
    y: str = "y",
    value: str = "value",
    layer: str | None = None,
    where: Mapping[str, Any] | None = None,
    date: str | None = None,
    from_: datetime.date | str | None = None,
    to: datetime.date | str | None = None,
    site: str | None = None,
    sites: Path | str | None = None,
    sites_where: Mapping[str, Any] | None = None,
    aggregate: str | None = None,
    sd: str | None = None,
    least_sd: float | None = None,
    transform: str | None = None,
    covariates: Sequence[str] = (),
) -> DataRows:
    """Observations from a table, as the keys of `[observations]` in a problem file have them.

    Rows are chosen (`where`, dates), joined with the table of their `sites`, read and aggregated.
    Without `site`, readings at the same place are aggregated. With `least_sd` the noise of a site
    is the scatter of its readings, or that if it is less.
    `found.points` and `found.values` go to `rz.observations`, `found.sd` to a likelihood, and
    `found.censored` to `rz.Censored`.
    """
    path = Path(path)
    given = {
        "layer": layer,
        "date": date,
        "from": from_,
        "to": to,
        "site": site,
        "sd": sd,
        "where": where,
        "sites_where": sites_where,
        "aggregate": aggregate,
        "sites": None if sites is None else str(Path(sites).absolute()),
        "transform": transform,
    }
    content = {"file": path.name, "x": x, "y": y, "value": value, "covariates": list(covariates)}
    content |= {key: one for key, one in given.items() if one is not None}
    content |= {} if least_sd is None else {"sd_from_scatter": True}
    return prepare_data(path.parent, parse_table(ObservationsTable, content, path), least_sd)


def locate_rows(
    folder: Path, table: TextTable, names: ObservationsTable
) -> tuple[TextTable, Float[np.ndarray, "row 2"], list[Note]]:
    """Places from the rows themselves, or from the table of sites."""
    axes = (names.x, names.y)
    if names.sites is None:
        return table, columns_of(table, axes), []
    sites = read_table(folder / names.sites, value=names.x)
    sites, remarks = filter_rows(sites, names.sites_where, "sites_where", names.sites)
    rows, points, more = join_sites(table, sites, str(names.site), axes)
    rows = rows if rows.crs is not None else dataclasses.replace(rows, crs=sites.crs)
    return rows, points, [*remarks, *more]


def odd_numbers(read: DataRows, names: ObservationsTable) -> list[Note]:
    """What is odd about places and values, as they are written."""
    points, values = read.points, np.exp(read.values) if names.transform else read.values
    columns = {names.x: points[:, 0], names.y: points[:, 1], names.value: values}
    notes = swap_notes(names.x, names.y)
    notes += outlier_notes(columns, lambda row: f"{read.path.name}, {read.place} {read.lines[row]}")
    if len(values) > 1 and np.ptp(values) == 0:
        notes.append(Note("same_values", column=names.value, value=values[0]))
    return notes


def words_for_numbers(table: TextTable, name: str) -> list[Note]:
    """Cells of a column of numbers that hold something else, such as `dry` or `4.2 m`."""
    cells = [cell or "" for cell in table.cells(name)]
    filled = [not is_none(cell) for cell in cells]
    rows = np.flatnonzero(filled & np.isnan(table.floats(name, limits=True))).tolist()
    if not rows:
        return []
    which = format_rows(rows, table.lines, [repr(cell) for cell in cells])
    return [Note("no_number", file=table.path.name, column=name, which=which)]


def positive_numbers(table: TextTable, name: str | None, needs: str) -> Numbers | None:
    """A column, if one is named."""
    if name is None:
        return None
    numbers = table.numbers(name)
    check_above_zero(table.at, name, numbers, needs)
    return numbers


def as_logarithms(rows: DataRows, name: str) -> DataRows:
    """The same where the state is the natural logarithm of what was measured."""
    needs = "and transform = 'log' needs positive values"
    advice = ": write values below a detection limit as <LIMIT, or leave the transform out"
    check_above_zero(rows.at, name, rows.values, needs, advice)
    return dataclasses.replace(rows, values=np.log(rows.values))


def check_above_zero(
    at: Callable[[int], str], name: str, values: Numbers, needs: str, advice: str = ""
) -> None:
    (bad,) = np.nonzero(~(values > 0))
    if bad.size:
        raise FileFormatError(
            f"{at(int(bad[0]))}: {name} is {values[bad[0]]:g}, {needs} ({bad.size} of "
            f"{len(values)} rows are like that){advice}."
        )


def filter_rows(
    table: TextTable, where: Mapping[str, Filter], key: str, file: str = ""
) -> tuple[TextTable, list[Note]]:
    """The rows that pass every filter; raises where one leaves nothing.

    Notes name the file where it is given.
    """
    remarks = []
    for name, wanted in where.items():
        cells = table.cells(name)
        passed = np.array([passes(cell or "", wanted) for cell in cells])
        if not passed.any():
            held = sorted({cell or "" for cell in cells})
            some = ", ".join(map(repr, held[:6])) + (", ..." if len(held) > 6 else "")
            raise FileFormatError(
                f"{table.path}: {key} = {{ {name} = {format_filter(wanted)} }} leaves none of "
                f"{len(cells)} rows: {name} holds {some}."
            )
        shares = {"wanted": format_filter(wanted), "count": passed.sum(), "total": len(cells)}
        remarks.append(Note("rows_filtered", column=name, **shares, file=file))
        table = table.select(passed)
    return table, remarks


def passes(cell: str, wanted: Filter) -> bool:
    if isinstance(wanted, list):
        return any(passes(cell, one) for one in wanted)
    if isinstance(wanted, dict):
        number = number_or_limit(cell)  # NaN is within no range
        return wanted.get("min", -np.inf) <= number <= wanted.get("max", np.inf)
    if isinstance(wanted, bool):
        return cell.lower() == str(wanted).lower()
    if isinstance(wanted, str):
        return cell == wanted
    return number_in(cell) == wanted


def format_filter(wanted: Filter) -> str:
    if isinstance(wanted, dict):
        return " and ".join(f"{key} {bound:g}" for key, bound in wanted.items())
    if isinstance(wanted, list):
        return " or ".join(map(format_filter, wanted))
    return repr(wanted)


def in_window(
    table: TextTable, name: str, first: datetime.date | None, last: datetime.date | None
) -> tuple[TextTable, list[Note]]:
    """The rows with a date in the window, both ends included; empty dates are in none."""
    dates = dates_of(table, name)
    if first is None and last is None:
        return table, []
    low, high = first or datetime.date.min, last or datetime.date.max
    inside = np.array([date is not None and low <= date <= high for date in dates])
    window = f"from {first or 'the first'} to {last or 'the last'}"
    if not inside.any():
        known = [date for date in dates if date is not None]
        result = f"they go from {min(known)} to {max(known)}" if known else "all are empty"
        raise FileFormatError(f"{table.path}: no row has a {name} {window}: {result}.")
    shares = {"count": inside.sum(), "total": len(dates), "undated": dates.count(None)}
    return table.select(inside), [Note("rows_in_window", column=name, window=window, **shares)]


def dates_of(table: TextTable, name: str) -> list[datetime.date | None]:
    """The day of each row; a time of the day may follow."""
    cells = table.cells(name)
    days = days_in(cells)
    for row, (cell, day) in enumerate(zip(cells, days.found, strict=True)):
        if day is None and not is_none(cell):
            raise FileFormatError(
                f"{table.at(row)}: {name} is {cell!r}: give a date such as 1960-01-31"
                f"{days.order and f' ({days.order} in this column)'}, or filter such rows out by "
                "where."
            )
    return days.found


def identifiers(table: TextTable, name: str) -> list[str]:
    """The site of each row, as text; raises where one is empty or was once a floating number."""
    cells = table.cells(name)
    for row, cell in enumerate(cells):
        if not cell:
            raise FileFormatError(
                f"{table.at(row)}: {name} is empty: every reading needs its site; filter such "
                "rows out by where."
            )
        if AS_FLOAT.fullmatch(cell):
            raise FileFormatError(
                f"{table.at(row)}: {name} is {cell!r}, an identifier that was saved as a floating "
                "number and may have lost digits: export it as text."
            )
    return [str(cell) for cell in cells]


def coordinates_of_sites(
    sites: TextTable, name: str, axes: tuple[str, str]
) -> dict[str, tuple[float, float]]:
    """Where each site is; raises where one has two places."""
    result: dict[str, tuple[float, float]] = {}
    x, y = (sites.numbers(axis).tolist() for axis in axes)
    for row, (own, *place) in enumerate(zip(identifiers(sites, name), x, y, strict=True)):
        if result.setdefault(own, (place[0], place[1])) != (place[0], place[1]):
            raise FileFormatError(
                f"{sites.at(row)}: the site {own!r} is there twice, at {result[own]} and at "
                f"{tuple(place)}: keep one."
            )
    return result


def join_sites(
    readings: TextTable, sites: TextTable, name: str, axes: tuple[str, str]
) -> tuple[TextTable, Float[np.ndarray, "row 2"], list[Note]]:
    """The readings whose site is known, their places, and what was left out."""
    places = coordinates_of_sites(sites, name, axes)
    own = identifiers(readings, name)
    known: Bool[np.ndarray, " row"] = np.array([one in places for one in own])
    if not known.any():
        raise FileFormatError(
            f"{readings.path}: none of its sites, such as {own[0]!r}, is in {sites.path}, which "
            f"has such as {next(iter(places))!r}: see that both write {name} alike."
        )
    points = np.array([places[one] for one in own if one in places])
    lost = [one for one in own if one not in places]
    remarks = []
    if lost:
        counts = {"count": len(lost), "sites": len({*lost}), "example": min(lost)}
        remarks.append(Note("unknown_sites", **counts, file=sites.path.name))
    return readings.select(known), points, remarks

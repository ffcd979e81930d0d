"""The measurements that a first problem file is about."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.case.data.oddities import format_rows, stand_ins
from riesz.case.data.read import filter_rows, prepare_data
from riesz.case.data.rows import DataRows
from riesz.case.data.schema import ObservationsTable
from riesz.case.options import InitOptions
from riesz.case.start import columns
from riesz.case.start.coordinates import Systems, boxes_of, systems_of
from riesz.case.start.lines import Dates, dates_in, fill_template, relative
from riesz.case.table import parse_table
from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import unit_clash
from riesz.geometry.outline import Outline, contains
from riesz.io.maps.outlines import OutlineFile
from riesz.io.tables.layers import TextTable, read_table
from riesz.notes import Note

Numbers = Float[np.ndarray, " row"]
Flags = Bool[np.ndarray, " row"]

Ranges = Mapping[str, Mapping[str, float]]
"""Bounds of columns, by name."""

TEMPLATE = "observations.txt"
"""Of [observations]."""

LARGEST = 1e30
"""No measurement is larger, but numbers that programs write for none are."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """What a fit will read, in the scale of the state and the coordinates of the problem."""

    rows: DataRows
    systems: Systems
    file: OutlineFile | None
    lines: str  # of [observations], each with its end
    dates: Dates | None
    notes: tuple[Note, ...]  # what was guessed, and how many rows there are


def read_measured_rows(
    table_path: Path, file: OutlineFile | None, folder: Path, asked: InitOptions
) -> MeasuredRows:
    """The rows that have a place, inside the outline, and a value."""
    if asked.sites_where and asked.sites is None:
        raise RieszError("--sites-where is for --sites: name the table of sites, or use --where.")
    raw = read_table(table_path, layer=asked.layer, value=asked.value or "value")
    notes = [Note("table_form", form=", ".join(raw.told))] if raw.told else []
    table, remarks = filter_rows(raw, asked.where, "--where")
    sites = every = None
    if asked.sites is not None:
        every = read_table(Path(asked.sites), value=asked.x or "x")
        sites, more = filter_rows(every, asked.sites_where, "--sites-where")
        remarks = [*remarks, *more]
    own = asked.crs or table.crs or (None if every is None else every.crs)
    names = columns.guess_columns(
        table,
        sites or table,
        x=asked.x,
        y=asked.y,
        value=asked.value,
        boxes=boxes_of(file, own),
    )
    check_covariate_names(table, names, asked)
    site = find_site(table, every, names, asked)
    beside = [name for name in asked.covariates if columns.is_numeric(table, name)]
    numeric = (names.value, *beside, *((names.x, names.y) if sites is None else ()))
    ranges, good, odd = number_ranges(table, numeric)
    if not good:
        raise FileFormatError(
            f"{table.path}: no row has numbers in all of {names.x}, {names.y} and {names.value}: "
            "name other columns by --x, --y and --value."
        )
    known = {
        "file": relative(table_path, folder),
        "layer": asked.layer,
        "sites": asked.sites and relative(Path(asked.sites), folder),
        "site": site,
        "x": names.x,
        "y": names.y,
        "value": names.value,
        "where": {**asked.where, **ranges} or None,
        "no_empty": ", no empty cells" if ranges else "",
        "sites_where": asked.sites_where or None,
        "covariates": list(asked.covariates) or None,
    }
    rows = read_as_fit(fill_template(TEMPLATE, known), folder, raw)
    systems = systems_of(
        raw.path,
        rows.axes,
        rows.points,
        own,
        file,
        named_degrees=re.fullmatch(columns.DEGREES, columns.bare(names.x)) is not None,
    )
    rows = replace(rows, crs=systems.table).within(systems.problem)
    file = None if file is None else systems.of_outline(file)
    outline = None if file is None else file.outline
    inside = is_inside(rows, outline)
    check_inside_outline(rows, inside, outline)
    within = rows.rows(np.flatnonzero(inside))
    check_any_value(within, names, outline)
    positive = usable_covariates(within, names, asked)
    dates = dates_in(table.select(np.isin(table.lines, within.lines)))
    check_dated(asked, table, dates, site)
    repeated = site is not None or len(np.unique(within.points, axis=0)) < within.num_rows
    known |= {
        "aggregate": repeated and not asked.in_time,
        "one": "site" if site else "place",
        "crs": systems.table if systems.moves(systems.table) else None,
        "any_outside": not inside.all(),
        "unit": columns.unit_of(names.value),
        "log": asked.log,
        "log_covariates": (asked.log and positive) or None,
    }
    text = fill_template(TEMPLATE, known | date_values(asked, dates))
    result = read_as_fit(text, folder, raw, systems.problem)
    counts = {"count": within.num_rows, "total": table.num_rows, "homeless": good - rows.num_rows}
    left_out = {"empty": table.num_rows - good, "outside": rows.num_rows - within.num_rows}
    notes += [*names.why, *systems.notes, *remarks, *odd, Note("rows_taken", **counts, **left_out)]
    notes += outside_notes(table.select(np.isin(table.lines, rows.lines[~inside])), site)
    notes += [*date_notes(asked, dates), *result.notes]
    remark = next((one for one in result.told if one.code == "aggregated"), None)
    if remark is not None:
        notes.append(Note("sites_joined", remark=remark, column=site or "their coordinates"))
    kept = result.within(systems.problem)
    kept = kept.rows(np.flatnonzero(is_inside(kept, outline)))
    return MeasuredRows(kept, systems, file, text, dates, tuple(notes))


def date_values(asked: InitOptions, dates: Dates | None) -> dict[str, Any]:
    """For whoever wants to choose; in time, dates are needed."""
    if dates is None:
        return {}
    order = f"; read {dates.order}" if dates.order else ""
    if asked.in_time:
        return {"date": dates.column, "order": order}
    return {"a_date": dates.column, "first": dates.first, "last": dates.last, "order": order}


def date_notes(asked: InitOptions, dates: Dates | None) -> list[Note]:
    if dates is None or dates.first == dates.last:
        return []
    return [Note("dates_in_time" if asked.in_time else "dates_together", **dates.values())]


def check_dated(
    asked: InitOptions, table: TextTable, dates: Dates | None, site: str | None
) -> None:
    """Raise where readings cannot be those of a model in time, if one is asked for."""
    if not asked.in_time:
        return
    if dates is None or dates.first == dates.last:
        raise FileFormatError(
            f"{table.path}: a model in time needs a column of dates, such as 1990-01-15, that is "
            f"called so; there are {', '.join(table.header)}: leave --recharge and --wells out for "
            "a map of all readings together."
        )
    if site is None:
        raise FileFormatError(
            f"{table.path}: a model in time needs to know which readings are of one site: name "
            f"that column, of {', '.join(table.header)}, by --site."
        )


def read_as_fit(text: str, folder: Path, raw: TextTable, crs: str | None = None) -> DataRows:
    """The observations as a fit will read them, by the lines of [observations]."""
    names = parse_table(ObservationsTable, tomllib.loads(text), raw.path)
    return prepare_data(folder, names, None, crs, table=raw)


def is_inside(rows: DataRows, outline: Outline | None) -> Flags:
    return np.ones(rows.num_rows, bool) if outline is None else contains(outline, rows.points)


def find_site(
    table: TextTable, sites: TextTable | None, names: columns.Guess, asked: InitOptions
) -> str | None:
    """The column that tells which readings are of one site, where there are several of one."""
    if asked.site is not None or sites is not None:
        return asked.site or common_column(table, sites or table)
    likely = columns.columns_of_place(table, (names.x, names.y))
    return next((n for n in likely if n not in (names.value, *asked.covariates)), None)


def number_ranges(table: TextTable, names: Sequence[str]) -> tuple[Ranges, int, list[Note]]:
    """Ranges of columns that some cells have no number in, how many rows are within all of them,
    and what was taken for no number."""
    ranges, good, notes = {}, np.ones(table.num_rows, bool), []
    for name in names:
        numbers = table.floats(name, limits=True)
        odd = stand_ins(numbers)
        if odd.any():
            kinds = " or ".join(f"{one:g}" for one in np.unique(numbers[odd]))
            notes.append(Note("cells_emptied", column=name, count=odd.sum(), numbers=kinds))
        values = np.where(odd, np.nan, numbers)
        is_value = np.isfinite(values)
        if not is_value.all() and is_value.any():
            ranges[name] = {"min": below_all(values)}
            if np.nanmax(numbers) > np.nanmax(values):  # a stand-in, which is in no range then
                ranges[name]["max"] = -below_all(-values)
        good &= is_value
    return ranges, int(good.sum()), notes


def below_all(values: Numbers) -> float:
    """A whole number that none of them is below."""
    lowest = float(np.nanmin(values))
    return float(math.floor(lowest - abs(lowest) / 1000))


def check_inside_outline(rows: DataRows, inside: Flags, outline: Outline | None) -> None:
    """Raise where the polygon holds none of the places."""
    if outline is not None and not inside.any():
        (x, y), places = rows.axes, rows.points
        advice = "name the coordinates of both by --crs and --polygon-crs, or name other columns"
        if contains(outline, places[:, ::-1]).mean() > columns.MOSTLY:
            advice = f"they are when swapped: --x {y} --y {x}"
        raise FileFormatError(
            f"{rows.path}: none of {len(places)} rows has its place, in {x} and {y}, inside the "
            f"polygon: {unit_clash(places, np.concatenate(outline.rings)) or advice}."
        )


def check_any_value(rows: DataRows, names: columns.Guess, outline: Outline | None) -> None:
    """Raise where there is nothing to infer from, or what is no measurement."""
    values = rows.values
    if not len(np.unique(values)) > 1:
        raise FileFormatError(
            f"{rows.path}: {len(values)} rows have coordinates in {names.x} and {names.y}"
            f"{'' if outline is None else ' inside the polygon'} and a number in {names.value}, "
            "and their values do not differ: name other columns by --x, --y and --value."
        )
    row = int(np.argmax(np.abs(values)))
    if not abs(values[row]) < LARGEST:
        raise FileFormatError(
            f"{rows.at(row)}: {names.value} is {values[row]:g}: if that stands for no value, "
            "leave the cell empty."
        )


def common_column(table: TextTable, sites: TextTable) -> str:
    """The first column of both tables that tells sites apart, and holds most of the readings'."""
    shared = [name for name in table.header if name and name in sites.header]
    for name in shared:
        known = set(sites.cells(name))
        if len(known) > columns.MOSTLY * sites.num_rows and (
            np.mean([cell in known for cell in table.cells(name)]) > columns.MOSTLY
        ):
            return name
    result = f"of {', '.join(shared)}, which both have, none holds" if shared else "none holds"
    raise FileFormatError(
        f"{table.path} and {sites.path}: no column tells which site a reading is of ({result} the "
        "same identifiers in both): name it by --site, and call it the same in both."
    )


def check_covariate_names(table: TextTable, names: columns.Guess, asked: InitOptions) -> None:
    """Raise where what was asked for is no covariate."""
    for name in asked.covariates:
        if asked.covariates.count(name) > 1:
            raise RieszError(f"--covariates names {name} twice: name it once.")
        table.column_index(name)
        if name in (names.x, names.y, names.value):
            raise RieszError(f"--covariates names {name}, which is a coordinate or the value.")


def usable_covariates(rows: DataRows, names: columns.Guess, asked: InitOptions) -> list[str]:
    """Those that are positive numbers; raises where what was asked for cannot be had."""
    positive = []
    for name, cells in rows.covariates.items():
        if len(every := {*(cells if isinstance(cells, list) else cells.tolist())}) == 1:
            raise FileFormatError(
                f"{rows.path}: the covariate {name} is {every.pop()!r} in all {len(cells)} rows, "
                "so that it can have no effect: leave it out of --covariates."
            )
        positive += [] if isinstance(cells, list) or not (cells > 0).all() else [name]
    if asked.log and not (rows.values > 0).all():
        row = int(np.argmin(rows.values))
        raise FileFormatError(
            f"{rows.at(row)}: {names.value} is {rows.values[row]:g}: --log needs positive values."
        )
    return positive


def outside_notes(table: TextTable, site: str | None) -> list[Note]:
    """Which rows are left out, by the lines and by what most likely names them."""
    if not table.num_rows:
        return []
    words = [name for name in table.header if name and not columns.is_numeric(table, name)]
    of = next((table.cells(name) for name in (site, *words) if name is not None), None)
    cells = None if of is None else [cell or "" for cell in of]
    return [Note("rows_left_out", which=format_rows(range(table.num_rows), table.lines, cells))]

"""The measurements that a first problem file is about."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from riesz.case.data.oddities import format_rows, stand_ins
from riesz.case.data.read import filter_rows, join_sites, prepare_data
from riesz.case.data.rows import DataRows, covariate_in
from riesz.case.data.schema import ObservationsTable
from riesz.case.options import InitOptions
from riesz.case.start.columns import (
    DEGREES,
    MOSTLY,
    Guess,
    bare,
    columns_of_place,
    guess_columns,
    is_numeric,
    unit_of,
)
from riesz.case.start.coordinates import Systems, boxes_of, systems_of
from riesz.case.start.lines import (
    Dates,
    crs_line,
    date_lines,
    date_notes,
    dates_in,
    option_lines,
    quote,
    relative,
    row_lines,
    site_lines,
)
from riesz.case.table import parse_table
from riesz.errors import FileFormatError, RieszError, error_context
from riesz.geometry.crs import unit_clash
from riesz.geometry.outline import Outline, contains
from riesz.io.maps.outlines import OutlineFile
from riesz.io.tables.layers import TextTable, column_index, read_table
from riesz.io.tables.numbers import number_or_limit

Numbers = Float[np.ndarray, " row"]
Flags = Bool[np.ndarray, " row"]

LARGEST = 1e30
"""No measurement is larger, but numbers that programs write for none are."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """One observation a row, in the scale of the state."""

    points: Float[np.ndarray, "row 2"]
    values: Numbers
    num_limits: int  # that the true values are below
    systems: Systems
    file: OutlineFile | None  # in the coordinates of the problem
    lines: str  # of [observations], each with its end
    dates: Dates | None
    sites: list[str] | None  # of the rows
    notes: tuple[str, ...]  # what was guessed, and how many rows there are


def read_measured_rows(
    table_path: Path, file: OutlineFile | None, folder: Path, asked: InitOptions
) -> MeasuredRows:
    """The rows that have a place, inside the outline, and a value."""
    if asked.sites_where and asked.sites is None:
        raise RieszError("--sites-where is for --sites: name the table of sites, or use --where.")
    table = read_table(table_path, layer=asked.layer, value=asked.value or "value")
    written = [f"table: {', '.join(table.told)}"] if table.told else []
    table, remarks = filter_rows(table, asked.where, "--where")
    sites = every = None
    if asked.sites is not None:
        every = read_table(Path(asked.sites), value=asked.x or "x")
        sites, more = filter_rows(every, asked.sites_where, "--sites-where")
        remarks = [*remarks, *more]
    own = asked.crs or table.crs or (None if every is None else every.crs)
    boxes = boxes_of(file, own)
    names = guess_columns(
        table, sites or table, x=asked.x, y=asked.y, value=asked.value, boxes=boxes
    )
    site = find_site(table, every, names, asked)
    total, axes, places = table.num_rows, (names.x, names.y), None
    if sites is not None:
        table, places, _ = join_sites(table, sites, str(site), axes)
    beside = [name for name in asked.covariates if is_numeric(table, name)]
    own_columns = (names.value, *beside, *(axes if places is None else ()))
    raw = {name: cells_of(table, name) for name in own_columns}
    columns, odd = without_stand_ins(raw)
    if places is None:
        places = np.column_stack([columns[axis] for axis in axes])
    values = columns[names.value]
    numbers = np.column_stack([places, *columns.values()])
    good = np.asarray(np.isfinite(numbers).all(axis=1))
    check_coordinates(table, good, names)
    systems = systems_of(
        table.path,
        axes,
        places[good],
        own,
        file,
        named_degrees=re.fullmatch(DEGREES, bare(names.x)) is not None,
    )
    located = np.full_like(places, np.nan)
    with error_context(table.path):
        located[good] = systems.of_table(places[good])
    file = None if file is None else systems.of_outline(file)
    outline = None if file is None else file.outline
    inside = good if outline is None else contains(outline, np.nan_to_num(located)) & good
    check_inside_outline(table, located[good], inside, names, outline)
    check_any_value(table.select(inside), values[inside], names, outline)
    positive = usable_covariates(table.select(inside), values[inside], names, asked)
    dates = dates_in(table.select(inside))
    check_dated(asked, table, dates, site)
    repeated = site is not None or len(np.unique(places[inside], axis=0)) < int(inside.sum())
    lines = [
        f"file = {quote(relative(table_path, folder))}",
        *([] if asked.layer is None else [f"layer = {quote(asked.layer)}"]),
        *site_lines(asked, site, folder, repeated=repeated),
        f"x = {quote(names.x)}",
        f"y = {quote(names.y)}",
        *crs_line(systems.table if systems.moves_table else None),
        f"value = {quote(names.value)}",
        *row_lines(asked, {name: (raw[name], columns[name]) for name in raw}, good & ~inside),
        *date_lines(asked, dates),
        *option_lines(asked, unit_of(names.value), positive),
    ]
    text = "".join(f"{line}\n" for line in lines)
    result = read_as_written(text, folder, table_path, systems, outline)
    notes = [*written, *names.why, *systems.notes, *remarks, *odd, row_note(total, good, inside)]
    notes += outside_notes(table, good & ~inside, site)
    notes += [*date_notes(asked, dates), *result.notes]
    if repeated and not asked.in_time:
        by = "their coordinates" if site is None else site
        notes.append(f"observations: {result.told[-1]}, told by {by}")
    return MeasuredRows(
        points=result.points,
        values=result.values,
        num_limits=int(result.censored.sum()),
        systems=systems,
        file=file,
        lines=text,
        dates=dates,
        sites=result.sites,
        notes=tuple(notes),
    )


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


def read_as_written(
    text: str, folder: Path, path: Path, systems: Systems, outline: Outline | None
) -> DataRows:
    """The observations as a fit will read them."""
    names = parse_table(ObservationsTable, tomllib.loads(text), path)
    result = prepare_data(folder, names, None, systems.problem)
    remarks, result = result.told, result.within(systems.problem)
    inside = np.ones(result.num_rows, bool) if outline is None else contains(outline, result.points)
    return result.rows(np.flatnonzero(inside), told=remarks)


def find_site(
    table: TextTable, sites: TextTable | None, names: Guess, asked: InitOptions
) -> str | None:
    """The column that tells which readings are of one site, where there are several of one."""
    if asked.site is not None or sites is not None:
        return asked.site or common_column(table, sites or table)
    likely = columns_of_place(table, (names.x, names.y))
    return next((n for n in likely if n not in (names.value, *asked.covariates)), None)


def without_stand_ins(columns: Mapping[str, Numbers]) -> tuple[dict[str, Numbers], list[str]]:
    """Columns with no number where one stands for none, and what those were."""
    result, remarks = {}, []
    for name, numbers in columns.items():
        odd = stand_ins(numbers)
        result[name] = np.where(odd, np.nan, numbers)
        if odd.any():
            kinds = " or ".join(f"{one:g}" for one in np.unique(numbers[odd]))
            remarks.append(f"{name}: {odd.sum()} cells hold {kinds}, which is taken for no value")
    return result, remarks


def check_coordinates(table: TextTable, good: Flags, names: Guess) -> None:
    if not good.any():
        raise FileFormatError(
            f"{table.path}: no row has numbers in all of {names.x}, {names.y} and {names.value}: "
            "name other columns by --x, --y and --value."
        )


def check_inside_outline(
    table: TextTable,
    places: Float[np.ndarray, "good 2"],
    inside: Flags,
    names: Guess,
    outline: Outline | None,
) -> None:
    """Raise where there are places, and the polygon holds none of them."""
    if outline is not None and len(places) and not inside.any():
        advice = "name the coordinates of both by --crs and --polygon-crs, or name other columns"
        if contains(outline, places[:, ::-1]).mean() > MOSTLY:
            advice = f"they are when swapped: --x {names.y} --y {names.x}"
        raise FileFormatError(
            f"{table.path}: none of {len(places)} rows has its place, in {names.x} and {names.y}, "
            f"inside the polygon: {unit_clash(places, np.concatenate(outline.rings)) or advice}."
        )


def check_any_value(
    table: TextTable, values: Numbers, names: Guess, outline: Outline | None
) -> None:
    """Raise where there is nothing to infer from, or what is no measurement."""
    if not len(np.unique(values)) > 1:
        raise FileFormatError(
            f"{table.path}: {len(values)} rows have coordinates in {names.x} and {names.y}"
            f"{'' if outline is None else ' inside the polygon'} and a number in {names.value}, "
            "and their values do not differ: name other columns by --x, --y and --value."
        )
    row = int(np.argmax(np.abs(values)))
    if not abs(values[row]) < LARGEST:
        raise FileFormatError(
            f"{table.at(row)}: {names.value} is {values[row]:g}: if that stands for no value, "
            "leave the cell empty."
        )


def common_column(table: TextTable, sites: TextTable) -> str:
    """The first column of both tables that tells sites apart, and holds most of the readings'."""
    shared = [name for name in table.header if name and name in sites.header]
    for name in shared:
        known = set(sites.cells(name))
        if len(known) > MOSTLY * sites.num_rows and (
            np.mean([cell in known for cell in table.cells(name)]) > MOSTLY
        ):
            return name
    result = f"of {', '.join(shared)}, which both have, none holds" if shared else "none holds"
    raise FileFormatError(
        f"{table.path} and {sites.path}: no column tells which site a reading is of ({result} the "
        "same identifiers in both): name it by --site, and call it the same in both."
    )


def usable_covariates(
    table: TextTable, values: Numbers, names: Guess, asked: InitOptions
) -> list[str]:
    """Those that are positive numbers; raises where what was asked for cannot be had."""
    positive = []
    for name in asked.covariates:
        if asked.covariates.count(name) > 1:
            raise RieszError(f"--covariates names {name} twice: name it once.")
        column_index(table.path, name, table.header)
        if name in (names.x, names.y, names.value):
            raise RieszError(f"--covariates names {name}, which is a coordinate or the value.")
        cells = covariate_in(table, name)
        if len(every := {*(cells if isinstance(cells, list) else cells.tolist())}) == 1:
            raise FileFormatError(
                f"{table.path}: the covariate {name} is {every.pop()!r} in all {len(cells)} rows, "
                "so that it can have no effect: leave it out of --covariates."
            )
        positive += [] if isinstance(cells, list) or not (cells > 0).all() else [name]
    if asked.log and not (values > 0).all():
        row = int(np.argmin(values))
        raise FileFormatError(
            f"{table.at(row)}: {names.value} is {values[row]:g}: --log needs positive values."
        )
    return positive


def outside_notes(table: TextTable, outside: Flags, site: str | None) -> list[str]:
    """Which rows are left out, by the lines and by what most likely names them."""
    if not outside.any():
        return []
    words = [name for name in table.header if name and not is_numeric(table, name)]
    of = next((table.cells(name) for name in (site, *words) if name is not None), None)
    cells = None if of is None else [cell or "" for cell in of]
    return [f"outside: {format_rows(np.flatnonzero(outside).tolist(), table.lines, cells)}"]


def row_note(total: int, good: Flags, inside: Flags) -> str:
    note = f"rows: {int(inside.sum())} of {total}"
    if total > len(good):
        note += f", {total - len(good)} of sites that are not in the table of sites"
    if not good.all():
        note += f", {int((~good).sum())} without numbers"
    if (good & ~inside).any():
        note += f", {int((good & ~inside).sum())} outside the polygon"
    return note


def cells_of(table: TextTable, name: str) -> Numbers:
    """Numbers, limits of detection as what they are limits of, and NaN elsewhere."""
    return np.array([number_or_limit(cell) for cell in table.cells(name)])

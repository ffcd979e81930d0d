"""A first problem file for a table of measurements, with every line explained; of a model in time
also the tables of recharge and of wells that drive it."""

import datetime
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.case.data.rows import rows_by_site
from riesz.case.options import InitOptions, takes
from riesz.case.start.columns import bare, is_numeric, pair_of
from riesz.case.start.coordinates import Systems
from riesz.case.start.lines import Dates, dates_in, fill_template, relative, toml
from riesz.case.start.rows import MeasuredRows, read_measured_rows
from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import is_crs_text
from riesz.geometry.hull import hull_outline
from riesz.geometry.outline import Outline, simplify_outline
from riesz.io.maps.outlines import OUTLINES, OutlineFile, read_outline_file
from riesz.io.store.files import check_target, write_bytes
from riesz.io.tables.layers import TextTable, read_table
from riesz.notes import Note

WARM_UP = datetime.timedelta(days=5 * 365)
"""Before the first reading: what came earlier no longer matters."""

MOST_RECHARGE = 0.5
"""A day, in metres: more is a number of millimetres."""

RATES = r"(.*_)?(rate|q|discharge|pumping|abstraction|rate_.*|entnahme|förderung|débit|debit)(_.*)?"
NAMES = r"(.*_)?(name|well|id|station|brunnen|puits)(_.*)?"


@dataclass(frozen=True)
class Stress:
    """A table with a column of dates, and what a problem file says of it."""

    path: Path
    dates: Dates
    gap: datetime.timedelta  # between two rows
    values: Mapping[str, str | None]  # for a template
    note: Note

    @property
    def end(self) -> datetime.date:
        """Until when its last row holds; of months, to the end of one."""
        end = self.dates.last + self.gap
        is_monthly = self.dates.last.day == 1 and 27 < self.gap.days < 32
        return (self.dates.last + datetime.timedelta(32)).replace(day=1) if is_monthly else end


@dataclass(frozen=True)
class Stresses:
    """All that drives a model, and from when to when it is known."""

    each: tuple[Stress, ...]

    def values(self) -> dict[str, Any]:
        """For a template."""
        return {key: value for one in self.each for key, value in one.values.items()}

    def start(self, first: datetime.date) -> datetime.date:
        """Where all tables have begun, but not long before the first reading."""
        return max(*(one.dates.first for one in self.each), first - WARM_UP)

    def end(self, last: datetime.date) -> datetime.date:
        return max(min(one.end for one in self.each), last + datetime.timedelta(1))


def read_stresses(asked: InitOptions, folder: Path) -> Stresses:
    given = ((asked.recharge, recharge_of), (asked.wells, wells_stress))
    return Stresses(tuple(make(Path(path), folder) for path, make in given if path is not None))


def read_dated_table(path: Path) -> tuple[TextTable, Dates, datetime.timedelta]:
    table = read_table(path, value="value")
    dates = dates_in(table, of_any_name=True)
    if dates is None or dates.first == dates.last:
        raise FileFormatError(
            f"{path}: no column of dates such as 1990-01-01 was found among "
            f"{', '.join(table.header)}: a row is what holds from its date on."
        )
    days = sorted({day.toordinal() for day in dates.days})
    return table, dates, datetime.timedelta(median(np.diff(days).tolist()))


def recharge_of(path: Path, folder: Path) -> Stress:
    table, dates, gap = read_dated_table(path)
    value, values = number_column(table, (dates.column,), "(?!)")
    if np.nanmax(np.abs(values)) > MOST_RECHARGE:
        raise FileFormatError(
            f"{path}: {value} goes up to {np.nanmax(np.abs(values)):g}: recharge is a length a day "
            "in the unit of the coordinates and heads, such as 0.002 m; divide millimetres by 1000."
        )
    values = {
        "recharge": value,
        "recharge_file": relative(path, folder),
        "recharge_date": dates.column,
    }
    note = Note("recharge_table", **dates.values() | {"column": value})
    return Stress(path, dates, gap, values, note)


def wells_stress(path: Path, folder: Path) -> Stress:
    table, dates, gap = read_dated_table(path)
    x, y, _ = pair_of(table, (), None, None)
    rate, values = number_column(table, (dates.column, x, y), RATES)
    if np.nanmax(values) > 0 >= -np.nanmin(values):
        raise FileFormatError(
            f"{path}: all rates, in {rate}, are positive, which puts water in: write what is taken "
            "out with a minus."
        )
    name = next((one for one in table.header if re.fullmatch(NAMES, bare(one))), None)
    values = {
        "wells": rate,
        "wells_file": relative(path, folder),
        "wells_x": x,
        "wells_y": y,
        "wells_date": dates.column,
        "wells_name": name,
    }
    note = Note("wells_table", **dates.values() | {"column": rate})
    return Stress(path, dates, gap, values, note)


def number_column(
    table: TextTable, taken: Sequence[str], pattern: str
) -> tuple[str, Float[np.ndarray, " row"]]:
    """The column that is called as the pattern says, or else the first of numbers."""
    left = [name for name in table.header if name not in taken and is_numeric(table, name)]
    if not left:
        raise FileFormatError(
            f"{table.path}: no column of numbers is left beside {', '.join(taken)}, of "
            f"{', '.join(table.header)}."
        )
    name = next((one for one in left if re.fullmatch(pattern, bare(one))), left[0])
    return name, table.numbers(name)


NUM_NODES, NODES_IN_TIME = 2000, 300
NODES_PER_SQUARE = 2.8
"""Nodes of a mesh in a square of the longest edge, as our mesher makes them."""

MARGIN_SHARE, LENGTH_SHARE = 0.08, 0.15
"""Of the extent: around the observations, and of the length over which sources change."""

SOURCE_FACTOR = 4.0
"""A source that changes over a length l bends the state by about its size times l squared, less
what the boundary holds back."""

SKEWED = 1.0
"""Of positive values whose logarithms are less skewed; an exponential distribution has 2."""


@dataclass(frozen=True)
class Starter:
    """The text of a problem file, what was guessed for it, and the rows that a fit will read."""

    text: str
    guesses: tuple[Note, ...]
    measured: MeasuredRows


@takes(InitOptions)
def write_first_problem(table: Path | str, options: InitOptions) -> tuple[str, ...]:
    """Write a first problem file for a table of measurements; returns what was guessed, in words.

    Every line of the file is explained. The keywords are the options of `riesz init`: what is not
    given is guessed.
    """
    out = Path(options.out)
    if out.exists():
        raise RieszError(f"{out} is there already: choose another --out, or remove it.")
    check_target(out)
    made = starter(Path(table), out.absolute().parent, options)
    write_bytes(out, made.text.encode())
    return tuple(map(str, made.guesses))


@takes(InitOptions)
def first_problem(table: Path | str, options: InitOptions) -> Starter:
    """What `write_first_problem` would write to `out`, and the rows that it is about."""
    return starter(Path(table), Path(options.out).absolute().parent, options)


def starter(table_path: Path, folder: Path, asked: InitOptions) -> Starter:
    """A problem file that will lie in `folder`."""
    polygon = None if asked.polygon is None else Path(asked.polygon)
    if polygon is not None and is_outline(table_path) and not is_outline(polygon):
        raise RieszError(
            f"the table comes first and the outline second: riesz init {shlex.quote(str(polygon))} "
            f"{shlex.quote(str(table_path))}"
        )
    file = None if polygon is None else read_outline_file(polygon, own=asked.polygon_crs)
    measured = read_measured_rows(table_path, file, folder, asked)
    file, rows = measured.file, measured.rows
    points, values, num_limits = rows.points, rows.values, int(rows.censored.sum())
    extent = float(np.ptp(np.concatenate(file.outline.rings) if file else points, axis=0).max())
    outline = file.outline if file else hull_outline(points, MARGIN_SHARE * extent)
    num_nodes = NODES_IN_TIME if asked.in_time else NUM_NODES
    edge = round_significant(math.sqrt(NODES_PER_SQUARE * outline.area / num_nodes))
    spread = float(values.std())
    length = round_significant(LENGTH_SHARE * extent)
    stresses = read_stresses(asked, folder) if asked.in_time else None
    given = {
        **crs_values(file, measured.systems, told=asked.polygon_crs is not None),
        **domain_values(file, folder, edge, extent, points, measured.systems),
        "edge": edge,
        "observations": measured.lines.rstrip(),
        "limits": num_limits > 0,
        "mean": round_significant(float(values.mean()), 3),
        "spread": round_significant(spread),
        "trend": round_significant(spread * extent_beyond(outline, points)),
        "bends": round_significant(SOURCE_FACTOR * spread / length**2),
        "length": length,
    }
    given |= {} if stresses is None else stress_values(measured, stresses)
    text = fill_template("starter.txt" if stresses is None else "in_time.txt", given)
    notes = [*measured.notes, Note("mesh_edges", edge=toml(edge))]
    notes += [] if stresses is None else [one.note for one in stresses.each]
    if not asked.log and is_skewed(values):
        notes.append(Note("values_skewed"))
    if num_limits:
        notes.append(Note("limits_need_nuts", count=num_limits))
    if measured.systems.in_degrees:
        notes.append(Note("crs_kept_degrees"))
    return Starter(text, tuple(notes), measured)


def is_outline(path: Path) -> bool:
    return path.suffix.lower() in OUTLINES


def stress_values(measured: MeasuredRows, stresses: Stresses) -> dict[str, Any]:
    """What the words of a model in time have beside those of a steady one."""
    dates, values, sites = measured.dates, measured.rows.values, measured.rows.sites
    assert dates is not None  # or there are no rows in time
    assert sites is not None
    groups = rows_by_site(sites)
    within = np.concatenate([values[rows] - values[rows].mean() for rows in groups]).std()
    start = stresses.start(dates.first)
    if start > dates.first:
        late = max(stresses.each, key=lambda one: one.dates.first)
        raise FileFormatError(
            f"{late.path} begins on {late.dates.first}, and readings on {dates.first}: give what "
            "drives the model from there on, or leave earlier readings out of their table."
        )
    return stresses.values() | {
        "start": start,
        "end": stresses.end(dates.last),
        "step": dates.step,
        "within": round_significant(float(within) or float(values.std())),
    }


def is_skewed(values: Float[np.ndarray, " row"]) -> bool:
    """Whether values ask for logarithms."""
    if not (values > 0).all():
        return False
    plain, logged = (skewness(one) for one in (values, np.log(values)))
    return plain > SKEWED and abs(logged) < plain


def skewness(values: Float[np.ndarray, " row"]) -> float:
    return float(np.mean((values - values.mean()) ** 3) / values.var() ** 1.5)


def extent_beyond(outline: Outline, points: Float[np.ndarray, "row 2"]) -> float:
    """How much wider the domain is than where the observations lie: trends go on beyond them."""
    corners = np.concatenate(outline.rings)
    across = np.ptp(corners, axis=0) / np.sqrt(12)  # the sd of places all over it
    return max(1.0, float(np.linalg.norm(across) / np.linalg.norm(points.std(axis=0))))


def round_significant(value: float, digits: int = 2) -> float:
    return float(f"{value:.{digits - 1}e}")


def crs_values(file: OutlineFile | None, systems: Systems, *, told: bool) -> dict[str, Any]:
    """Which coordinates the problem lives in, and why."""
    crs = systems.problem
    if crs is None or not is_crs_text(crs):
        return {}
    why = "of all coordinates here"
    if systems.in_degrees:
        why = "longitude and latitude"
    elif systems.moves(systems.table) or systems.moves(systems.outline):
        why = "all coordinates are projected into these"
    if file is not None and file.crs == crs and not told:
        why = f"as {file.path.name} says"
    return {"crs": crs, "crs_why": why}


def domain_values(
    file: OutlineFile | None,
    folder: Path,
    edge: float,
    extent: float,
    points: Float[np.ndarray, "row 2"],
    systems: Systems,
) -> dict[str, Any]:
    if file is None:
        return {"margin": round_significant(MARGIN_SHARE * extent)}
    simple = round_significant(edge / 4)
    try:
        simplify_outline(file.outline, simple, points)
    except RieszError:
        simple = None
    return {
        "outline": relative(file.path, folder),
        "outline_crs": systems.outline if systems.moves(systems.outline) else None,
        "simplify": simple,
    }

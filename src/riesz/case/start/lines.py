"""Lines of a first problem file about its measurements, as TOML writes them, each explained."""

import datetime
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.case.options import InitOptions
from riesz.case.start.columns import MOSTLY, bare
from riesz.io.tables.dates import days_in
from riesz.io.tables.layers import TextTable
from riesz.notes import Note

Numbers = Float[np.ndarray, " row"]
Ranges = Mapping[str, Mapping[str, float]]
"""Bounds of columns, by name."""

STEPS = {"year": 365 * 30, "month": 365 * 3, "week": 200}
"""By name, and the days from which on they are taken."""

DATE_NAME = r"(.*_)?(date|day|datetime|sampled|(.*)datum|tag|jour)(_.*)?"


def crs_line(crs: str | None) -> list[str]:
    """Of coordinates that are not those of the problem."""
    if crs is None:
        return []
    return [f"crs = {crs_quoted(crs)}   # of these; they are projected into the crs at the top"]


def crs_quoted(crs: str) -> str:
    return "'" + " ".join(crs.split()).replace("'", "") + "'"


def site_lines(asked: InitOptions, site: str | None, folder: Path, *, repeated: bool) -> list[str]:
    if not repeated:
        return []
    lines = [f"site = {quote(site)}   # readings of the same site belong together"] if site else []
    if asked.sites is not None:
        where = quote(relative(Path(asked.sites), folder))
        lines.insert(0, f"sites = {where}   # where the sites are: x and y are its columns")
    if asked.in_time:
        return lines
    return [
        *lines,
        f'aggregate = "median"         # one observation a {"site" if site else "place"}',
        "# sd_from_scatter = true     # a site's noise is the scatter of its readings",
    ]


def row_lines(asked: InitOptions, ranges: Ranges, *, any_outside: bool) -> list[str]:
    """Filters, and ranges of the columns of numbers in which some cells hold none."""
    wanted = {quote(name): quote(word) for name, word in asked.where.items()}
    gaps = {
        quote(name): inline({key: toml_number(bound) for key, bound in one.items()})
        for name, one in ranges.items()
    }
    lines = []
    if wanted or gaps:
        comment = "only these rows, no empty cells" if gaps else "only these rows"
        lines.append(f"where = {inline(wanted | gaps)}   # {comment}")
    if asked.sites_where:
        wanted = {quote(name): quote(word) for name, word in asked.sites_where.items()}
        lines.append(f"sites_where = {inline(wanted)}   # only these sites")
    if any_outside:
        lines.append('outside = "drop"             # points outside the domain are left out')
    return lines


def below_all(values: Numbers) -> float:
    """A whole number that none of them is below."""
    lowest = float(np.nanmin(values))
    return float(math.floor(lowest - abs(lowest) / 1000))


def bounds_around(numbers: Numbers, values: Numbers) -> dict[str, float]:
    """A range that holds all values, and no number in the cells that is none of them."""
    bounds = {"min": below_all(values)}
    if np.nanmax(numbers, initial=-np.inf) > np.nanmax(values):
        bounds["max"] = -below_all(-values)
    return bounds


def inline(pairs: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in pairs.items())} }}"


@dataclass(frozen=True)
class Dates:
    """A column of days, the first and the last of them, and in which order they are written."""

    column: str
    days: tuple[datetime.date, ...]
    order: str | None

    @property
    def first(self) -> datetime.date:
        return min(self.days)

    @property
    def last(self) -> datetime.date:
        return max(self.days)

    def values(self) -> dict[str, str]:
        """For notes."""
        return {"column": self.column, "first": str(self.first), "last": str(self.last)}

    @property
    def step(self) -> str:
        """By the calendar, so that there are some tens or hundreds of steps."""
        days = (self.last - self.first).days
        return next((name for name, longer in STEPS.items() if days > longer), "day")


def dates_in(table: TextTable, *, of_any_name: bool = False) -> Dates | None:
    for name in table.header:
        is_named = of_any_name or re.fullmatch(DATE_NAME, bare(name))
        if not is_named or table.header.count(name) > 1:
            continue
        result = days_in(table.cells(name))
        days = tuple(day for day in result.found if day is not None)
        if len(days) > MOSTLY * table.num_rows:
            return Dates(name, days, result.order)
    return None


def date_lines(asked: InitOptions, dates: Dates | None) -> list[str]:
    """For whoever wants to choose; in time, dates are needed."""
    if dates is None:
        return []
    order = f"; read {dates.order}" if dates.order else ""
    if asked.in_time:
        return [f"date = {quote(dates.column)}   # when readings were made{order}"]
    return [
        f"# date = {quote(dates.column)}   # with from and to, only these days count{order}",
        f"# from = {dates.first}",
        f"# to = {dates.last}",
    ]


def date_notes(asked: InitOptions, dates: Dates | None) -> list[Note]:
    if dates is None or dates.first == dates.last:
        return []
    return [Note("dates_in_time" if asked.in_time else "dates_together", **dates.values())]


def option_lines(asked: InitOptions, unit: str | None, positive: Sequence[str]) -> list[str]:
    """What may be said of values; `positive` covariates are logged where the value is."""
    measured_in = '# unit = "mg/kg"             # shown in maps and tables'
    if unit is not None:
        measured_in = f"unit = {quote(unit)}   # by the column's name; shown in maps and tables"
    log = 'transform = "log"            # the state is the logarithm of the value, here and below'
    effects = [
        '# covariates = ["A", "B"]    # columns measured beside the value, whose effects are found'
    ]
    if asked.covariates:
        effects = [f"covariates = {array(asked.covariates)}   # measured beside the value"]
    if asked.log and positive:
        effects.append(f"log_covariates = {array(positive)}   # logged first, as the value is")
    if asked.covariates:
        effects.append("# curved = true              # effects may bend, and act upon each other")
    return [
        measured_in,
        log if asked.log else '# transform = "log"          # for skewed positive values',
        *effects,
    ]


def array(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quote, names))}]"


def toml_number(value: float) -> str:
    """As TOML reads it, whole numbers without a fraction."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else repr(value)


def quote(text: str) -> str:
    """As TOML writes texts: as JSON does, but for one more character that must not stand in one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()

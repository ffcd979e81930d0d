"""Scenarios: what is to differ from a problem file, in a file of the same tables.

A value stands in place of that of the problem, or changes it by `{ factor = 2 }` or `{ add = -1 }`.
With `from`, the problem goes on as it was until that time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from pydantic import Field

from riesz.case.data.rows import plain_rows
from riesz.case.file.schema import ProblemTables
from riesz.case.file.stresses import Histories, history_in
from riesz.case.file.time_axis import When
from riesz.case.file.wells import WellPoints
from riesz.case.table import Decisions, FileTable, is_finite, parse_table, toml_in
from riesz.errors import FileFormatError, any_of, nearest
from riesz.fem.terms.regional import scale
from riesz.fem.terms.series import LINEAR, Series, series
from riesz.fem.time.axis import TimeAxis, time_axis
from riesz.io.tables.dates import Times
from riesz.io.tables.layers import read_table

SHIFTS = {"factor", "add"}

Values = Float[np.ndarray, "*shape"]


class Shift(FileTable):
    """How a value changes."""

    factor: float = 1.0
    add: float = 0.0

    def of(self, values: Values | float) -> Any:
        return self.factor * values + self.add


class WellChange(FileTable):
    """Wells by their name, or all of them; with a place, a new one."""

    name: str | None = None
    factor: float | None = None
    rate: float | None = None
    x: float | None = None
    y: float | None = None

    def faults(self) -> Iterator[str]:
        if self.is_new and (None in (self.x, self.y, self.rate) or self.factor is not None):
            yield "has a place, which is for a new well: give it x, y and rate"
        if not self.is_new and (self.rate is None) == (self.factor is None):
            yield "needs either factor, which multiplies the rate, or rate, a new one"
        if not self.is_new and self.name is None and self.rate is not None:
            yield "has a rate, but no name: name the well that it is of"

    @property
    def is_new(self) -> bool:
        return self.x is not None or self.y is not None

    def of(self, rates: Values) -> Values:
        return self.factor * rates if self.rate is None else np.full(rates.shape, self.rate)


class SeriesChange(Shift):
    """The same of a series; or another table, with columns as those of the first."""

    file: str | None = None
    layer: str | None = None


class ScenarioTables(FileTable):
    """A whole file of changes."""

    since: When = Field(default=None, alias="from")
    wells: list[WellChange] = Field(default_factory=list)
    equation: dict[str, Any] = Field(default_factory=dict)
    boundary: dict[str, dict[str, Any]] = Field(default_factory=dict)
    series: dict[str, SeriesChange] = Field(default_factory=dict)
    time: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scenario:
    """Changes that fit a problem file."""

    path: Path
    changes: ScenarioTables
    tables: ProblemTables  # with all values that stand in place of others
    edits: Mapping[tuple[str, str], tuple[Any, Any]]  # by table and key: what was, and a change

    def refuse(self, text: str) -> FileFormatError:
        return FileFormatError(f"{self.path}: {text}.")

    @cached_property
    def axis(self) -> TimeAxis:
        """That of the problem; a steady state is one step."""
        return self.tables.axis or time_axis([0.0, 1.0])

    @cached_property
    def since(self) -> float:
        """From when on changes hold."""
        given, axis = self.changes.since, self.axis
        if given is None:
            return float(axis.times[0])
        when = [given if isinstance(given, float) else np.datetime64(given, "s")]
        start = axis.numbers(np.array(when), f"{self.path}: 'from'")
        axis.locate_times(start, f"times of {self.path}, 'from',")
        return float(start[0])

    def mix(self, before: Values, after: Values) -> Values:
        """Row by row the mean over each step of what was and what is."""
        share = np.clip((self.axis.times[1:] - self.since) / self.axis.steps, 0.0, 1.0)
        share = share.reshape(-1, *[1] * (np.ndim(after) - 1))
        return (1.0 - share) * before + share * after

    def change_tables(self) -> ProblemTables:
        """With coefficients in place of what is shifted, or differs only from a time on."""
        tables, result = self.tables, dict[str, dict[str, Any]]()
        for (table, key), (old, new) in self.edits.items():
            result.setdefault(table, {})[key] = self.coefficient(f"{table}.{key}", old, new)
        boundary = {
            tag: one.model_copy(update=result.get(f"boundary.{tag}", {}))
            for tag, one in tables.boundary.items()
        }
        equation = tables.equation.model_copy(update=result.get("equation", {}))
        return tables.model_copy(update={"equation": equation, "boundary": boundary})

    def coefficient(self, key: str, old: Any, new: Any) -> Any:
        is_late = self.changes.since is not None
        after: Any = new.of(old) if isinstance(new, Shift) and is_finite(old) else new
        if is_late and is_finite(old) and is_finite(after):
            return self.in_steps(old, after)
        if not isinstance(after, Shift) and not is_late:
            return after
        if isinstance(old, str) and old in self.tables.series:
            raise self.refuse(f"{key} is the series {old}: change it in [series.{old}]")
        if not isinstance(after, Shift) or after.add:
            raise self.refuse(f"{key} is no number in the problem: it can only have a factor")
        return self.multiple(key, old, after.factor)

    def in_steps(self, before: float, after: float, factor: str | None = None) -> Series:
        """What was and what is, in each step, as a coefficient."""
        ones = np.ones(self.axis.num_steps)
        return series(self.axis.times[:-1], self.mix(before * ones, after * ones), factor=factor)

    def multiple(self, key: str, old: Any, factor: float) -> Any:
        """Of an unknown, or of values by region."""
        tables = self.tables
        prior = tables.unknowns.get(old) if isinstance(old, str) else None
        if tables.time and prior and isinstance(prior.distribution(), dist.Distribution):
            return self.in_steps(1.0, factor, factor=old)
        if self.changes.since is not None or not key.startswith("equation."):
            raise self.refuse(
                f"{key} differs by place: its factor can only hold at all times, and of a term of "
                "the equation"
            )
        if isinstance(old, dict):
            return {name: scale(one, factor) for name, one in old.items()}
        return scale(old, factor)

    def change_series(self, histories: Histories) -> Histories:
        result, axis = dict(histories), self.axis
        for name, change in self.changes.series.items():
            old, table = histories[name], self.tables.series[name]
            new = old
            if change.file is not None:
                file = self.path.parent / change.file
                rows = read_table(file, layer=change.layer, value=table.value)
                new = history_in(rows, name, table.date, table.value)
            new = replace(new, rows=replace(new.rows, values=change.of(new.rows.values)))
            if table.kind == LINEAR:  # a step reads the value where it ends
                when = axis.times
                before, after = (np.interp(when, *one.along(axis)) for one in (old, new))
                values = np.where(when > self.since, after, before)
            else:
                when, values = axis.times[:-1], self.mix(old.means(axis), new.means(axis))
            dates = None if axis.origin is None else axis.dates(when)
            nowhere = np.zeros((len(values), 0))
            rows = plain_rows(self.path, nowhere, values, times=Times(dates, when))
            result[name] = replace(old, rows=rows)
        return result

    def change_wells(self, wells: Sequence[WellPoints]) -> tuple[WellPoints, ...]:
        """And new ones, behind the others."""
        result = list(wells)
        for number, change in enumerate(self.changes.wells, 1):
            if change.is_new:
                place = np.array([[change.x, change.y]], dtype=float)
                lines = np.array([number])
                rows = plain_rows(self.path, place, lines=lines, place="[[wells]] entry")
                result.append(self.change_entry(WellPoints(rows), change))
            else:
                self.check_meant(change, wells)
                result = [self.change_entry(one, change) for one in result]
        return tuple(result)

    def check_meant(self, change: WellChange, wells: Sequence[WellPoints]) -> None:
        known = dict.fromkeys(name for one in wells for name in one.place_names if name)
        if not wells or (change.name is not None and change.name not in known):
            named = f"the well {change.name!r}" if change.name else "wells"
            has = f"it has {any_of(known)}" if known else "it has none with a 'name'"
            raise self.refuse(
                f"changes {named}, but the problem has none of them: "
                f"{nearest(change.name or '', known)}{has}"
            )
        for one in wells:
            if one.unknown and change.factor is None and change.name in one.place_names:
                raise self.refuse(
                    f"gives the well {change.name!r} a rate, but that is the unknown {one.unknown}:"
                    " give a factor"
                )

    def change_entry(self, one: WellPoints, change: WellChange) -> WellPoints:
        """The wells of an entry, of which those that are meant have other rates."""
        all_are = change.is_new or change.name is None
        meant = np.array([all_are or name == change.name for name in one.place_names])
        if not meant.any():
            return one
        before = one.step_rates(self.axis)
        return replace(one, steps=self.mix(before, np.where(meant, change.of(before), before)))


def read_scenario(path: Path, problem: Path, decided: Decisions = MappingProxyType({})) -> Scenario:
    """A file of changes to a problem file; raises where it names what that does not have."""
    content, raw = toml_in(path), toml_in(problem, None, decided)
    if isinstance(content.get("wells"), dict):
        content["wells"] = [content["wells"]]  # of all of them
    changes = parse_table(ScenarioTables, content, path)
    for what, given in (("boundary", changes.boundary), ("series", changes.series)):
        known = raw.get(what, {})
        for name in given:
            if name not in known:
                has = f"it has {any_of(known)}" if known else "it has none"
                raise FileFormatError(
                    f"{path}: changes {what}.{name}, which the problem has not: "
                    f"{nearest(name, known)}{has}."
                )
    if "time" not in raw and (changes.time or changes.since is not None):
        raise FileFormatError(f"{path}: has times, but the problem is one of a steady state.")
    raw.get("time", {}).update(changes.time)
    edits: dict[tuple[str, str], tuple[Any, Any]] = {}
    overlaid = [("equation", raw["equation"], changes.equation)]
    overlaid += [
        (f"boundary.{tag}", raw["boundary"][tag], o) for tag, o in changes.boundary.items()
    ]
    for place, table, given in overlaid:
        for key, value in given.items():
            if isinstance(value, dict) and value and set(value) <= SHIFTS:
                if key not in table:
                    raise FileFormatError(
                        f"{path}: {place}.{key} is to be changed, but the problem has none: give a "
                        "value."
                    )
                edits[place, key] = (table[key], parse_table(Shift, value, path))
            else:
                edits[place, key] = (table.get(key, 0.0), value)
                table[key] = value
    # Series that numbers stand in place of now.
    tables = [raw["equation"], *raw.get("boundary", {}).values()]
    named = {value for one in tables for value in one.values() if isinstance(value, str)}
    raw["series"] = {name: one for name, one in raw.get("series", {}).items() if name in named}
    return Scenario(path, changes, parse_table(ProblemTables, raw, path), edits)

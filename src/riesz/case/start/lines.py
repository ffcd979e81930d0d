"""Lines of a first problem file: templates, values as TOML writes them, and columns of dates."""

import datetime
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from riesz.case.start.columns import MOSTLY, bare
from riesz.io.tables.dates import days_in
from riesz.io.tables.layers import TextTable

STEPS = {"year": 365 * 30, "month": 365 * 3, "week": 200}
"""By name, and the days from which on they are taken."""

DATE_NAME = r"(.*_)?(date|day|datetime|sampled|(.*)datum|tag|jour)(_.*)?"

GAP = re.compile(r"\{(?P<name>\w+)(?P<kind>[:?!]?)\}")
"""Of a template: `{x}` is a value as TOML writes it, `{x:}` a text, `{x?}` a condition, and `{x!}`
that it does not hold."""

BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that need no quotes."""


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """The lines of a template whose conditions hold, and whose gaps have values.

    A table without its header is left out.
    """

    def is_met(gap: re.Match[str]) -> bool:
        value = values.get(gap["name"])
        return (value is None or value is False) == (gap["kind"] == "!")

    def text_of(gap: re.Match[str]) -> str:
        return {"": toml, ":": str}.get(gap["kind"], lambda _: "")(values.get(gap["name"]))

    text = files("riesz.case.start").joinpath(template).read_text(encoding="utf-8")
    result = []
    for paragraph in text.rstrip().split("\n\n"):
        lines = []
        for line in paragraph.splitlines():
            if all(map(is_met, GAP.finditer(line))):
                entry, mark, why = (GAP.sub(text_of, part) for part in line.partition("   # "))
                lines.append(f"{entry.rstrip():<26}{mark}{why}".rstrip())
            elif line.startswith("["):
                break
        result += ["\n".join(lines)] if lines else []
    return "\n\n".join(result) + "\n"


def toml(value: Any) -> str:
    """A value as TOML writes it; whole numbers without a fraction."""
    if isinstance(value, str):
        if '"' in value and "'" not in value and value.isprintable():
            return f"'{value}'"
        # As JSON does, but for one more character that must not stand in a text.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (
            f"{key if BARE.fullmatch(key) else toml(key)} = {toml(value[key])}" for key in value
        )
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e9:
        return f"{value:.0f}"
    return str(value)


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


def relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()

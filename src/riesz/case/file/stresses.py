"""What changes in time, from tables with a column of times; the tables [series.NAME].

A value that is held counts by its mean in each step, so that volumes are right wherever it changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from riesz.case.data.rows import SERIES, DataRows, entries_content, entry_table, rows_at_places
from riesz.case.table import FileTable
from riesz.errors import FileFormatError
from riesz.fem.terms.series import HELD, Series, mean_shares, series
from riesz.fem.time.axis import TimeAxis
from riesz.io.tables.layers import TextTable, read_table

NAME, TIME, VALUE = "name", "time", "value"
"""The columns of a run's own table of series."""

Numbers = Float[np.ndarray, " row"]


@dataclass(frozen=True, eq=False)
class History:
    """Values from some times on, and what they are of, for messages."""

    what: str
    rows: DataRows

    def along(self, axis: TimeAxis) -> tuple[Numbers, Numbers]:
        """Times on the axis, which rise, and values.

        Raises where nothing is told of the beginning, or two things of one time.
        """
        rows = self.rows
        assert rows.times is not None  # the tables were validated
        given = rows.times.values()
        when = axis.numbers(given, f"{rows.at(0)}: times of {self.what}")
        order = np.argsort(when, kind="stable")
        when = when[order]
        (twice,) = np.nonzero(np.diff(when) <= 0)
        if twice.size:
            row = int(order[twice[0] + 1])
            raise FileFormatError(
                f"{rows.at(row)}: {self.what} has two values at {given[row]}: keep one."
            )
        if when[0] > axis.times[0]:
            row, first = int(order[0]), axis.dates(axis.times[:1])[0]
            raise FileFormatError(
                f"{rows.at(row)}: {self.what} has no value before {given[row]}, but [time] starts "
                f"at {first}: add a row for that time, or an earlier one."
            )
        return when, rows.values[order]

    def means(self, axis: TimeAxis) -> Float[np.ndarray, " step"]:
        """In each step, of values that hold until the next row, and the last for good."""
        when, values = self.along(axis)
        spans = np.stack([axis.times[:-1], axis.times[1:]], axis=1)
        return mean_shares(when, HELD, spans) @ values


class SeriesTable(FileTable):
    """A value that changes in time: a table, its columns, and an unknown that multiplies it."""

    file: str = Field(description="the table, relative to the problem file")
    layer: str | None = None
    date: str = "date"
    value: str = "value"
    kind: Literal["held", "linear"] = HELD
    factor: str | None = None


Histories = Mapping[str, History]


def read_series(
    folder: Path, tables: Mapping[str, SeriesTable], kept: Path | None = None
) -> dict[str, History]:
    """All series; or those that a run `kept`, in its folder."""
    result = {}
    for name, one in tables.items():
        if kept is None:
            rows = read_table(folder / one.file, layer=one.layer, value=one.value)
            result[name] = history_in(rows, name, one.date, one.value)
        else:
            result[name] = history_in(entry_table(kept / SERIES, name), name, TIME, VALUE)
    return result


def history_in(table: TextTable, name: str, date: str, value: str) -> History:
    return History(f"the series {name}", rows_at_places(table, (), value, date=date))


def series_content(histories: Histories) -> bytes:
    """All of them, as a run folder keeps them: files may change."""
    return entries_content((NAME, VALUE, TIME), {key: one.rows for key, one in histories.items()})


def series_on(
    histories: Histories, tables: Mapping[str, SeriesTable], axis: TimeAxis
) -> dict[str, Series]:
    """As coefficients, on a time axis."""
    return {
        name: series(*one.along(axis), kind=tables[name].kind, factor=tables[name].factor)
        for name, one in histories.items()
    }


class CoefficientsTable(FileTable):
    """A table of coefficients, some of which may be the names of series."""

    def entries(self) -> dict[str, Any]:
        """Those that are there."""
        raise NotImplementedError

    def with_series(self, known: Mapping[str, Series]) -> Any:
        """With series where their names stand."""
        named = {key: one for key, one in self.entries().items() if isinstance(one, str)}
        return self.model_copy(update={key: known.get(one, one) for key, one in named.items()})

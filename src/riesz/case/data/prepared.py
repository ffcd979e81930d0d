"""Observations as a problem takes them, after joins, filters and aggregation; and their own CSV.

A run folder keeps this table: the files that it was made from may be large, or change.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from riesz.case.data.places import Columns
from riesz.case.data.schema import ObservationsTable
from riesz.errors import FileFormatError
from riesz.io.tables.csv_text import read_csv
from riesz.io.tables.text import TextTable, number_in

AXES, VALUE, SD, CENSORED, SITE, READINGS = (
    ("x", "y"),
    "value",
    "sd",
    "censored",
    "site",
    "readings",
)
COVARIATE = "covariate:"
"""Before the names of covariates, which might be those of other columns."""

Covariate = Float[np.ndarray, " _"] | list[str]
"""Numbers, or words that name a category."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """One observation a row, in the scale of the state."""

    path: Path  # what errors name
    points: Float[np.ndarray, "row 2"]
    values: Float[np.ndarray, " row"]  # of those below a detection limit, the limit
    censored: Bool[np.ndarray, " row"]
    lines: Int[np.ndarray, " row"]  # of the first reading of each
    sd: Float[np.ndarray, " row"] | None = None
    sites: list[str] | None = None
    readings: Int[np.ndarray, " row"] | None = None  # how many were aggregated
    covariates: Mapping[str, Covariate] = field(default_factory=dict)
    told: tuple[str, ...] = ()  # how the rows came to be, in words
    notes: tuple[str, ...] = ()  # what to be aware of
    crs: str | None = None  # of a map layer

    @property
    def num_rows(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> Columns:
        """Coordinates and values."""
        numbers = np.column_stack([self.points, self.values])
        return Columns(self.path, (*AXES, VALUE), numbers, self.lines)

    def rows(self, which: Int[np.ndarray, " row"], **changes: Any) -> "Prepared":
        """Some rows, by their numbers."""
        of = dict(self.__dict__)
        for name in ("points", "values", "censored", "lines", "sd", "readings"):
            of[name] = None if of[name] is None else of[name][which]
        of["sites"] = None if self.sites is None else [self.sites[i] for i in which]
        of["covariates"] = {
            name: [cells[i] for i in which] if isinstance(cells, list) else cells[which]
            for name, cells in self.covariates.items()
        }
        return Prepared(**(of | changes))


def prepared_content(prepared: Prepared) -> bytes:
    """The table as a CSV file; numbers with all their digits."""
    columns: dict[str, Any] = {
        AXES[0]: prepared.points[:, 0].tolist(),
        AXES[1]: prepared.points[:, 1].tolist(),
        VALUE: prepared.values.tolist(),
    }
    if prepared.sd is not None:
        columns[SD] = prepared.sd.tolist()
    if prepared.censored.any():
        columns[CENSORED] = prepared.censored.astype(int).tolist()
    if prepared.sites is not None:
        columns[SITE] = prepared.sites
    if prepared.readings is not None:
        columns[READINGS] = prepared.readings.tolist()
    for name, cells in prepared.covariates.items():
        columns[COVARIATE + name] = cells if isinstance(cells, list) else cells.tolist()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def read_prepared(path: Path, names: ObservationsTable) -> Prepared:
    """The table of a run folder."""
    table = read_csv(path)
    # Runs of older versions hold the file that was named, which could be nothing but rows to take.
    own = (*AXES, VALUE) if {*AXES, VALUE} <= {*table.header} else (names.x, names.y, names.value)
    x, y, values = (table.numbers(name) for name in own)
    flags = table.numbers(CENSORED) if CENSORED in table.header else np.zeros(table.num_rows)
    has_sd = names.sd is not None or names.sd_from_scatter
    aggregated = names.aggregate is not None
    return Prepared(
        path=path,
        points=np.column_stack([x, y]),
        values=values,
        censored=flags != 0,
        lines=table.lines,
        sd=table.numbers(SD) if has_sd else None,
        sites=[cell or "" for cell in table.cells(SITE)] if names.site is not None else None,
        readings=table.numbers(READINGS).astype(int) if aggregated else None,
        covariates={name: covariate_in(table, COVARIATE + name) for name in names.covariates},
        told=(f"{table.num_rows} rows of {path.name}",),
    )


def covariate_in(table: TextTable, name: str) -> Covariate:
    """Numbers where all cells are, words where none is; raises where they are mixed or missing."""
    cells = table.cells(name)
    numbers = np.array([number_in(cell) for cell in cells])
    missing = [row for row, cell in enumerate(cells) if not cell]
    if missing:
        raise FileFormatError(
            f"{table.at(missing[0])}: the covariate {name} is missing ({len(missing)} of "
            f"{len(cells)} rows are like that): filter them out by where, or fill them."
        )
    if np.isnan(numbers).all():
        return [str(cell) for cell in cells]
    table.check_finite(name, cells, numbers)
    return numbers

"""From the table [observations] to observations: rows are chosen, joined, read and aggregated."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from riesz.case.data.aggregate import aggregated
from riesz.case.data.filter import dates_of, filtered, in_window
from riesz.case.data.join import identifiers, joined
from riesz.case.data.prepared import Prepared, covariate_in
from riesz.case.data.schema import ObservationsTable
from riesz.case.table import table_of
from riesz.errors import FileFormatError
from riesz.io.tables.layers import read_table
from riesz.io.tables.text import BELOW, TextTable, number_or_limit


def prepared_readings(folder: Path, names: ObservationsTable, floor: float | None) -> Prepared:
    """All that the table asks for; `floor` is the least noise sd where it comes from scatter."""
    table = read_table(folder / names.file, layer=names.layer, value=names.value)
    told = [f"{table.num_rows} rows of {names.file}"]
    table, more = filtered(table, names.where, "where")
    told += more
    if names.date is not None:
        table, more = in_window(table, names.date, names.from_, names.to)
        told += more
    table, points, more = located(folder, table, names)
    values, censored = measured(table, names.value)
    if names.transform == "log":
        values = logged(table, names.value, values)
    if censored.any():
        more = [*more, f"{censored.sum()} of {len(values)} values are below a detection limit"]
    readings = Prepared(
        path=table.path,
        points=points,
        values=values,
        censored=censored,
        lines=table.lines,
        sd=None if names.sd is None else positive(table, names.sd),
        sites=None if names.site is None else identifiers(table, names.site),
        covariates={name: covariate_in(table, name) for name in names.covariates},
        told=(*told, *more),
        crs=table.crs,
    )
    if names.aggregate is None:
        return readings
    dates = None if names.aggregate != "last" else dates_of(table, str(names.date))
    return aggregated(readings, names.aggregate, dates, floor if names.sd_from_scatter else None)


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
) -> Prepared:
    """Observations from a table, as the keys of `[observations]` in a problem file have them.

    Rows are chosen (`where`, dates), joined with the table of their `sites`, read and aggregated.
    With `least_sd` the noise of a site is the scatter of its readings, or that if it is less.
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
    return prepared_readings(path.parent, table_of(ObservationsTable, content, path), least_sd)


def located(
    folder: Path, table: TextTable, names: ObservationsTable
) -> tuple[TextTable, Float[np.ndarray, "row 2"], list[str]]:
    """Places from the rows themselves, or from the table of sites."""
    axes = (names.x, names.y)
    if names.sites is None:
        return table, np.column_stack([table.numbers(axis) for axis in axes]), []
    sites = read_table(folder / names.sites, value=names.x)
    sites, told = filtered(sites, names.sites_where, "sites_where")
    rows, points, more = joined(table, sites, str(names.site), axes)
    rows = rows if rows.crs is not None else dataclasses.replace(rows, crs=sites.crs)
    return rows, points, [*(f"{names.sites}: {one}" for one in told), *more]


def measured(
    table: TextTable, name: str
) -> tuple[Float[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """Values, and which of them are limits that the true ones are below."""
    cells = table.cells(name)
    below = np.array([bool(cell) and str(cell).startswith(BELOW) for cell in cells])
    numbers = np.array([number_or_limit(cell) for cell in cells])
    table.check_finite(name, cells, numbers)
    return numbers, below


def positive(table: TextTable, name: str) -> Float[np.ndarray, " row"]:
    values = table.numbers(name)
    (bad,) = np.nonzero(~(values > 0))
    if bad.size:
        raise FileFormatError(
            f"{table.at(int(bad[0]))}: {name} is {values[bad[0]]:g}, but a noise sd must be "
            f"positive ({bad.size} of {len(values)} rows are like that)."
        )
    return values


def logged(
    table: TextTable, name: str, values: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    (bad,) = np.nonzero(~(values > 0))
    if bad.size:
        raise FileFormatError(
            f"{table.at(int(bad[0]))}: {name} is {values[bad[0]]:g}, and transform = 'log' needs "
            f"positive values ({bad.size} of {len(values)} rows are like that): write values below "
            "a detection limit as <LIMIT, or leave the transform out."
        )
    return np.log(values)

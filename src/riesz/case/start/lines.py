"""Lines of a first problem file that name its measurements."""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from riesz.io.tables.text import TextTable

DATE_NAME = r"(.*_)?(date|day|datetime|sampled)(_.*)?"
DATE = r"\d{4}-\d{2}-\d{2}.*"


@dataclass(frozen=True)
class Asked:
    """What was said of a table; what is None is guessed."""

    x: str | None = None
    y: str | None = None
    value: str | None = None
    sites: Path | None = None  # a table of where the sites are
    site: str | None = None  # readings of one site become one observation
    where: Mapping[str, str] = field(default_factory=dict)  # rows whose cells hold these words
    sites_where: Mapping[str, str] = field(default_factory=dict)
    covariates: tuple[str, ...] = ()
    log: bool = False


def site_lines(asked: Asked, site: str | None, folder: Path) -> list[str]:
    if site is None:
        return []
    lines = [f"site = {quoted(site)}   # readings of the same site belong together"]
    if asked.sites is not None:
        where = quoted(relative(asked.sites, folder))
        lines.insert(0, f"sites = {where}   # where the sites are: x and y are its columns")
    return [
        *lines,
        'aggregate = "median"         # one observation a site',
        "# sd_from_scatter = true     # a site's noise is the scatter of its readings",
    ]


def row_lines(
    asked: Asked,
    columns: Mapping[str, Float[np.ndarray, " row"]],
    outside: Bool[np.ndarray, " row"],
) -> list[str]:
    """Filters, also for cells that hold no numbers in the columns of which there must be some."""
    wanted = {quoted(name): quoted(word) for name, word in asked.where.items()}
    gaps = {
        quoted(name): f"{{ min = {number(below_all(values))} }}"
        for name, values in columns.items()
        if np.isnan(values).any()
    }
    lines = []
    if wanted or gaps:
        told = "only these rows, no empty cells" if gaps else "only these rows"
        lines.append(f"where = {inline(wanted | gaps)}   # {told}")
    if asked.sites_where:
        wanted = {quoted(name): quoted(word) for name, word in asked.sites_where.items()}
        lines.append(f"sites_where = {inline(wanted)}   # only these sites")
    if outside.any():
        lines.append('outside = "drop"             # points outside the domain are left out')
    return lines


def below_all(values: Float[np.ndarray, " row"]) -> float:
    """A whole number that none of them is below."""
    lowest = float(np.nanmin(values))
    return float(math.floor(lowest - abs(lowest) / 1000))


def inline(pairs: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in pairs.items())} }}"


def date_lines(table: TextTable) -> list[str]:
    """A column of days, and the first and the last of them, for whoever wants to choose."""
    for name in table.header:
        if not re.fullmatch(DATE_NAME, name.casefold()):
            continue
        days = [cell[:10] for cell in table.cells(name) if cell and re.fullmatch(DATE, cell)]
        if len(days) > 0.5 * table.num_rows:
            return [
                f"# date = {quoted(name)}   # with from and to, only these days count",
                f"# from = {min(days)}",
                f"# to = {max(days)}",
            ]
    return []


def option_lines(asked: Asked) -> list[str]:
    log = 'transform = "log"            # the state is the logarithm of the value, here and below'
    covariates = (
        '# covariates = ["A", "B"]    # columns measured beside the value, whose effects are found'
    )
    if asked.covariates:
        named = ", ".join(quoted(name) for name in asked.covariates)
        covariates = (
            f"covariates = [{named}]   # measured beside the value: their effects are found"
        )
    return [
        '# unit = "mg/kg"             # shown in maps and tables',
        log if asked.log else '# transform = "log"          # for skewed positive values',
        covariates,
    ]


def number(value: float) -> str:
    """As TOML reads it, whole numbers without a fraction."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else repr(value)


def quoted(text: str) -> str:
    """As TOML writes texts: as JSON does, but for one more character that must not stand in one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()

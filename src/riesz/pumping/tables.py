"""Readings and rates of a pumping test from tables: units stand in the names of columns.

`time_min`, `time (min)` and `time [min]` are the same column; a column whose name has no unit needs
one from who reads it. All numbers become metres and days.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError, RieszError
from riesz.io.tables.text import TextTable, read_csv
from riesz.pumping.well import Numbers, Readings
from riesz.spelling import listed

FOOT, GALLON = 0.3048, 3.785411784e-3
TIMES = {"s": 1 / 86400, "sec": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "days": 1.0}
LENGTHS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": FOOT, "in": FOOT / 12}
RATES = {"m3/d": 1.0, "m3/h": 24.0, "m3/s": 86400.0, "l/s": 86.4, "l/min": 1.44}
RATES |= {"gpm": GALLON * 1440, "ft3/s": FOOT**3 * 86400, "ft3/d": FOOT**3}

TIME, DRAWDOWN, HEAD = ("time", "t"), ("drawdown", "s"), ("head", "level", "h")
DISTANCE, WELL, RATE = ("r", "distance", "radius"), ("well", "name", "piezometer"), ("rate", "q")


def parted(name: str) -> tuple[str, str]:
    """What a column holds, and its unit: `rate_m3_d` is a rate in m3/d."""
    first, *rest = [part for part in re.split(r"[\s_,\[\]()]+", name.lower()) if part] or [""]
    return first, "/".join(rest)


def found_column(table: TextTable, words: tuple[str, ...]) -> str | None:
    """The only column that begins with one of these words."""
    for word in words:
        names = [name for name in table.header if parted(name)[0] == word]
        if len(names) > 1:
            raise FileFormatError(
                f"{table.path} has several columns of {words[0]}: {', '.join(names)}. Leave one."
            )
        if names:
            return names[0]
    return None


def column(table: TextTable, words: tuple[str, ...]) -> str:
    name = found_column(table, words)
    if name is None:
        raise FileFormatError(
            f"{table.path} has no column of {words[0]}: call it {listed(words)}, with its unit "
            f"behind it. It has {', '.join(table.header)}."
        )
    return name


def quantity(
    table: TextTable, name: str, units: Mapping[str, float], unit: str | None, option: str
) -> Float[np.ndarray, " row"]:
    """A column in metres or days, by the unit in its name or else by the one that is given."""
    own = parted(name)[1]
    chosen = own if own in units else unit
    if chosen is None:
        raise FileFormatError(
            f"{table.path}: column {name!r} does not say its unit: call it {parted(name)[0]}_"
            f"{next(iter(units))}, or give {option}. Known are {', '.join(units)}."
        )
    return table.numbers(name) * factor(chosen, units, option)


def factor(unit: str, units: Mapping[str, float], option: str) -> float:
    if unit not in units:
        raise RieszError(f"{option} is {unit!r}: give {listed(units)}.")
    return units[unit]


def read_readings(
    path: Path,
    *,
    level: str | None = None,
    distance: float | None = None,
    time_unit: str | None = None,
    length_unit: str | None = None,
) -> tuple[Readings, tuple[str, ...]]:
    """Readings after the start of pumping, and what was done to the table.

    `level` names the column of drawdowns, where it is none of those known; `distance`, in metres,
    is that of all readings where no column tells it.
    """
    table = read_csv(path)
    if not table.num_rows:
        raise FileFormatError(f"{path} has no rows.")
    time = quantity(table, column(table, TIME), TIMES, time_unit, "--time-unit")
    radius = distances(table, distance, length_unit)
    names = names_of(table, radius)
    levels, rested = levels_in(table, level, length_unit, time, names)
    wells = tuple(dict.fromkeys(names))
    number = np.array([wells.index(name) for name in names])
    check_wells(table, wells, number, radius, time)
    after = time > 0
    if not after.any():
        raise FileFormatError(f"{path} has no reading after time 0, when pumping began.")
    kept = sorted(set(number[after].tolist()))
    seen = Readings(
        tuple(wells[one] for one in kept),
        np.searchsorted(kept, number[after]),
        *(column[after] for column in (radius, time, levels)),
    )
    left = int((~after).sum())
    return seen, (*rested, *(f"{left} readings not after time 0 are left out",) * bool(left))


def distances(table: TextTable, distance: float | None, unit: str | None) -> Numbers:
    name = found_column(table, DISTANCE)
    if name is None and distance is None:
        raise FileFormatError(
            f"{table.path} has no column of distance from the pumped well: call it r_m, or give "
            "one for all, --distance."
        )
    if name is None:
        return np.full(table.num_rows, distance)
    found = quantity(table, name, LENGTHS, unit, "--length-unit")
    (bad,) = np.nonzero(found <= 0)
    if bad.size:
        raise FileFormatError(
            f"{table.at(int(bad[0]))}: {name} is {found[bad[0]]:.6g} m, and must be positive."
        )
    return found


def names_of(table: TextTable, radius: Numbers) -> list[str]:
    """Of wells; where there are none, those at one distance are one."""
    name = found_column(table, WELL)
    return table.words(name) if name else [f"{one:.4g} m" for one in radius]


def levels_in(
    table: TextTable, level: str | None, unit: str | None, time: Numbers, names: list[str]
) -> tuple[Numbers, tuple[str, ...]]:
    """Drawdowns, or heads below those at rest."""
    drawdown = level or found_column(table, DRAWDOWN)
    if drawdown is not None:
        return quantity(table, drawdown, LENGTHS, unit, "--length-unit"), ()
    head = found_column(table, HEAD)
    if head is None:
        column(table, DRAWDOWN)
    heads = quantity(table, str(head), LENGTHS, unit, "--length-unit")
    rest = {}
    for row in np.argsort(time, kind="stable"):
        if time[row] <= 0:
            rest[names[row]] = heads[row]
    without = [name for name in dict.fromkeys(names) if name not in rest]
    if without:
        raise FileFormatError(
            f"{table.path}: well {without[0]} has no head at time 0 or before: give one, or a "
            "column of drawdown."
        )
    at_rest = np.array([rest[name] for name in names])
    return at_rest - heads, (f"drawdowns are heads at rest less {head}",)


def check_wells(
    table: TextTable,
    wells: tuple[str, ...],
    number: np.ndarray,
    radius: Numbers,
    time: Numbers,
) -> None:
    """Raise where a well is at two distances, or was read twice at one time."""
    for one, name in enumerate(wells):
        (own,) = np.nonzero(number == one)
        if np.ptp(radius[own]) > 0:
            raise FileFormatError(f"{table.path}: well {name} is at several distances.")
        order = own[np.argsort(time[own], kind="stable")]
        (again,) = np.nonzero(np.diff(time[order]) == 0)
        if again.size:
            raise FileFormatError(
                f"{table.at(int(order[again[0] + 1]))}: well {name} was read before at that time."
            )


def rates_in(
    text: str, *, unit: str = "m3/d", time_unit: str | None = None
) -> tuple[tuple[float, float], ...]:
    """Times from which on rates hold: one number, or a table with columns of time and rate."""
    try:
        return ((0.0, float(text) * factor(unit, RATES, "--rate-unit")),)
    except ValueError:
        path = Path(text)
    if not path.is_file():
        raise RieszError(
            f"--rate is {text!r}: give a number, or a table with columns of time and rate."
        )
    table = read_csv(path)
    if not table.num_rows:
        raise FileFormatError(f"{path} has no rows.")
    time = quantity(table, column(table, TIME), TIMES, time_unit, "--time-unit")
    rate = quantity(table, column(table, RATE), RATES, unit, "--rate-unit")
    (back,) = np.nonzero(np.diff(time, prepend=-np.inf) <= 0)
    if back.size or time[0] < 0:
        row = int(back[0]) if back.size else 0
        raise FileFormatError(
            f"{table.at(row)}: rates hold from times that rise, from 0 on, and not from "
            f"{time[row]:g} days on."
        )
    rows = zip(time.tolist(), rate.tolist(), strict=True)
    return (*((0.0, 0.0),) * bool(time[0] > 0), *rows)

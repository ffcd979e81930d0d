"""Readings and rates of a pumping test from tables: units stand in the names of columns.

`time_min`, `time (min)` and `time [min]` are the same column; a column whose name has no unit needs
one from who reads it. All numbers become metres and days.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
from jaxtyping import Float

from riesz.errors import FileFormatError, RieszError, any_of
from riesz.io import TextTable, read_csv
from riesz_pumping.well import Numbers, Readings

FOOT, GALLON = 0.3048, 3.785411784e-3
TIMES = {"s": 1 / 86400, "sec": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "days": 1.0}
LENGTHS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": FOOT, "in": FOOT / 12}
RATES = {"m3/d": 1.0, "m3/h": 24.0, "m3/s": 86400.0, "l/s": 86.4, "l/min": 1.44}
RATES |= {"gpm": GALLON * 1440, "ft3/s": FOOT**3 * 86400, "ft3/d": FOOT**3}
OPTIONS = {id(TIMES): "--time-unit", id(LENGTHS): "--length-unit", id(RATES): "--rate-unit"}

TIME, DRAWDOWN, HEAD = ("time", "t"), ("drawdown", "s"), ("head", "level", "h")
DISTANCE, WELL, RATE = ("r", "distance", "radius"), ("well", "name", "piezometer"), ("rate", "q")


def split_unit(name: str) -> tuple[str, str]:
    """What a column holds, and its unit: `rate_m3_d` is a rate in m3/d."""
    first, *rest = [part for part in re.split(r"[\s_,\[\]()]+", name.lower()) if part] or [""]
    return first, "/".join(rest)


def find_column(table: TextTable, words: tuple[str, ...]) -> str | None:
    """The only column that begins with one of these words; none where there is none."""
    names = [name for word in words for name in table.header if split_unit(name)[0] == word]
    if len(names) > 1 and split_unit(names[0])[0] == split_unit(names[1])[0]:
        raise FileFormatError(
            f"{table.path} has several columns of {words[0]}, {', '.join(names)}: leave one."
        )
    return names[0] if names else None


def quantity(
    table: TextTable,
    words: tuple[str, ...],
    units: Mapping[str, float],
    unit: str | None,
    name: str | None = None,
) -> Float[np.ndarray, " row"]:
    """A column in metres or days, by the unit in its name or else by the one that is given."""
    name = name or find_column(table, words)
    if name is None:
        raise FileFormatError(
            f"{table.path} has no column of {words[0]}: call it {any_of(words)}, with its unit "
            f"behind it. It has {', '.join(table.header)}."
        )
    word, own = split_unit(name)
    chosen, option = own if own in units else unit, OPTIONS[id(units)]
    if chosen is None:
        raise FileFormatError(
            f"{table.path}: column {name!r} does not say its unit: call it {word}_"
            f"{next(iter(units))}, or give {option}, one of {any_of(units)}."
        )
    return table.numbers(name) * factor(chosen, units)


def factor(unit: str, units: Mapping[str, float]) -> float:
    if unit not in units:
        raise RieszError(f"{OPTIONS[id(units)]} is {unit!r}: give {any_of(units)}.")
    return units[unit]


def open_table(path: Path) -> TextTable:
    table = read_csv(path)
    if not table.num_rows:
        raise FileFormatError(f"{path} has no rows.")
    return table


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
    table = open_table(path)
    time = quantity(table, TIME, TIMES, time_unit)
    if distance is not None and find_column(table, DISTANCE) is None:
        radius = np.full(table.num_rows, distance)
    else:
        radius = quantity(table, DISTANCE, LENGTHS, length_unit)
    well = find_column(table, WELL)
    names = table.words(well) if well else [f"{one:.4g} m" for one in radius]
    if level is None and find_column(table, DRAWDOWN) is None and find_column(table, HEAD):
        levels = falls(table, quantity(table, HEAD, LENGTHS, length_unit), time, names)
    else:
        levels = quantity(table, DRAWDOWN, LENGTHS, length_unit, level)
    check_wells(table, names, radius, time)
    after = time > 0
    if not after.any():
        raise FileFormatError(f"{path} has no reading after time 0, when pumping began.")
    kept = [name for name, later in zip(names, after, strict=True) if later]
    wells = tuple(dict.fromkeys(kept))
    number = np.array([wells.index(name) for name in kept])
    seen = Readings(wells, number, *(column[after] for column in (radius, time, levels)))
    left = table.num_rows - len(seen)
    return seen, (f"{left} readings not after time 0 are left out",) if left else ()


def falls(table: TextTable, heads: Numbers, time: Numbers, names: list[str]) -> Numbers:
    """From the last head of each well before pumping began."""
    order = [row for row in np.argsort(time, kind="stable") if time[row] <= 0]
    rest = {names[row]: heads[row] for row in order}
    without = [name for name in names if name not in rest]
    if without:
        raise FileFormatError(
            f"{table.path}: well {without[0]} has no head at time 0 or before: give one, or a "
            "column of drawdown."
        )
    return np.array([rest[name] for name in names]) - heads


def check_wells(table: TextTable, names: list[str], radius: Numbers, time: Numbers) -> None:
    """Raise where a well is on the axis or at two distances, or was read twice at one time."""
    (bad,) = np.nonzero(radius <= 0)
    if bad.size:
        raise FileFormatError(
            f"{table.at(int(bad[0]))}: the distance is {radius[bad[0]]:.6g} m: it must be positive."
        )
    place, known = {}, set()
    for row, (name, r, t) in enumerate(zip(names, radius, time, strict=True)):
        if place.setdefault(name, r) != r:
            raise FileFormatError(f"{table.at(row)}: well {name} is elsewhere before.")
        if (name, t) in known:
            raise FileFormatError(f"{table.at(row)}: well {name} was read before at that time.")
        known.add((name, t))


def rates_in(
    text: str, *, unit: str = "m3/d", time_unit: str | None = None
) -> tuple[tuple[float, float], ...]:
    """Times from which on rates hold: one number, or a table with columns of time and rate."""
    scale, path = factor(unit, RATES), Path(text)
    with suppress(ValueError):
        return ((0.0, float(text) * scale),)
    if not path.is_file():
        raise RieszError(
            f"--rate is {text!r}: give a number, or a table with columns of time and rate."
        )
    table = open_table(path)
    time = quantity(table, TIME, TIMES, time_unit)
    rate = quantity(table, RATE, RATES, unit)
    (back,) = np.nonzero(np.diff(time, prepend=-np.finfo(float).tiny) <= 0)
    if back.size:
        raise FileFormatError(
            f"{table.at(int(back[0]))}: rates hold from times that rise, from 0 on, and not from "
            f"{time[back[0]]:g} days on."
        )
    rows = zip(time.tolist(), rate.tolist(), strict=True)
    return (*((0.0, 0.0),) * bool(time[0] > 0), *rows)

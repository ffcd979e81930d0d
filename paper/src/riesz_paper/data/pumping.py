"""Readings of aquifer tests: levels at distances from a well, and the days since it was disturbed.

Three pumping tests and a slug test, from the documentation of timflow (MIT); `docs/data.md` says
where they came from first.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from riesz.errors import FileFormatError, RieszError
from riesz.io.tables.text import TextTable, read_csv
from riesz_paper.data.library import data_folder


@dataclass(frozen=True, eq=False)
class Readings:
    """Levels of one test; each reading belongs to one of the wells."""

    wells: tuple[str, ...]
    well: Int[np.ndarray, " reading"]  # a place in `wells`
    radius: Float[np.ndarray, " reading"]  # m from the well's axis
    time: Float[np.ndarray, " reading"]  # days since the start
    level: Float[np.ndarray, " reading"]  # m: fall of head, or the displacement in a slug test

    def __len__(self) -> int:
        return len(self.level)


def readings(test: str, level: str, folder: Path | None = None) -> Readings:
    """Those of one test, whose levels are in a column, from `$RIESZ_DATA/pumping` or elsewhere."""
    path = (data_folder("pumping") if folder is None else folder) / f"{test}.csv"
    if not path.is_file():
        raise RieszError(
            f"{path} is not there: put the tables of the tests into a folder pumping, and name the "
            "folder above it by RIESZ_DATA; docs/data.md says which they are."
        )
    table = read_csv(path)
    names = table.words("well")
    wells = tuple(dict.fromkeys(names))
    found = Readings(
        wells=wells,
        well=np.array([wells.index(name) for name in names]),
        radius=positive(table, "r_m"),
        time=positive(table, "time_d"),
        level=table.numbers(level),
    )
    check_places(found, table)
    return found


def positive(table: TextTable, name: str) -> Float[np.ndarray, " reading"]:
    numbers = table.numbers(name)
    (bad,) = np.nonzero(numbers <= 0)
    if bad.size:
        raise FileFormatError(
            f"{table.at(int(bad[0]))}: {name} is {numbers[bad[0]]:.6g}, and must be positive."
        )
    return numbers


def check_places(found: Readings, table: TextTable) -> None:
    """Raise where a well is at two distances, or was read twice at one time."""
    for number, name in enumerate(found.wells):
        (own,) = np.nonzero(found.well == number)
        if np.ptp(found.radius[own]) > 0:
            raise FileFormatError(f"{table.path}: well {name} is at several distances r_m.")
        order = own[np.argsort(found.time[own], kind="stable")]
        (again,) = np.nonzero(np.diff(found.time[order]) == 0)
        if again.size:
            raise FileFormatError(
                f"{table.at(int(order[again[0] + 1]))}: well {name} was read before at that time."
            )

"""Readings of aquifer tests: levels at distances from a well, and the days since it was disturbed.

Three pumping tests and a slug test, from the documentation of timflow (MIT); `paper/docs/data.md`
says where they came from first.
"""

from pathlib import Path

from riesz.errors import RieszError
from riesz_paper.data.library import data_folder
from riesz_pumping.tables import read_readings
from riesz_pumping.well import Readings


def readings(test: str, level: str, folder: Path | None = None) -> Readings:
    """Those of one test, whose levels are in a column, from `$RIESZ_DATA/pumping` or elsewhere."""
    path = (data_folder("pumping") if folder is None else folder) / f"{test}.csv"
    if not path.is_file():
        raise RieszError(
            f"{path} is not there: put the tables of the tests into a folder pumping, and name the "
            "folder above it by RIESZ_DATA; paper/docs/data.md says which they are."
        )
    return read_readings(path, level=level)[0]

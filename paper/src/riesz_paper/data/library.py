"""Data sets that are too large, or not ours, to be part of the package: where they are kept."""

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from riesz.errors import RieszError, any_of, nearest

VARIABLE = "RIESZ_DATA"


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set without having it."""

    name: str
    about: str
    licence: str
    size: str  # of its folder
    marker: str  # a file that every folder of it has; none where the package holds the data


DATA_SETS = {
    one.name: one
    for one in (
        DataSet(
            "esrp",
            "groundwater levels of the eastern Snake River Plain aquifer, Idaho",
            "public domain (CC0; U.S. Geological Survey)",
            "0.9 MB",
            "wells.csv",
        ),
        DataSet(
            "hanford",
            "transmissivity and heads under the Hanford Site, Washington",
            "MIT (Y. Zong; Y.H. Yeung)",
            "0.6 MB",
            "hanford_1x.npz",
        ),
        DataSet(
            "pumping",
            "readings of three pumping tests and a slug test",
            "MIT (timflow); measured facts, cite their sources",
            "0.1 MB",
            "sioux.csv",
        ),
        DataSet(
            "jura",
            "heavy metals in the topsoil of the Swiss Jura",
            "measured facts, cite their sources",
            "0.1 MB",
            "",
        ),
    )
}


def data_set(name: str) -> DataSet:
    """The one of this name."""
    if name not in DATA_SETS:
        raise RieszError(
            f"there is no data set {name!r}: {nearest(name, DATA_SETS)}There is "
            f"{any_of(DATA_SETS)}."
        )
    return DATA_SETS[name]


def data_folder(name: str) -> Path:
    """The folder of a data set, `$RIESZ_DATA/NAME`, whether it is there or not."""
    root = os.environ.get(VARIABLE, "")
    if not root:
        raise RieszError(
            f"{VARIABLE} is not set: set it to a folder for data sets, and get this one by: riesz "
            f"data fetch {name}."
        )
    return Path(root) / name


def state_of(one: DataSet) -> dict[str, str | bool | None]:
    """Whether a data set is there, and where; as a row of a list."""
    told = {"name": one.name, "about": one.about, "licence": one.licence, "size": one.size}
    if not one.marker:
        return {**told, "present": True, "where": "in the package"}
    if not os.environ.get(VARIABLE):
        return {**told, "present": False, "where": None}
    folder = data_folder(one.name)
    return {**told, "present": (folder / one.marker).is_file(), "where": str(folder)}


def optional(package: str) -> Any:
    """A package that only getting data needs."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise RieszError(f"getting data needs {package}: pip install '.[data]'.") from None
